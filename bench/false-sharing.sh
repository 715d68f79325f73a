#!/bin/bash
# Plants false sharing in a PostgreSQL and asks `pgassay lines` for it: the main array of LWLocks without
# padding, four locks on a cache line, beside a server as released.
#
#   bench/false-sharing.sh PROGRAM SOURCE [TARGET]
#
# SOURCE: PostgreSQL 13 to 18, a directory or a tarball; TARGET: the server to hold it against (temp). The
# build takes several minutes; repeated, it is there. Prints where locks meet on a line in both, and fails
# unless they do in the planted one and nowhere in the other.
set -euo pipefail
program=${1:?usage: false-sharing.sh PROGRAM SOURCE [TARGET]}
source=${2:?usage: false-sharing.sh PROGRAM SOURCE [TARGET]}
target=${3:-temp}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" build "$source" --name false-sharing --variant "unpadded patch=$here/unpadded-locks.patch" >&2
"$program" lines "$target" -n 20 --seed 1 --json -o "$work/released.json" >&2
"$program" lines build:false-sharing-unpadded -n 20 --seed 1 --json -o "$work/unpadded.json" >&2
python3 - "$work" <<'PY'
import json, sys
told = {}
for variant in ("released", "unpadded"):
    document = json.load(open(f"{sys.argv[1]}/{variant}.json"))
    told[variant] = [m for m in document["meetings"] if any("LWLock" in part for part in m["parts"])]
    print(f"{variant}: {document['version'].split(',')[0]}, {document['named_share']:.1%} of the accesses named")
    for meeting in told[variant]:
        print(f"  {meeting['kind']}, {meeting['lines']} lines, taken {meeting['takes']} times: {'; '.join(meeting['parts'])}")
kinds = {meeting["kind"] for meeting in told["unpadded"]}
sys.exit(0 if "false-sharing" in kinds and not told["released"] else "the planted false sharing was not told")
PY

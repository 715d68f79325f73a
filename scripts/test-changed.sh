#!/bin/bash
# Runs the unit tests, and the tests named in arguments, of the crates that changed and of those that depend on them.
#
#   scripts/test-changed.sh [ARGS of cargo test...]
#
# Changed is what differs from the merge base with origin/main, or from HEAD~1 where there is no origin/main, committed
# or not. All test executables are built, so that features unify as in make test; this script, as cargo's runner, starts
# those of the crates in question.
set -euo pipefail
if [ "${1:-}" = --runner ]; then
    shift
    case " $PGASSAY_CHANGED " in *" $CARGO_PKG_NAME "* | " all ") exec "$@" ;; esac
    exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD~1)
files=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)
# Documents, schemas, workloads and the extension are read by tests of several crates.
if grep -qvE '^(crates/([a-z]+/)?[a-z]+/(src|tests|Cargo\.toml)|(bench|scripts)/|Makefile$|[A-Z]+\.md$)' <<<"${files:-none}"; then
    PGASSAY_CHANGED=all
else
    PGASSAY_CHANGED=$(sed -nE 's#^crates/((foundation|measurement|results)/)?([a-z]+)/.*#pgassay-\3#; s/^pgassay-pgassay$/pgassay/p; /^pgassay-/p' <<<"$files" |
        sort -u | while read -r crate; do
        "$here/cargo.sh" tree --workspace --locked --edges normal,build,dev --prefix none --no-dedupe --invert "$crate" |
            cut -d ' ' -f 1
    done | sort -u | tr '\n' ' ')
fi
export PGASSAY_CHANGED
echo "Crates tested: ${PGASSAY_CHANGED:-none}"
host=$("$here/cargo.sh" --with rustc -vV | sed -n 's/^host: //p')
exec "$here/cargo.sh" test --config "target.$host.runner=['$here/test-changed.sh', '--runner']" \
    --workspace --locked --quiet --lib "$@"

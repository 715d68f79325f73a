#!/bin/bash
# Runs all tests of the workspace, whichever fail, and lists the ten slowest.
#
#   scripts/test-workspace.sh [ARGS of cargo test...]
#
# libtest tells each test's time only where unstable options are allowed: as the runner of the test executables this
# script allows them there, and nowhere else, as compiling with them would compile everything anew.
set -euo pipefail
if [ "${1:-}" = --runner ]; then
    shift
    case $1 in
    */deps/*) RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time ;;
    *) exec "$@" ;;
    esac
fi
here=$(cd "$(dirname "$0")" && pwd)
host=$("$here/cargo.sh" --with rustc -vV | sed -n 's/^host: //p')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"$here/cargo.sh" test --config "target.$host.runner=['$here/test-workspace.sh', '--runner']" \
    --workspace --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
echo "The ten slowest tests, in seconds:"
sed -nE 's/^test (.*) \.\.\. (ok|FAILED) <([0-9.]+)s>$/\3 \1/p' "$log" | sort -rn | sed -n '1,10s/^/  /p'
exit $status

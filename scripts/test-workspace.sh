#!/bin/bash
# Runs all tests of the workspace, whichever fail, and lists the ten slowest.
#
#   scripts/test-workspace.sh [ARGS of cargo test...]
#
# The tests of the program, which wait for servers half of the time, run next to all others.
#
# libtest tells each test's time only where unstable options are allowed: as the runner of the test executables this
# script allows them there, and nowhere else, as compiling with them would compile everything anew.
set -euo pipefail
if [ "${1:-}" = --runner ]; then
    shift
    case $PART,$1 in
    others,*/deps/program-*) ;;
    *,*/deps/*) RUSTC_BOOTSTRAP=1 exec "$@" -Z unstable-options --report-time ;;
    *) exec "$@" ;;
    esac
    exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
host=$("$here/cargo.sh" --with rustc -vV | sed -n 's/^host: //p')
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
tests() { # part, ARGS of cargo test
    PART=$1 "$here/cargo.sh" test --config "target.$host.runner=['$here/test-workspace.sh', '--runner']" \
        --workspace --locked --no-fail-fast "${@:2}" 2>&1
}
"$here/cargo.sh" test --workspace --locked --no-run
status=0
tests others "$@" >"$logs/others" &
tests program --test program "$@" | tee "$logs/program" || status=$?
wait $! || status=$?
cat "$logs/others"
echo "The ten slowest tests, in seconds:"
sed -nE 's/^test (.*) \.\.\. (ok|FAILED) <([0-9.]+)s>$/\3 \1/p' "$logs"/* | sort -rn | sed -n '1,10s/^/  /p'
exit $status

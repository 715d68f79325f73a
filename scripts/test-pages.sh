#!/bin/bash
# Opens pages of reports in a real browser: a short assay's, a short comparison's, and those that
# the tests of reports write into target/tmp/pages.
#
#   scripts/test-pages.sh PROGRAM
#
# Needs chromedriver and Debian's python3-selenium (scripts/bootstrap.sh test).
set -euo pipefail
program=$(realpath "${1:?missing argument: the pgassay to measure with}")
cd "$(dirname "$0")/.."
if ! command -v chromedriver >/dev/null; then
    # Without one on Debian, bootstrap.sh has failed.
    [ "$(. /etc/os-release && echo "$ID")" != debian ] || { echo "test-pages.sh: chromedriver is missing" >&2; exit 3; }
    echo "test-pages.sh: THE PAGES WERE NOT TESTED: this distribution has no package of chromedriver" >&2
    exit 0
fi
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
"$program" assay temp --quick --clients 1,2 --runs "$runs" >"$runs/said" 2>&1 || {
    cat "$runs/said" >&2
    exit 1
}
# Whether it is found slower (1) or nothing is shown (5) is no matter here.
"$program" compare temp temp --set-b work_mem=8MB --scale 1 --pairs 6 --noise-pairs 6 --clients 1,2 \
    --runs "$runs/compared" --html "$runs/comparison.html" >"$runs/said" 2>&1 || case $? in
    1 | 5) ;;
    *)
        cat "$runs/said" >&2
        exit 1
        ;;
esac
"$program" report last --runs "$runs" --format firefox --output "$runs/profile.json" 2>"$runs/said" || {
    cat "$runs/said" >&2
    exit 1
}
scripts/cargo.sh test --workspace --locked --quiet --test report -- --exact html
[ -s target/tools/axe.min.js ] || { echo "test-pages.sh: axe is missing: scripts/bootstrap.sh test" >&2; exit 3; }
FIREFOX_PROFILE=$runs/profile.json /usr/bin/python3 scripts/test-pages.py "$runs"/*/report.html "$runs/comparison.html" target/tmp/pages/*.html
mv "$runs"/compared/* "$runs"/
rm -rf "$runs/compared" "$runs/said" "$runs/comparison.html" "$runs/profile.json"
/usr/bin/python3 scripts/test-serve.py "$program" "$runs"

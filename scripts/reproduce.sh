#!/bin/bash
# Builds the packages of the committed state a second time, in another directory and with another home of
# cargo, and compares them with those in dist/: every file has to be the same, byte for byte.
#
#   scripts/reproduce.sh [PROCESSOR...]     as for scripts/dist.sh
#
# The exit code is 1 if a file differs or is missing. KEEP keeps the second directory, to look into it.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/pgassay-reproduce-XXXXXX")
finish() { [ -n "${KEEP:-}" ] || rm -rf "$work"; }
trap finish EXIT
git clone -q "$project" "$work/elsewhere/again"
git -C "$work/elsewhere/again" checkout -q "$(git -C "$project" rev-parse HEAD)"
env -u CARGO_TARGET_DIR CARGO_HOME="$work/home" "$work/elsewhere/again/scripts/dist.sh" "$@"
cd "$work/elsewhere/again/dist"
result=0
while read -r sum file; do
    # It lists the processors that were asked for.
    if [[ $file = *.built-with.txt ]]; then
        if grep -Fxvf "$project/dist/$file" "$file"; then echo "DIFFERENT  $file" && result=1; else echo "same       $file"; fi
        continue
    fi
    first=$(sed -n "s|^\([0-9a-f]*\)  $file\$|\1|p" "$project/dist/SHA256SUMS")
    case $first in
    "$sum") echo "same       $file" ;;
    '') echo "missing    $file" && result=1 ;;
    *) echo "DIFFERENT  $file" && result=1 ;;
    esac
done <SHA256SUMS
exit $result

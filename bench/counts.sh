#!/bin/bash
# How reliably `compare --by instructions` detects a change of one per cent: TIMES
# (10) comparisons with a patch that adds a hundredth of a transaction's
# instructions, and as many without. Prints one line per comparison and a summary.
#
#   bench/counts.sh PGASSAY SOURCE [TIMES]     SOURCE: the source of PostgreSQL 15
set -euo pipefail
pgassay=$(readlink -f "${1:?missing argument: the pgassay program}")
source=${2:?missing argument: the source of PostgreSQL 15}
times=${3:-10}
here=$(cd "$(dirname "$0")" && pwd)
"$pgassay" build "$source" --name counts --variant O2 \
    --variant "more O2 patch=$here/one-percent.patch"
found=0 same=0 worst=0
for n in $(seq "$times"); do
    for pair in "O2 more" "O2 O2"; do
        read -r a b <<< "$pair"
        start=$(date +%s)
        code=0
        json=$("$pgassay" compare --by instructions --delta 0.2% --seed "$n" --json \
            "build:counts-$a" "build:counts-$b") || code=$?
        read -r estimate noise <<< "$(printf '%s' "$json" | python3 -c '
import json, sys
counted = json.load(sys.stdin)["counted"]
print("%.4f %.4f" % (counted["difference"]["estimate"] * 100, counted["noise"] * 100))')"
        echo "$n: $a against $b: $estimate %, A against itself $noise %, exit code $code," \
            "$(($(date +%s) - start)) s"
        case $b:$code in
            more:1) found=$((found + 1)) ;;
            O2:0) same=$((same + 1)) ;;
        esac
        [ "$b" = more ] || worst=$(printf '%s\n' "$worst" "${estimate#-}" | sort -g | tail -1)
    done
done
echo "one per cent detected in $found of $times; equal builds reported as equal in $same of $times," \
    "at most $worst % apart"

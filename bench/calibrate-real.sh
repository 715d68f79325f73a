#!/bin/bash
# How often comparisons are wrong on this very machine: real comparisons of equal
# servers, and what replaying their pairs with differences put in shows.
#
#	bench/calibrate-real.sh PROGRAM [COMPARISONS [MINUTES]]
#
# records so many A/A comparisons (40) of at most so many minutes each (2), keeps
# their documents below target/calibrate-real (OUT in the environment names another
# place), and prints two tables in markdown. What is there from earlier is taken
# along: a recording that was stopped is gone on with, and COMPARISONS of 0 only
# replays. TARGET is what is compared with itself (temp), CLIENTS how many (4).
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?the program}")
comparisons=${2:-40}
minutes=${3:-2}
target=${TARGET:-temp}
clients=${CLIENTS:-4}
out=${OUT:-target/calibrate-real}
mkdir -p "$out"
PGASSAY_RUNS=$(mktemp -d)
export PGASSAY_RUNS
trap 'rm -rf "$PGASSAY_RUNS"' EXIT

here=$(find "$out" -name 'aa-*.json' -size +0 | wc -l)
for n in $(seq $((here + 1)) "$comparisons"); do
	file=$(printf '%s/aa-%03d.json' "$out" "$n")
	code=0
	# δ of 0 asks for as many pairs as fit into the time
	"$program" compare "$target" "$target" --clients "$clients" --delta 0 \
		--minutes "$minutes" --scale 2 --json >"$file.new" 2>"$out/log" || code=$?
	case $code in
	0 | 1 | 5) mv "$file.new" "$file" ;;
	*)
		cat "$out/log" >&2
		exit "$code"
		;;
	esac
	echo "$n of $comparisons" >&2
done
${CARGO:-cargo} run --quiet --release --package pgassay-analysis --example replay -- "$out"/aa-*.json

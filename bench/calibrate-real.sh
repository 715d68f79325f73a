#!/bin/bash
# Error rates of comparisons on this machine: real comparisons of equal servers,
# and a replay of their pairs with differences injected.
#
#	bench/calibrate-real.sh PROGRAM [COMPARISONS [MINUTES]]
#
# records COMPARISONS (40) A/A comparisons of at most MINUTES (2) each, keeps their
# documents below target/calibrate-real (or OUT in the environment), and prints two
# tables in markdown. Earlier documents are included: an interrupted recording is
# continued, and COMPARISONS=0 only replays. TARGET is the server that is compared
# with itself (temp), CLIENTS the number of clients (4).
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?missing argument: the pgassay program}")
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

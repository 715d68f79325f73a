#!/bin/bash
# Error rates of comparisons on this machine: real comparisons of equal servers,
# and a replay of their pairs with differences injected, beside what a fixed threshold of 2.5 % on single runs is worth.
#
#	bench/calibrate-real.sh PROGRAM [COMPARISONS [MINUTES]]
#
# records COMPARISONS (40) A/A comparisons of at most MINUTES (2) each, keeps their
# documents below target/calibrate-real (or OUT in the environment), and prints two
# tables in markdown. Earlier documents are included: an interrupted recording is
# continued, and COMPARISONS=0 only replays. What else the machine did is in load.tsv beside them:
# the load average at the beginning and at the end, and the share of CPU time that the hypervisor took. TARGET is the server that is compared
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
	before=$(cut -d' ' -f1 /proc/loadavg)
	cpu=$(head -1 /proc/stat)
	# δ of 0 asks for as many pairs as fit into the time
	"$program" compare "$target" "$target" --clients "$clients" --delta 0 \
		--minutes "$minutes" --scale 2 --json >"$file.new" 2>"$out/log" || code=$?
	case $code in
	0 | 1 | 5)
		stolen=$(head -1 /proc/stat | awk -v then="$cpu" '{
			split(then, was)
			for (n = 2; n <= 9; n++) all += $n - was[n]
			printf "%.1f", 100 * ($9 - was[9]) / all
		}')
		printf '%s\t%s\t%s\t%s\n' "$(basename "$file")" "$before" "$(cut -d' ' -f1 /proc/loadavg)" "$stolen" >>"$out/load.tsv"
		mv "$file.new" "$file"
		;;
	*)
		cat "$out/log" >&2
		exit "$code"
		;;
	esac
	echo "$n of $comparisons" >&2
done
${CARGO:-cargo} run --quiet --release --package pgassay-analysis --example replay -- "$out"/aa-*.json

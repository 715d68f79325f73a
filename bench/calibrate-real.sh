#!/bin/bash
# Error rates of comparisons on this machine: real comparisons of equal servers, and of servers that do more work
# for each statement (bench/slower.c), so that they are slower by 5 and by 3 %; then a replay of the pairs of equal
# servers with differences injected, beside what a fixed threshold of 2.5 % on single runs is worth.
#
#	bench/calibrate-real.sh PROGRAM [COMPARISONS [MINUTES]]
#
# COMPARISONS (40) of equal servers, and after every fourth one of each slowdown, of at most MINUTES (2) each. Their
# documents are kept below target/calibrate-real (or OUT in the environment): an interrupted recording is continued, and
# COMPARISONS=0 only replays. What else the machine did is in load.tsv beside them: the load average at the beginning
# and at the end, and the share of CPU time that the hypervisor took. Prints tables in markdown. TARGET is the server
# (temp), CLIENTS the number of clients (4), PG_CONFIG that of the server (pg_config), for the library of the slowdown.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?missing argument: the pgassay program}")
comparisons=${2:-40}
minutes=${3:-2}
target=${TARGET:-temp}
clients=${CLIENTS:-4}
pg_config=${PG_CONFIG:-pg_config}
out=${OUT:-target/calibrate-real}
mkdir -p "$out"
# The server's user loads the library from here.
work=$(mktemp -d /var/tmp/pgassay-calibrate.XXXXXX)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
export PGASSAY_RUNS=$work/runs

# compared FILE MINUTES ARGUMENT…: one comparison, unless its document is there
compared() {
	local file=$out/$1.json minutes=$2 code=0 before cpu stolen
	shift 2
	[ ! -s "$file" ] || return 0
	before=$(cut -d' ' -f1 /proc/loadavg)
	cpu=$(head -1 /proc/stat)
	# δ of 0 asks for as many pairs as fit into the time
	"$program" compare "$target" "$target" --clients "$clients" --delta 0 \
		--minutes "$minutes" --scale 2 --json "$@" >"$file.new" 2>"$out/log" || code=$?
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
	echo "$(basename "$file") is there" >&2
}

# slower FILE TURNS MINUTES: B does TURNS more work for each statement
slower() {
	compared "$1" "$3" --set "shared_preload_libraries=$work/slower" --set-a slower.work=0 --set-b "slower.work=$2"
}

# turns PERCENT: the work that makes B slower by so much. A transaction's time grows in proportion to it; how fast
# is taken from a comparison whose difference is well above the noise.
coarse=20000
turns() {
	python3 - "$out/work.json" $coarse "$1" <<-'PY'
		import json, sys
		estimate = json.load(open(sys.argv[1]))["results"][0]["compared"]["ratio"]["estimate"]
		share = float(sys.argv[3]) / 100
		print(round(int(sys.argv[2]) * (1 / (1 - share) - 1) / (1 / estimate - 1)))
	PY
}

if [ "$comparisons" -ge 4 ]; then
	cc -O2 -shared -fPIC -I "$("$pg_config" --includedir-server)" -o "$work/slower.so" bench/slower.c
	slower work $coarse "$minutes"
fi
for n in $(seq "$comparisons"); do
	compared "$(printf 'aa-%03d' "$n")" "$minutes"
	[ $((n % 4)) = 0 ] || continue
	for percent in 5 3; do
		slower "$(printf 'less-%d-%03d' "$percent" $((n / 4)))" "$(turns "$percent")" "$minutes"
	done
done

python3 - "$out" <<'PY'
import json
import pathlib
import sys

out = pathlib.Path(sys.argv[1])
load = dict(row.rstrip("\n").split("\t", 1) for row in open(out / "load.tsv"))
print("| injected | comparison | verdict | B/A, 95% interval | pairs | launches | load average before, after | stolen |")
print("|---|---|---|---|---|---|---|---|")
for share, files in (("0", "aa-*.json"), ("-5%", "less-5-*.json"), ("-3%", "less-3-*.json")):
    for file in sorted(out.glob(files)):
        document = json.loads(file.read_text())
        result = document["results"][0]["compared"]
        before, after, stolen = load.get(file.name, "?\t?\t?").split("\t")
        by = {low: 100 * (result["ratio"][low] - 1) for low in ("estimate", "low", "high")}
        print(f"| {share} | {file.stem} | {result['verdict']} | {by['estimate']:+.1f}% [{by['low']:+.1f} to {by['high']:+.1f}] "
              f"| {result['pairs']} | {document['plan']['launches']} | {before}, {after} | {stolen}% |")
print()
PY
${CARGO:-cargo} run --quiet --release --package pgassay-analysis --example replay -- "$out"/aa-*.json

#!/bin/bash
# Statistical power: whether comparisons detect real slowdowns, and take the time
# that they forecast. Compares servers that do a little more work per transaction
# (bench/slower.c), and equal servers.
#
#	bench/power.sh PROGRAM [TIMES [PG_CONFIG]]
#
# does TIMES (3) comparisons each with slowdowns of 5 %, 3 % and none (EFFECTS), after
# calibrating the amount of work, and prints a table in markdown. δ equals the injected
# slowdown, or 3 % if there is none; each comparison takes as many pairs as its noise
# floor requires, 10 minutes at most (MINUTES). KEEP names a directory for the documents.
set -euo pipefail
cd "$(dirname "$0")"
program=$(realpath "${1:?missing argument: the pgassay program}")
times=${2:-3}
pg_config=${3:-pg_config}
minutes=${MINUTES:-10}
dir=$(mktemp -d /var/tmp/pgassay-slower.XXXXXX)
chmod 755 "$dir"
trap 'rm -rf "$dir"' EXIT
export PGASSAY_RUNS=$dir/runs
cc -O2 -shared -fPIC -I "$("$pg_config" --includedir-server)" -o "$dir/slower.so" slower.c
target=$("$pg_config" --bindir)

# compare_work TURNS ARGUMENT…: B does TURNS more work; writes the document to standard output
compare_work() {
	local turns=$1 code=0
	shift
	"$program" compare "$target" "$target" --clients 4 --scale 2 --json \
		--set "shared_preload_libraries=$dir/slower" --set-a slower.work=0 \
		--set-b "slower.work=$turns" "$@" 2>"$dir/log" || code=$?
	case $code in
	0 | 1 | 5) ;;
	*)
		cat "$dir/log" >&2
		exit "$code"
		;;
	esac
}

# a quarter to a half more work, well above the noise: transaction time grows in
# proportion to the turns
coarse=20000
compare_work $coarse --delta 0 --minutes 1 >"$dir/coarse.json"
turns_for() {
	python3 - "$dir/coarse.json" $coarse "$1" <<-'PY'
		import json, sys
		estimate = json.load(open(sys.argv[1]))["results"][0]["throughput"]["ratio"]["estimate"]
		share = float(sys.argv[3]) / 100
		print(round(int(sys.argv[2]) * (1 / (1 - share) - 1) / (1 / estimate - 1)))
	PY
}
echo "| injected | verdict | B/A, 95 % interval | pairs | pair spread | forecast time | actual time |"
echo "|---|---|---|---|---|---|---|"
for n in $(seq "$times"); do
	for share in ${EFFECTS:-5 3 0}; do
		started=$(date +%s)
		delta=$((share ? share : 3))
		compare_work "$(turns_for "$share")" --delta $delta% --minutes "$minutes" \
			>"$dir/said.json"
		[ -z "${KEEP:-}" ] || cp "$dir/said.json" "$KEEP/power-$share-$n.json"
		python3 - "$dir/said.json" "$dir/log" "$share" $(($(date +%s) - started)) <<-'PY'
			import json, re, sys
			said = json.load(open(sys.argv[1]))
			result = said["results"][0]["throughput"]
			ratio = result["ratio"]
			told = re.search(
			    r"spread by (\S+ %) here: (\d+ pairs(?: in \d+ launches)? follow, [^,;]+)",
			    open(sys.argv[2]).read())
			print("| %s %% | %s | %.3f [%.3f..%.3f] | %d | %s | %s | %s s |" % (
			    sys.argv[3], result["verdict"], ratio["estimate"], ratio["low"], ratio["high"],
			    result["pairs"], *(told.groups() if told else ("", "")), sys.argv[4]))
		PY
	done
done

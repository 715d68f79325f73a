#!/bin/bash
# Checks for memory growth and leftovers over a long time: first one run at full
# speed, whose memory is sampled, then many short runs one after the other.
#
#	bench/soak.sh [MINUTES [MINUTES-OF-SHORT-RUNS [TARGET]]]	(60, 15, temp)
#
# Prints one line per minute and one per short run.  Exits 1 if a run fails, if the
# long run's memory at its end exceeds its memory after the first minute by more than
# a tenth plus 1 MiB, if the peak memory of a later short run exceeds the first's by
# as much, or if anything is left behind at the end.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
program=$project/target/release/pgassay
minutes=${1:-60}
short_minutes=${2:-15}
target=${3:-temp}

work=$(mktemp -d /var/tmp/pgassay-soak.XXXXXX)
long=''
clean_up() {
	[ -z "$long" ] || kill -INT "$long" 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap clean_up EXIT
mkdir "$work/scratch"
chmod 755 "$work" "$work/scratch"

grew() { # first kB, last kB
	[ "$2" -gt $(($1 + $1 / 10 + 1024)) ]
}

# Peak resident memory, as recorded by the run itself.
peak_kb() { # run directory
	sed -n 's/.*"max_rss_bytes" *: *\([0-9]*\).*/\1/p' "$1/end.json" | awk '{ print int($1 / 1024) }'
}

# Runs in the background, so that it can be observed and stopped.
"$program" run select-only "$target" --runs "$work/runs" --scratch "$work/scratch" \
	--clients 8 --time $((minutes * 60)) --trials 1 --json >"$work/long.json" 2>"$work/out" &
long=$!
first='' last=''
for minute in $(seq "$minutes"); do
	sleep 60
	resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$long/status" 2>/dev/null) || break
	[ -n "$resident" ] || break
	# The first minute is start-up: the cluster, its tables, the clients' buffers.
	[ -n "$first" ] || first=$resident
	last=$resident
	echo "long run: $resident kB resident after $minute min"
done
wait "$long" || { cat "$work/out" >&2; echo "soak: the long run failed" >&2; exit 1; }
long=''
transactions=$(sed -n 's/.*"client_transactions" *: *\([0-9]*\).*/\1/p' "$work/long.json" | head -1)
if grew "$first" "$last"; then
	echo "soak: the long run's memory grew from $first kB to $last kB in $transactions transactions" >&2
	exit 1
fi
echo "long run: $transactions transactions in $minutes min, $first to $last kB"
rm -rf "$work/runs"

until=$((SECONDS + short_minutes * 60)) first='' worst=0 runs=0
while [ $SECONDS -lt $until ]; do
	"$program" run select-only "$target" --runs "$work/runs" --scratch "$work/scratch" \
		--clients 1,8,64 --time 10 --trials 2 --quiet >"$work/out" 2>&1 ||
		{ cat "$work/out" >&2; echo "soak: run $((runs + 1)) failed" >&2; exit 1; }
	directory=$(ls -d "$work"/runs/*/)
	peak=$(peak_kb "$directory")
	rm -rf "$work/runs"
	runs=$((runs + 1))
	[ -n "$first" ] || first=$peak
	[ "$peak" -le $worst ] || worst=$peak
	echo "run $runs: peak $peak kB resident, after $((SECONDS / 60)) min"
done
if [ -n "$first" ] && grew "$first" "$worst"; then
	echo "soak: memory grew from $first kB to $worst kB" >&2
	exit 1
fi
left=$(find "$work/scratch" -path '*/clusters/*' -prune -print)
running=$(pgrep -f "postgres -D $work/scratch" || true)
if [ -n "$left$running" ]; then
	echo "soak: left behind: $left $running" >&2
	exit 1
fi
echo "soak: $runs short runs, ${first:-0} to $worst kB, nothing left behind"

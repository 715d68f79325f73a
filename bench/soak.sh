#!/bin/bash
# Runs one short workload after the other for a long time, and looks whether
# anything grows or stays behind: memory of pgassay, files, sockets, processes.
#
#	bench/soak.sh [MINUTES] [TARGET]	(60, temp)
#
# Prints a line for each run.  Exits 1 if a run fails, if the most memory that a
# later run took exceeds the first's by more than a tenth and 1 MiB, or if
# something is left at the end.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
program=$project/target/release/pgassay
minutes=${1:-60}
target=${2:-temp}

work=$(mktemp -d /var/tmp/pgassay-soak.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/scratch"
chmod 755 "$work" "$work/scratch"

# Resident memory at its highest, as the run itself recorded it.
peak_kb() { # run directory
	sed -n 's/.*"max_rss_bytes" *: *\([0-9]*\).*/\1/p' "$1/end.json" | awk '{ print int($1 / 1024) }'
}

until=$((SECONDS + minutes * 60)) first='' worst=0 runs=0
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
	echo "run $runs: at most $peak kB resident, after $((SECONDS / 60)) min"
done
if [ "$worst" -gt $((first + first / 10 + 1024)) ]; then
	echo "soak: memory grew from $first kB to $worst kB" >&2
	exit 1
fi
left=$(find "$work/scratch" -path '*/clusters/*' -prune -print)
running=$(pgrep -f "postgres -D $work/scratch" || true)
if [ -n "$left$running" ]; then
	echo "soak: left behind: $left $running" >&2
	exit 1
fi
echo "soak: $runs runs, $first to $worst kB, nothing left behind"

#!/bin/bash
# Pins by the header's spinlock (PostgreSQL 9.5) and by compare-and-swap (9.6), over sessions.
#
#	bench/pins.sh [PGASSAY [CLIENTS [TRIALS]]]      default: 1,2,4,8,16,32 clients, 3 trials
#
# Runs bench/pins.sql, one statement of a thousand look-ups by primary key, so that all but one snapshot is pins, mapping
# and content locks, and the client takes no CPU to speak of. Prints for each server and number of sessions: statements a
# second, the share of the CPU samples in s_lock, and the shares of what takes a buffer's header, with callers. TARGETS:
# other servers than the archived ones ("temp:9.5 temp:9.6"). The archived 9.5.3 is compiled without optimisation: hold
# each server against itself at one session, not one against the other. Needs jq.
set -euo pipefail
pgassay=$(realpath "${1:-target/release/pgassay}")
clients=${2:-1,2,4,8,16,32}
trials=${3:-3}
here=$(dirname "${BASH_SOURCE[0]}")
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for target in ${TARGETS:-temp:9.5 temp:9.6}; do
	"$pgassay" run "$here/pins.sql" "$target" --stand-in -q -c "$clients" --time 1 --warmup 0.3 --trials "$trials" --scale 1 \
		--seed 1 --set shared_buffers=256MB --observe perf,sched --runs "$runs" --json >"$runs/result" 2>"$runs/said" ||
		{ cat "$runs/said" >&2; exit 1; }
	echo "$target"
	jq -r '.stages[0].arms[0] | (.observed.points // []) as $seen | .points[] | .point.clients as $n
		| ([$seen[] | select(.clients == $n) | .profile.functions[]? | select(.symbol == "s_lock") | .own_share] | add // 0) as $spun
		| ([$seen[] | select(.clients == $n) | .profile.locks[]? | select(.lock == "buffer-header")
			| "\(.function) \(.share * 1000 | round / 10) % (" + ([.callers[] | "\(.[0]) \(.[1] * 1000 | round / 10)"] | join(", ")) + ")"]
			| join("; ")) as $held
		| "\($n)\t\(.throughput_tps | "\(.estimate | round) (\(.low | round) to \(.high | round))")\t\($spun * 1000 | round / 10) %\t\($held)"' \
		"$runs/result" | column -t -s $'\t' -N "sessions,statements/s,s_lock,header"
done

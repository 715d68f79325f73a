#!/bin/bash
# The cost of observing: by its own record, and by the throughput that a load loses.
#
#	bench/observers.sh [PGASSAY [ROUNDS [FLAG...]]]
#
#	bench/observers.sh target/release/pgassay 6 --clients 2000
#	bench/observers.sh target/release/pgassay 6 --clients 4 --idle 1996
#	bench/observers.sh target/release/pgassay 6 'host=/tmp dbname=postgres' --load --clients 2000   one server for all
#
# Runs select-only with 4 clients, or as FLAGs say, without observers, with the default observers, with CPU
# samples, and with all, alternating and in changing order, ROUNDS (6) times each, with trials of the default length (FLAG
# --time SECONDS: the longer they are, the less the two ends of a window weigh).  Prints throughput relative to no
# observers (median, min, max), and the share of the machine's CPU time that the observers recorded for
# themselves, by observer, which other programs on the machine change little.  Targets: at most 1 % for the
# default observers, 3 % with CPU samples, with 2,000 sessions too.  Throughput needs an idle machine.
set -euo pipefail
export LC_ALL=C
pgassay=$(realpath "${1:-target/release/pgassay}")
rounds=${2:-6}
flags=("${@:3}")
[ ${#flags[@]} -gt 0 ] || flags=(--clients 4)
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for round in $(seq "$rounds"); do
	order="none waits,sched waits,sched,perf all"
	[ $((round % 2)) = 0 ] && order="all waits,sched,perf waits,sched none"
	for what in $order; do
		"$pgassay" run select-only "${flags[@]}" --runs "$runs" --trials 2 --observe "$what" --json \
			>"$runs/result" 2>"$runs/said" || { cat "$runs/said" >&2; exit 1; }
		jq -r --arg what "$what" '[$what, .stages[0].arms[0].points[0].throughput_tps.estimate,
			(.stages[0].arms[0].observed.cost.machine_share // 0),
			([.stages[0].arms[0].observed.cost.observers[]? |
				"\(.observer) \(.own_cpus * 1e4 | round / 1e4)+\(.server_cpus * 1e4 | round / 1e4)"] | join(", "))]
			| @tsv' "$runs/result"
	done
done | awk -F '\t' -v before="$(cut -d ' ' -f 1-3 /proc/loadavg)" '
	{ if ($4 != "") by[$1] = $4 }
	{ tps[$1, ++n[$1]] = $2; share[$1] += $3; if ($3 > most[$1]) most[$1] = $3 }
	END {
		"cut -d \" \" -f 1-3 /proc/loadavg" | getline after
		printf "load average before %s, after %s\n", before, after
		printf "%-16s %28s %34s\n", "observers", "throughput relative to none", "own record, % of the machine"
		count = split("waits,sched waits,sched,perf all", names, " ")
		for (i = 1; i <= count; i++) {
			w = names[i]
			for (k = 1; k <= n[w]; k++) r[k] = tps[w, k] / tps["none", k]
			for (a = 1; a <= n[w]; a++) for (b = a + 1; b <= n[w]; b++) if (r[b] < r[a]) { t = r[a]; r[a] = r[b]; r[b] = t }
			m = n[w] % 2 ? r[(n[w] + 1) / 2] : (r[n[w] / 2] + r[n[w] / 2 + 1]) / 2
			printf "%-16s %10.3f [%.3f .. %.3f] %15.2f, at most %.2f\n", w, m, r[1], r[n[w]], 100 * share[w] / n[w], 100 * most[w]
		}
		for (i = 1; i <= count; i++) printf "%s, last round, CPUs of our own and of the server: %s\n", names[i], by[names[i]]
	}'

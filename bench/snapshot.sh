#!/bin/bash
# The cost of a snapshot with idle sessions: reused as the server does if it can
# (from version 14), and rebuilt each time.
#
#	bench/snapshot.sh PG_CONFIG [IDLE…]      (default: 0 500 2000)
#
# The idle sessions are pgbench's, sleeping before their first statement.  Prints
# millions of snapshots per CPU second (median of nine calls, and their range).
source "$(dirname "$0")/cluster.sh"
pg_config=${1:?usage: snapshot.sh PG_CONFIG [IDLE…]}
shift
[ $# -gt 0 ] || set -- 0 500 2000
ulimit -n 8192 2>/dev/null || true

start_cluster "$pg_config" "shared_buffers = 128MB" "max_connections = 2100" "fsync = off"
printf '\\sleep 600 s\nSELECT 1;\n' >"$work/asleep.sql"
"$bin/postgres" --version
printf '%6s  %28s  %28s\n' idle 'as the server does, M/CPU s' 'rebuilt, M/CPU s'
for idle in "$@"; do
	sleeper=""
	if [ "$idle" -gt 0 ]; then
		"$bin/pgbench" -n -c "$idle" -j 1 -t 1 -f "$work/asleep.sql" >"$work/pgbench.out" 2>&1 &
		sleeper=$!
		until [ "$(run_sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" = "$idle" ]; do
			kill -0 "$sleeper" 2>/dev/null || { cat "$work/pgbench.out" >&2; exit 1; }
			sleep 0.1
		done
	fi
	measured=$(for rebuild in false true; do
		for _ in 1 2 3 4 5 6 7 8 9; do
			echo "SELECT '$rebuild', operations * 1e3 / cpu_ns, reused FROM pgassay.snapshot(microseconds => 200000, rebuild => $rebuild);"
		done
	done | run_sql)
	# shellcheck disable=SC2016
	echo "$measured" | awk -F'|' -v idle="$idle" '
		{ n[$1]++; v[$1, n[$1]] = $2 }
		function show(key,   i, j, t, a) {
			for (i = 1; i <= n[key]; i++) a[i] = v[key, i]
			for (i = 1; i <= n[key]; i++) for (j = i + 1; j <= n[key]; j++) if (a[j] < a[i]) { t = a[i]; a[i] = a[j]; a[j] = t }
			return sprintf("%.2f (%.2f to %.2f)", a[5], a[1], a[n[key]])
		}
		END { printf "%6d  %28s  %28s\n", idle, show("false"), show("true") }'
	if [ -n "$sleeper" ]; then
		kill "$sleeper"
		wait "$sleeper" 2>/dev/null || true
		until [ "$(run_sql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'")" = 0 ]; do sleep 0.1; done
	fi
done

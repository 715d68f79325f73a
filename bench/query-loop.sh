#!/bin/bash
# Where the CPU time of one query goes: select-only over the wire (simple and
# prepared), and the same statement in query_loop and plpgsql_loop.  CPU samples
# of the backend with call stacks, classified by the innermost function on the
# stack that belongs to a class.
#
#	bench/query-loop.sh [PG_CONFIG [ROUNDS [SECONDS]]]
#
# Without PG_CONFIG, it fetches a PostgreSQL 18 with symbols; a server given by
# PG_CONFIG needs symbols and pgbench too.  Needs perf and permission to sample.
# Prints the table as markdown; exits 1 if the executor's CPU time per query
# differs by more than 10 % between query_loop and select-only.
source "$(dirname "$0")/cluster.sh"
pg_config=${1:-}
[ -n "$pg_config" ] || pg_config=$("$project/scripts/postgres-with-symbols.sh")
rounds=${2:-8}
seconds=${3:-2}
nm "$("$pg_config" --bindir)/postgres" 2>/dev/null | grep ' [tT] standard_ExecutorRun' >/dev/null ||
	{ echo "query-loop.sh: this server has no symbols; use one that is not stripped" >&2; exit 2; }
command -v perf >/dev/null || { echo "query-loop.sh: perf not found; install it (Debian: linux-perf)" >&2; exit 2; }

start_cluster "$pg_config" "shared_buffers = 256MB" "fsync = off"
query='SELECT abalance FROM accounts WHERE aid = $1'
run_sql -c 'CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))' \
	-c "INSERT INTO accounts SELECT g, 1, 0, '' FROM generate_series(1, 100000) g" \
	-c 'VACUUM (FREEZE, ANALYZE) accounts' \
	-c "SELECT pgassay.plpgsql_loop_create('$query', '{int}')" >/dev/null
one='\set aid random(1, 100000)
SELECT abalance FROM accounts WHERE aid = :aid;'
echo "$one" >"$work/select.sql"
# Fifty queries in flight, so that the backend finds the next one waiting and does
# not sleep: the remaining difference is not due to cold caches.
{
	echo '\startpipeline'
	for _ in $(seq 50); do echo "$one"; done
	echo '\endpipeline'
} >"$work/pipeline.sql"

# Samples a backend until the process that drives it has ended.
sample() { # PID of the backend, PID of the driver, method
	perf record -q -e cpu-clock -F 1499 --call-graph dwarf,4096 -p "$1" -o "$work/perf.data" 2>"$work/perf.err" &
	sampler=$!
	for _ in $(seq 200); do
		[ -s "$work/perf.data" ] && break
		sleep 0.01
	done
	sleep 0.2
}
add_samples() { # method, queries
	wait "$sampler" || true
	perf script -i "$work/perf.data" --no-inline -F ip,sym 2>/dev/null |
		awk -v way="$1" '
			NF == 0 { if (stack != "") print way, stack; stack = ""; next }
			{ sub(/\+0x.*/, "", $2); stack = stack (stack == "" ? "" : ";") $2 }
			END { if (stack != "") print way, stack }' >>"$work/stacks"
	echo "$1 $2" >>"$work/queries"
}

# Over the wire: a lock holds the backend until the sampler is attached.
wire() { # method, protocol, transactions, script, queries per transaction
	mkfifo "$work/holder.in"
	run_sql <"$work/holder.in" >"$work/holder.out" 2>&1 &
	holder=$!
	exec 8>"$work/holder.in"
	rm -f "$work/holder.out"
	echo "BEGIN; LOCK accounts IN ACCESS EXCLUSIVE MODE; SELECT 'locked' \\g $work/locked" >&8
	until [ -s "$work/locked" ]; do sleep 0.01; done
	"$bin/pgbench" -n -M "$2" -c 1 -t "$3" -f "$work/$4.sql" >"$work/pgbench.out" 2>&1 &
	driver=$!
	pid=""
	until [ -n "$pid" ]; do
		pid=$(run_sql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' AND wait_event_type = 'Lock'")
	done
	sample "$pid" "$driver" "$1"
	echo 'COMMIT;' >&8
	wait "$driver"
	exec 8>&-
	wait "$holder"
	rm -f "$work/holder.in" "$work/locked"
	add_samples "$1" $(($3 * $5))
}

# In the server: the session prints its PID and sleeps until the sampler is attached.
inside() { # method, call
	{
		echo "SELECT pg_backend_pid();"
		echo "SELECT pg_sleep(1) \\g /dev/null"
		for i in $(seq $((2 * seconds))); do
			echo "SELECT operations FROM pgassay.${2//SEED/$i};"
		done
	} >"$work/calls.sql"
	rm -f "$work/calls.out"
	run_sql -f "$work/calls.sql" >"$work/calls.out" &
	driver=$!
	until [ -s "$work/calls.out" ]; do sleep 0.01; done
	pid=$(head -1 "$work/calls.out")
	sample "$pid" "$driver" "$1"
	wait "$driver"
	add_samples "$1" "$(tail -n +2 "$work/calls.out" | awk '{ n += $1 } END { print n }')"
}

transactions=20000
for round in $(seq "$rounds"); do
	wire simple simple "$transactions" select 1
	wire prepared prepared "$transactions" select 1
	if [ "$round" = 1 ]; then
		# As many transactions as fill the requested time.
		took=$(sed -n 's/^tps = \([0-9]*\).*/\1/p' "$work/pgbench.out")
		transactions=$((took * seconds))
	fi
	wire pipelined prepared $((transactions / 5)) pipeline 50
	inside loop "query_loop(NULL, 0, SEED, NULL, 500000, '$query', '{int}', '{1}', '{100000}')"
	inside plpgsql "plpgsql_loop(1, NULL, 0, SEED, NULL, 500000, '{1}', '{100000}')"
done

"$bin/postgres" --version >"$work/version"
if [ -n "${KEEP_STACKS:-}" ]; then cp "$work/stacks" "$work/queries" "$KEEP_STACKS"; fi
awk -v version="$(cat "$work/version")" -v hz=1499 '
	BEGIN {
		# The class of each function; the innermost classified one on the stack counts.
		say("waiting for the client, waking up", "WaitEventSetWait.*|WaitLatch.*|epoll_wait|secure_open.*|ProcessClientReadInterrupt|EnableNotifyInterrupt")
		say("protocol: reading and writing messages", "secure_read|secure_write|secure_raw_.*|pq_.*|internal_.*flush.*|internal_put.*|socket_.*|SocketBackend|ReadCommand|printtup.*|SendRowDesc.*|BeginCommand|EndCommand.*|ReadyForQuery|NullCommand|CreateDestReceiver|SetRemoteDest.*|forbidden_in_wal.*")
		say("parse and analyse", "raw_parser|base_yyparse|core_yylex|pg_parse_query|parse_analyze.*|pg_analyze_and_rewrite.*|pg_rewrite_query|QueryRewrite|transform.*|CreateCommandTag|analyze_requires_snapshot")
		say("plan", "pg_plan_quer.*|standard_planner|planner|subquery_planner")
		say("plan cache", "GetCachedPlan|RevalidateCachedQuery|CheckCachedPlan|AcquireExecutorLocks|ReleaseCachedPlan.*|CachedPlan.*|choose_custom_plan|BuildCachedPlan|FetchPreparedStatement|ReleasePlanCache.*|ResOwnerReleaseCachedPlan")
		say("snapshot", "GetSnapshotData.*|GetTransactionSnapshot|GetLatestSnapshot|GetActiveSnapshot|PushActiveSnapshot.*|PushCopiedSnapshot|PopActiveSnapshot|RegisterSnapshot.*|UnregisterSnapshot.*|SnapshotResetXmin|UpdateActiveSnapshotCommandId|InvalidateCatalogSnapshot.*|EnsurePortalSnapshot.*|CopySnapshot|FreeSnapshot")
		say("locks of relations", "LockRelation.*|UnlockRelation.*|LockAcquire.*|LockRelease.*|CheckRelation.*")
		# The stack of an index scan is deeper than a sample: its own functions
		# represent the executor above them.
		say("executor", "standard_Executor.*|Executor(Start|Run|Finish|End)|CreateQueryDesc|FreeQueryDesc|ExecutePlan|ExecScan.*|IndexNext|index_getnext.*|index_fetch.*|btgettuple|_bt_first|heapam_index_fetch.*|heap_page_prune_opt")
		say("SPI", "SPI_.*|_SPI_.*|spi_.*")
		say("PL/pgSQL", "exec_stmt.*|exec_eval.*|exec_run_select|exec_assign.*|exec_set_.*|exec_toplevel.*|plpgsql_.*|exec_simple_.*|setup_param.*|exec_for.*|exec_move.*|exec_cast.*|get_stmt.*|exec_prepare.*|do_cast.*|assign_simple.*")
		say("transaction: begin and commit", "StartTransaction.*|CommitTransaction.*|start_xact_command|finish_xact_command|AtEOXact.*|BeginTransactionBlock|enable_statement_timeout|disable_statement_timeout|CommandCounterIncrement|PreCommit.*|AtCommit.*|AfterTriggerEndXact|AtStart.*")
		say("portal", "Portal.*|CreatePortal|FillPortalStrategy|ChoosePortal.*")
		say("counters, process title, logging", "pgstat_.*|pgstat_report.*|set_ps_display.*|check_log_duration|check_log_statement|ShowUsage|ResetUsage")
		say("measurement", "pgassay_(query_loop|loop_.*)|meter_.*|rng_.*|execute_once|drandom|setseed|float8_.*|dfloor|dtoi8|clock_.*|__vdso.*|\\[vdso\\]")
		say("message loop", "exec_simple_query|exec_bind_message|exec_execute_message|exec_parse_message|exec_describe.*|PostgresMain")
		for (i = 1; i <= n; i++) pattern[i] = "^(" pattern[i] ")$"
		ways = split("simple prepared pipelined loop plpgsql", way, " ")
	}
	function say(name, functions) { n++; class[n] = name; pattern[n] = functions }
	function sort_stack(stack,   f, m, i, j) {
		m = split(stack, f, ";")
		for (i = 1; i <= m; i++) {
			sub(/\.(constprop|isra|part|cold).*$/, "", f[i])
			if (f[i] in known) { if (known[f[i]]) return known[f[i]]; continue }
			known[f[i]] = 0
			for (j = 1; j <= n; j++) if (f[i] ~ pattern[j]) { known[f[i]] = j; break }
			if (known[f[i]]) return known[f[i]]
		}
		return 0
	}
	FILENAME ~ /queries$/ { queries[$1] += $2; next }
	{ seen[$1, sort_stack(substr($0, length($1) + 2))]++; all[$1]++ }
	function us(w, c) { return 1e6 * seen[w, c] / hz / queries[w] }
	END {
		printf "CPU time of the backend per query, microseconds, on %s.\n\n", version
		print "| class | select-only, simple | select-only, prepared | prepared, 50 in flight | query_loop | plpgsql_loop |"
		print "|---|---:|---:|---:|---:|---:|"
		for (c = 1; c <= n + 1; c++) {
			k = c > n ? 0 : c
			printf "| %s |", k ? class[k] : "unclassified"
			for (w = 1; w <= ways; w++) printf " %.2f |", us(way[w], k)
			print ""
			if (class[k] == "executor") executor = k
		}
		printf "| **all** |"
		for (w = 1; w <= ways; w++) printf " **%.2f** |", 1e6 * all[way[w]] / hz / queries[way[w]]
		printf "\n| samples |"
		for (w = 1; w <= ways; w++) printf " %d |", all[way[w]]
		printf "\n| queries |"
		for (w = 1; w <= ways; w++) printf " %d |", queries[way[w]]
		ratio = us("loop", executor) / us("prepared", executor)
		ratio_pipelined = us("loop", executor) / us("pipelined", executor)
		printf "\n\nExecutor time of query_loop relative to select-only: %.2f with 50 in flight, %.2f one at a time.\n", ratio_pipelined, ratio
		exit !(ratio_pipelined > 0.9 && ratio_pipelined < 1.1)
	}' "$work/queries" "$work/stacks"

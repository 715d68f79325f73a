#!/bin/bash
# Tests with several sessions: simultaneous start, cancel, terminate, a killed
# client, concurrent DROP and TRUNCATE, a crash, a standby, the library of another
# major version.  Called by check.sh on its throw-away cluster:
#
#	sessions.sh BINDIR WORKDIR
#
# Prints one line per test; exits 1 if any failed.
set -uo pipefail
bin=$1
work=$2
failures=0
run_psql() { "$bin/psql" -XAtq -v ON_ERROR_STOP=1 "$@"; }

verdict() { # text, 0 or 1
	if [ "$2" = 0 ]; then
		echo "ok      $1"
	else
		echo "FAILED  $1"
		failures=$((failures + 1))
	fi
}
equals() { # text, wanted, got
	if [ "$2" = "$3" ]; then verdict "$1" 0; else verdict "$1: wanted '$2', got '$3'" 1; fi
}
matches() { # text, file, pattern
	if grep -q "$3" "$2"; then verdict "$1" 0; else verdict "$1: $(tr '\n' ' ' <"$2")" 1; fi
}
wait_for() { # query that returns t
	for _ in $(seq 300); do
		[ "$(run_psql -c "$1" 2>/dev/null)" = t ] && return 0
		sleep 0.01
	done
	return 1
}

# The session that keeps the arena: psql fed through a pipe.
keep_arena() { # sessions, locks -> $arena, $keeper
	rm -f "$work/keeper.in" "$work/keeper.out"
	mkfifo "$work/keeper.in"
	run_psql <"$work/keeper.in" >"$work/keeper.out" 2>&1 &
	keeper=$!
	exec 9>"$work/keeper.in"
	echo "SELECT pgassay.arena_create($1, $2);" >&9
	for _ in $(seq 300); do
		[ -s "$work/keeper.out" ] && break
		sleep 0.01
	done
	arena=$(cat "$work/keeper.out")
}
drop_arena() {
	exec 9>&-
	wait "$keeper"
}
nothing_held() { # text
	equals "$1: nothing waits or is held" "0|0|f" \
		"$(run_psql -c "SELECT waiting, locks_held, spinlock_held FROM pgassay.arena_state($arena)")"
	equals "$1: nothing is pinned" 0 "$(run_psql -c "SELECT pgassay.pins('sessions')")"
}

run_psql -c 'CREATE SCHEMA pgassay' -f "$work/ext/definitions.sql" \
	-c 'CREATE TABLE sessions (n int, filler char(1000))' \
	-c "INSERT INTO sessions SELECT g, 'x' FROM generate_series(1, 700) g"
run_psql -c "SELECT pgassay.warm('sessions')" >/dev/null
shm_before=$(find "$work/data/pg_dynshmem" -type f | wc -l)

# Starting together.
keep_arena 3 1
for call in "lwlock($arena, hold_ns => 1000" "spinlock($arena" "atomics($arena" \
	"snapshot($arena" "relation_lock($arena, relations => 32" "wal_insert($arena" "buffer_hit($arena, rel => 'sessions', content_lock => true"; do
	for slot in 0 1 2; do
		run_psql -c "SELECT operations > 0, late_ns < 100000000, elapsed_ns < 900000000
			FROM pgassay.$call, slot => $slot, microseconds => 100000)" >"$work/out.$slot" 2>&1 &
		eval "session$slot=$!"
	done
	wait "$session0" "$session1" "$session2"
	equals "three sessions start together: ${call%%(*}" "t|t|t t|t|t t|t|t" \
		"$(cat "$work"/out.[012] | tr '\n' ' ' | sed 's/ $//')"
done
equals "an arena of another session can't be dropped" 1 \
	"$(run_psql -c "SELECT pgassay.arena_drop($arena)" 2>&1 | grep -c 'made by another session')"
nothing_held "afterwards"
drop_arena
equals "the arena ends with its session" 1 \
	"$(run_psql -c "SELECT pgassay.arena_state($arena)" 2>&1 | grep -c 'there is no arena')"

# Looking on: two sessions share one lock that each holds for long, a third commits.
keep_arena 2 1
run_psql -c "SELECT looks > 0, 'LWLock:pgassay' = ANY (events) FROM pgassay.waits($arena)" >"$work/waits" 2>&1 &
waits=$!
run_psql -c "CALL pgassay.commit_loop($arena)" >"$work/commits" 2>&1 &
commits=$!
for slot in 0 1; do
	run_psql -c "SELECT operations > 0 FROM pgassay.lwlock($arena, $slot, hold_ns => 1000000, microseconds => 300000)" >"$work/out.$slot" 2>&1 &
	eval "session$slot=$!"
done
wait "$session0" "$session1" "$waits" "$commits"
equals "what sessions wait for is seen" "t|t" "$(cat "$work/waits")"
equals "others commit meanwhile" t "$([ "$(cat "$work/commits")" -gt 1 ] && echo t)"
drop_arena

# Cancel and terminate in the middle, alone and at the gate.
keep_arena 1 1
single=$arena
for how in cancel terminate; do
	for call in "lwlock($single, hold_ns => 1000000" "spinlock($single, hold_ns => 1000" \
		"atomics($single" "snapshot(NULL" "relation_lock(NULL" "wal_insert(NULL" \
		"buffer_hit(rel => 'sessions', content_lock => true, read_page => true" \
		"query_loop(query => 'select count(*) from sessions, sessions s2, sessions s3'"; do
		run_psql -c "SET application_name = 'victim'" -c "SELECT pgassay.$call)" >"$work/out" 2>&1 &
		victim=$!
		wait_for "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND query ~ 'pgassay' AND state = 'active'"
		sleep 0.05
		run_psql -c "SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'" >/dev/null
		wait "$victim"
		case $how in
		cancel) matches "$how: ${call%%(*}" "$work/out" 'canceling statement due to user request' ;;
		*) matches "$how: ${call%%(*}" "$work/out" 'terminating connection due to administrator command' ;;
		esac
	done
	nothing_held "$how"
done
drop_arena

keep_arena 2 1
for how in cancel terminate; do
	run_psql -c "SET application_name = 'victim'" \
		-c "SELECT pgassay.snapshot($arena, microseconds => 1000)" >"$work/out" 2>&1 &
	victim=$!
	wait_for "SELECT waiting = 1 FROM pgassay.arena_state($arena)"
	verdict "one session waits at the gate" $?
	run_psql -c "SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'" >/dev/null
	wait "$victim"
	nothing_held "$how at the gate"
done
drop_arena

# A client that is killed leaves nothing running after a second.
run_psql -c "SET application_name = 'orphan'" -c "SELECT pgassay.snapshot(microseconds => 1000000)" >/dev/null 2>&1 &
orphan=$!
wait_for "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'orphan' AND query ~ 'pgassay'"
kill -9 "$orphan"
wait "$orphan" 2>/dev/null
sleep 1.2
equals "a killed client leaves no session" 0 \
	"$(run_psql -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'orphan'")"

# DROP and TRUNCATE wait for the call; the next one says what happened.
for how in TRUNCATE 'DROP TABLE'; do
	run_psql -c 'CREATE TABLE doomed AS SELECT * FROM sessions' >/dev/null
	run_psql -c "SET application_name = 'victim'" \
		-c "SELECT pgassay.buffer_hit(rel => 'doomed', microseconds => 400000)" >"$work/out" 2>&1 &
	victim=$!
	wait_for "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND query ~ 'pgassay' AND state = 'active'"
	sleep 0.05
	run_psql -c "$how doomed" >/dev/null
	wait "$victim"
	verdict "$how during buffer_hit" $?
	run_psql -c "SELECT pgassay.buffer_hit(rel => 'doomed', count => 1)" >"$work/out" 2>&1
	matches "$how: the next call" "$work/out" 'has no blocks\|does not exist'
	run_psql -c 'DROP TABLE IF EXISTS doomed' 2>/dev/null
done

# Another backend crashes while we loop.
keep_arena 1 1
run_psql -c "SET application_name = 'victim'" \
	-c "SELECT pgassay.lwlock($arena, hold_ns => 10000)" >"$work/out" 2>&1 &
victim=$!
run_psql -c "SET application_name = 'crashing'" -c "SELECT pg_sleep(10)" >/dev/null 2>&1 &
crashing=$!
wait_for "SELECT count(*) = 2 FROM pg_stat_activity WHERE application_name IN ('victim', 'crashing') AND state = 'active'"
kill -9 "$(run_psql -c "SELECT pid FROM pg_stat_activity WHERE application_name = 'crashing'")"
wait "$victim" "$crashing" 2>/dev/null
drop_arena 2>/dev/null
matches "a crash elsewhere ends the loop" "$work/out" 'crash of another server process\|closed the connection\|connection to server was lost'
wait_for "SELECT true"
verdict "the server is back after the crash" $?
equals "functions work after the crash" 5 \
	"$(run_psql -c "SELECT operations FROM pgassay.buffer_hit(rel => 'sessions', count => 5)")"
equals "no shared memory is left" "$shm_before" \
	"$(find "$work/data/pg_dynshmem" -type f | wc -l)"

# A standby.
if [ -x "$bin/pg_basebackup" ]; then
	rm -rf "$work/standby"
	"$bin/pg_basebackup" -D "$work/standby" -c fast >/dev/null 2>&1
	touch "$work/standby/standby.signal"
	echo "port = 5433" >>"$work/standby/postgresql.conf"
	chmod 700 "$work/standby"
	"$bin/pg_ctl" -D "$work/standby" -l "$work/standby.log" -w start >/dev/null
	for call in 'snapshot(count => 1)' 'arena_create(1)' "buffer_hit(rel => 'sessions', count => 1)" \
		"warm('sessions')" 'relation_lock(count => 1)' 'wal_insert(count => 1)'; do
		PGPORT=5433 run_psql -c "SELECT pgassay.$call" >"$work/out" 2>&1
		matches "a standby refuses ${call%%(*}" "$work/out" 'does not run on a standby'
	done
	"$bin/pg_ctl" -D "$work/standby" -m immediate stop >/dev/null
fi

# A library of another major version.
if [ -f "$work/other/pgassay.so" ]; then
	run_psql -c "CREATE FUNCTION pg_temp.f() RETURNS bigint AS '$work/other/pgassay.so', 'pgassay_arena_create' LANGUAGE C" >"$work/out" 2>&1
	matches "another major's library is refused" "$work/out" 'incompatible library\|could not load library'
fi

run_psql -c 'SET client_min_messages = warning' -c 'DROP SCHEMA pgassay CASCADE' -c 'DROP TABLE sessions'
[ "$failures" = 0 ]

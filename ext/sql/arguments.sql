-- What every primitive asks of its first arguments.
\set VERBOSITY default
SELECT pgassay.snapshot(count => 0);
SELECT pgassay.snapshot(count => -1);
SELECT pgassay.snapshot(count => 9223372036854775808::bigint);
-- the largest count there is ends by time
SELECT operations > 0 AS counted, elapsed_ns BETWEEN 9000000 AND 500000000 AS timely
	FROM pgassay.snapshot(count => 9223372036854775807, microseconds => 10000);
SELECT pgassay.snapshot(microseconds => 0);
SELECT pgassay.snapshot(microseconds => 1000001);
SELECT pgassay.snapshot(slot => -1);
SELECT operations, elapsed_ns > 0 AS took_time, cpu_ns >= 0 AS cpu, late_ns >= 0 AS late,
		contended, delays, blocks_hit, blocks_read, wal_bytes
	FROM pgassay.snapshot(count => 1000);
-- handles that are none
SELECT pgassay.snapshot(arena => 0);
SELECT pgassay.snapshot(arena => -5);
SELECT pgassay.snapshot(arena => 4294967296);
SELECT pgassay.snapshot(arena => 1);
SELECT pgassay.lwlock(arena => NULL);
SELECT pgassay.spinlock(arena => NULL);
SELECT pgassay.atomics(arena => NULL);
-- arenas
SELECT pgassay.arena_create(0);
SELECT pgassay.arena_create(1, 0);
SELECT pgassay.arena_create(1, 65537);
-- check.sh sets max_connections = 100
SELECT pgassay.arena_create(101);
SELECT pgassay.arena_create(2, 3) AS arena \gset
SELECT * FROM pgassay.arena_state(:arena);
SELECT pgassay.snapshot(:arena, slot => 2);
SELECT pgassay.snapshot(:arena, microseconds => 900001);
-- the second session never comes
SELECT pgassay.snapshot(:arena, microseconds => 800000);
SELECT * FROM pgassay.arena_state(:arena);
SELECT pgassay.arena_drop(:arena);
\set VERBOSITY sqlstate
SELECT pgassay.arena_drop(:arena);
SELECT pgassay.arena_state(:arena);
\set VERBOSITY default
-- NULL, where a function is not STRICT, is the default or an error
SELECT pgassay.arena_create(NULL) IS NULL AS arena_create, pgassay.arena_drop(NULL) IS NULL AS arena_drop,
	pgassay.arena_running(NULL) IS NULL AS arena_running, pgassay.pins(NULL) IS NULL AS pins,
	(pgassay.waits(NULL)).looks IS NULL AS waits, (pgassay.warm(NULL, NULL)).blocks_hit IS NULL AS warm;
SELECT pgassay.arena_create(1) AS arena \gset
SELECT operations FROM pgassay.snapshot(NULL, NULL, NULL, 10, NULL, NULL);
SELECT operations FROM pgassay.relation_lock(NULL, NULL, NULL, 10, NULL, NULL);
SELECT operations FROM pgassay.wal_insert(NULL, NULL, NULL, 10, NULL, NULL, NULL);
SELECT operations FROM pgassay.lwlock(:arena, NULL, NULL, 10, NULL, NULL, NULL, NULL);
SELECT operations FROM pgassay.spinlock(:arena, NULL, NULL, 10, NULL, NULL);
SELECT operations FROM pgassay.atomics(:arena, NULL, NULL, 10, NULL, NULL, NULL);
SELECT operations FROM pgassay.buffer_hit(NULL, NULL, NULL, 10, NULL, 'pg_class', NULL, NULL, NULL, NULL, NULL);
SELECT pgassay.buffer_hit(NULL, NULL, NULL, 10, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT pgassay.query_loop(NULL, NULL, NULL, 10, NULL, NULL, NULL, NULL, NULL);
SELECT operations FROM pgassay.query_loop(NULL, NULL, NULL, 10, NULL, 'select 1', NULL, NULL, NULL);
\set SHOW_CONTEXT never
SELECT pgassay.plpgsql_loop_create(NULL, NULL);
-- what each tenth of the time saw makes up the whole
SELECT array_length(over_time, 1) AS parts, operations = (SELECT sum(part) FROM unnest(over_time) AS part) AS whole
	FROM pgassay.snapshot(:arena, microseconds => 20000);
-- nobody measures, and nobody begins within a call's time
SELECT pgassay.arena_running(:arena);
SELECT * FROM pgassay.waits(:arena);
CALL pgassay.commit_loop(NULL);
SELECT pgassay.arena_drop(:arena);

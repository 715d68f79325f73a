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

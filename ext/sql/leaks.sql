-- Errors in the middle: nothing stays pinned, locked or waiting.
\set SHOW_CONTEXT never
CREATE TABLE leak (n int, filler char(1000));
INSERT INTO leak SELECT g, 'x' FROM generate_series(1, 700) g;
SELECT pgassay.arena_create(1, 4) AS arena \gset
SELECT pgassay.arena_create(2) AS pair \gset

SET statement_timeout = '50ms';
SELECT pgassay.buffer_hit(rel => 'leak');
SELECT pgassay.buffer_hit(rel => 'leak', content_lock => true, read_page => true);
SELECT pgassay.lwlock(:arena, hold_ns => 100000);
SELECT pgassay.spinlock(:arena, hold_ns => 1000);
SELECT pgassay.atomics(:arena);
SELECT pgassay.snapshot();
SELECT pgassay.relation_lock(relations => 64);
SELECT pgassay.wal_insert();
SELECT pgassay.query_loop(query => 'select count(*) from leak');
SELECT pgassay.query_loop(query => 'select pg_sleep(10)');
SELECT pgassay.snapshot(:pair, microseconds => 100000);
RESET statement_timeout;

SELECT pgassay.pins('leak');
SELECT count(*) AS relation_locks FROM pg_locks WHERE relation::bigint >= 4294900000;
SELECT waiting, locks_held, spinlock_held FROM pgassay.arena_state(:arena);
SELECT waiting, locks_held, spinlock_held FROM pgassay.arena_state(:pair);

-- an error inside a subtransaction
DO $$
BEGIN
	PERFORM pgassay.query_loop(query => 'select 1 / (n - 300) from leak');
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'caught';
END
$$;
SELECT pgassay.pins('leak');
SELECT locktype, mode FROM pg_locks WHERE relation = 'leak'::regclass;
SELECT pgassay.arena_drop(:arena), pgassay.arena_drop(:pair);
DROP TABLE leak;

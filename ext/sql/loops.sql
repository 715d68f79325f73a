-- Query loops, snapshots and WAL.
CREATE TABLE looped (id int PRIMARY KEY, value int NOT NULL);
INSERT INTO looped SELECT g, 0 FROM generate_series(1, 100) g;

SELECT pgassay.query_loop(count => 1);
SELECT pgassay.query_loop(count => 1, query => 'select value from nowhere');
SELECT pgassay.query_loop(count => 1, query => 'commit');
SELECT pgassay.query_loop(count => 1, query => 'select value from looped where id = $1');
SELECT pgassay.query_loop(count => 1, query => 'select $1', types => '{text}', lows => '{1}', highs => '{1}');
SELECT pgassay.query_loop(count => 1, query => 'select $1', types => '{int}', lows => '{1}', highs => '{}');
SELECT pgassay.query_loop(count => 1, query => 'select $1', types => '{int}', lows => '{2}', highs => '{1}');
SELECT pgassay.query_loop(count => 1, query => 'select $1', types => '{int}', lows => '{1}', highs => '{2147483648}');
SELECT pgassay.query_loop(count => 1, query => 'select $1', types => '{int}', lows => '{NULL}', highs => '{1}');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pgassay.query_loop(count => 1, query => 'select 1');
ROLLBACK;

SELECT operations FROM pgassay.query_loop(count => 500,
	query => 'select value from looped where id = $1', types => '{int}', lows => '{1}', highs => '{100}');
-- each execution really happens: once to plan, then as often as asked
SELECT operations FROM pgassay.query_loop(count => 500,
	query => 'update looped set value = value + 1 where id = $1 and $2 <> 0',
	types => '{int,bigint}', lows => '{7,9223372036854775807}', highs => '{7,9223372036854775807}');
SELECT id, value FROM looped WHERE value <> 0;
-- a division by zero in the middle leaves nothing behind
SELECT pgassay.query_loop(query => 'select 1 / ($1 - 5)', types => '{int}', lows => '{0}', highs => '{10}');

SELECT pgassay.plpgsql_loop_create('select value from looped where id = $1;', '{int}');
SELECT operations FROM pgassay.plpgsql_loop(1, NULL, 0, 42, 500, NULL, '{1}', '{100}');
SELECT pgassay.plpgsql_loop_create('update looped set value = value + 1 where id = $1', '{int}');
SELECT operations FROM pgassay.plpgsql_loop(1, NULL, 0, 42, 500, NULL, '{7}', '{7}');
SELECT id, value FROM looped WHERE value <> 0;
SELECT pgassay.plpgsql_loop_create('with q as (select 1 as one) select one from q');
SELECT operations FROM pgassay.plpgsql_loop(NULL, 0, 42, 500, NULL, '{}', '{}');
SELECT pgassay.loop_next();
SELECT pgassay.loop_end();

-- counted where snapshots are reused at all, from 14 on
SELECT operations, (reused IS NULL) = (current_setting('server_version_num')::int < 140000) AS reuse_known
	FROM pgassay.snapshot(count => 500);
SELECT operations, coalesce(reused, 0) AS reused FROM pgassay.snapshot(count => 500, rebuild => true);

-- locks of relations: as many as asked for, also where the number does not divide the count, and none left
SELECT relations, operations FROM unnest(array[1, 16, 17, 64]) AS relations,
		pgassay.relation_lock(count => 1000, relations => relations);
SELECT count(*) AS locks_left FROM pg_locks WHERE relation::bigint >= 4294900000;
SELECT pgassay.relation_lock(relations => 0);
SELECT pgassay.relation_lock(relations => 65);
SELECT operations, wal_bytes >= 500 * 64 AS wrote FROM pgassay.wal_insert(count => 500);
SELECT operations, wal_bytes >= 5 * 8192 AS wrote FROM pgassay.wal_insert(count => 5, bytes => 8192, flush => true);
SELECT pgassay.wal_insert(bytes => 0);
SELECT pgassay.wal_insert(bytes => 8193);
DROP TABLE looped;

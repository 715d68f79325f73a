-- What can and what can't be measured by buffer_hit.
CREATE TABLE hit (n int, filler char(1000)) WITH (autovacuum_enabled = off);
INSERT INTO hit SELECT g, 'x' FROM generate_series(1, 700) g;
CREATE INDEX hit_n ON hit (n);
CREATE TABLE hit_empty (n int);
CREATE TABLE hit_partitioned (n int) PARTITION BY RANGE (n);
CREATE VIEW hit_view AS SELECT * FROM hit;
CREATE MATERIALIZED VIEW hit_stored AS SELECT * FROM hit;
CREATE SEQUENCE hit_sequence;
CREATE TEMPORARY TABLE hit_temporary AS SELECT 1 AS n;
CREATE FOREIGN DATA WRAPPER hit_wrapper;
CREATE SERVER hit_server FOREIGN DATA WRAPPER hit_wrapper;
CREATE FOREIGN TABLE hit_foreign (n int) SERVER hit_server;

SELECT pgassay.buffer_hit(count => 1);
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_n');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_empty');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_partitioned');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_view');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_sequence');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_temporary');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit_foreign');
SELECT pgassay.buffer_hit(count => 1, rel => 0);
SELECT pgassay.buffer_hit(count => 1, rel => 'hit', pattern => 'zigzag');
SELECT pgassay.buffer_hit(count => 1, rel => 'hit', blocks => 0);
SELECT pgassay.buffer_hit(count => 1, rel => 'hit', blocks => 101);
SELECT pgassay.buffer_hit(count => 1, rel => 'hit', blocks => 9223372036854775807);
SELECT pgassay.warm('hit_empty');
SELECT pgassay.warm('hit', -1);
SELECT pgassay.warm('hit', 100);

SELECT next_block, blocks_hit + blocks_read AS blocks FROM pgassay.warm('hit');
-- the session's own counters confirm the operations, in every pattern
SELECT pattern, operations, blocks_hit, blocks_read, reused, contended
	FROM unnest(array['hot', 'uniform', 'sequential', 'partition']) AS pattern,
		pgassay.buffer_hit(count => 5000, rel => 'hit', pattern => pattern);
SELECT content_lock, read_page, operations, blocks_hit
	FROM unnest(array[false, true]) AS content_lock, unnest(array[false, true]) AS read_page,
		pgassay.buffer_hit(count => 5000, rel => 'hit', blocks => 7,
			content_lock => content_lock, read_page => read_page);
SELECT operations, blocks_hit FROM pgassay.buffer_hit(count => 5000, rel => 'hit_stored');
-- a catalog has blocks too
SELECT operations FROM pgassay.buffer_hit(count => 100, rel => 'pg_class');
SELECT pgassay.pins('hit');

-- a relation that is gone, or empty, at the next call
SELECT 'hit_stored'::regclass::oid AS gone \gset
DROP MATERIALIZED VIEW hit_stored;
\set VERBOSITY sqlstate
SELECT pgassay.buffer_hit(count => 1, rel => :gone);
\set VERBOSITY default
DROP VIEW hit_view;
TRUNCATE hit;
SELECT pgassay.buffer_hit(count => 1, rel => 'hit');
DROP TABLE hit, hit_empty, hit_partitioned;
DROP SEQUENCE hit_sequence;
DROP FOREIGN DATA WRAPPER hit_wrapper CASCADE;

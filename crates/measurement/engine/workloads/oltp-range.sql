-- a hundred rows by a range of the key: as they are, summed, sorted, and sorted without duplicates, as sysbench's range
-- statements do, in one transaction
-- @reason Executor, sort and tuple output outweigh the protocol: changes in these are found here and not by point reads.
-- @without-pgbench-tables
-- @setup CREATE TABLE rows (id int NOT NULL, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL)
-- @setup INSERT INTO rows SELECT g, (hashint4(g) & 2147483647) % (100000 * :scale) + 1,
--   substr(repeat(md5(g::text), 4), 1, 119), md5((-g)::text) FROM generate_series(1, 100000 * :scale) g
-- @setup ALTER TABLE rows ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON rows (k)
\set id random(1, 100000 * :scale - 99)
BEGIN;
SELECT c FROM rows WHERE id BETWEEN :id AND :id + 99;
SELECT sum(k) FROM rows WHERE id BETWEEN :id AND :id + 99;
SELECT c FROM rows WHERE id BETWEEN :id AND :id + 99 ORDER BY c;
SELECT DISTINCT c FROM rows WHERE id BETWEEN :id AND :id + 99 ORDER BY c;
COMMIT;

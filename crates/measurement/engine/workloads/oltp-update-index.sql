-- one row's indexed column changed, as sysbench's oltp_update_index does
-- @reason No update is a HOT update: each writes a row version, an index entry and their WAL, and leaves work for vacuum.
-- @writes
-- @without-pgbench-tables
-- @setup CREATE TABLE rows (id int NOT NULL, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL)
-- @setup INSERT INTO rows SELECT g, (hashint4(g) & 2147483647) % (100000 * :scale) + 1,
--   substr(repeat(md5(g::text), 4), 1, 119), md5((-g)::text) FROM generate_series(1, 100000 * :scale) g
-- @setup ALTER TABLE rows ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON rows (k)
\set id random(1, 100000 * :scale)
UPDATE rows SET k = k + 1 WHERE id = :id;

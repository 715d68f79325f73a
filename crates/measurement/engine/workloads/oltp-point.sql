-- one row by its key, from a table of 100,000 rows for each unit of scale, as sysbench's oltp_point_select does
-- @reason The shortest statement there is: what a connection, a plan and an index descent cost, and little else.
-- @without-pgbench-tables
-- @setup CREATE TABLE rows (id int NOT NULL, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL)
-- @setup INSERT INTO rows SELECT g, (hashint4(g) & 2147483647) % (100000 * :scale) + 1,
--   substr(repeat(md5(g::text), 4), 1, 119), md5((-g)::text) FROM generate_series(1, 100000 * :scale) g
-- @setup ALTER TABLE rows ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON rows (k)
\set id random(1, 100000 * :scale)
SELECT c FROM rows WHERE id = :id;

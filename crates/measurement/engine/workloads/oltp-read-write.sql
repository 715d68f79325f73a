-- ten reads by key, four ranges, two updates, a deletion and an insertion in one transaction, as sysbench's
-- oltp_read_write does
-- @reason A transaction of eighteen statements, most of which read: what few cost, it adds up.
-- @writes
-- @tries 10
-- @without-pgbench-tables
-- @setup CREATE TABLE rows (id int NOT NULL, k int NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL)
-- @setup INSERT INTO rows SELECT g, (hashint4(g) & 2147483647) % (100000 * :scale) + 1,
--   substr(repeat(md5(g::text), 4), 1, 119), md5((-g)::text) FROM generate_series(1, 100000 * :scale) g
-- @setup ALTER TABLE rows ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON rows (k)
\set p1 random(1, 100000 * :scale)
\set p2 random(1, 100000 * :scale)
\set p3 random(1, 100000 * :scale)
\set p4 random(1, 100000 * :scale)
\set p5 random(1, 100000 * :scale)
\set p6 random(1, 100000 * :scale)
\set p7 random(1, 100000 * :scale)
\set p8 random(1, 100000 * :scale)
\set p9 random(1, 100000 * :scale)
\set p10 random(1, 100000 * :scale)
\set r1 random(1, 100000 * :scale - 99)
\set r2 random(1, 100000 * :scale - 99)
\set r3 random(1, 100000 * :scale - 99)
\set r4 random(1, 100000 * :scale - 99)
\set u1 random(1, 100000 * :scale)
\set u2 random(1, 100000 * :scale)
\set text random(1, 1000000000)
\set again random(1, 100000 * :scale)
\set k random(1, 100000 * :scale)
BEGIN;
SELECT c FROM rows WHERE id = :p1;
SELECT c FROM rows WHERE id = :p2;
SELECT c FROM rows WHERE id = :p3;
SELECT c FROM rows WHERE id = :p4;
SELECT c FROM rows WHERE id = :p5;
SELECT c FROM rows WHERE id = :p6;
SELECT c FROM rows WHERE id = :p7;
SELECT c FROM rows WHERE id = :p8;
SELECT c FROM rows WHERE id = :p9;
SELECT c FROM rows WHERE id = :p10;
SELECT c FROM rows WHERE id BETWEEN :r1 AND :r1 + 99;
SELECT sum(k) FROM rows WHERE id BETWEEN :r2 AND :r2 + 99;
SELECT c FROM rows WHERE id BETWEEN :r3 AND :r3 + 99 ORDER BY c;
SELECT DISTINCT c FROM rows WHERE id BETWEEN :r4 AND :r4 + 99 ORDER BY c;
UPDATE rows SET k = k + 1 WHERE id = :u1;
UPDATE rows SET c = md5(:text::int::text) WHERE id = :u2;
DELETE FROM rows WHERE id = :again;
INSERT INTO rows (id, k, c, pad) VALUES (:again, :k, md5(:text::int::text), md5(:again::int::text))
  ON CONFLICT (id) DO NOTHING;
COMMIT;

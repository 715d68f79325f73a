-- one account by its key, in a table of 64 hash partitions: the cost of pruning and of locks on
-- partitions, compared with select-only
-- @reason Each statement plans or prunes over 64 children and locks those it opens; beyond the
--   16 fast-path locks of a backend (before PostgreSQL 18), it uses the shared lock table.
-- @without-pgbench-tables
-- @setup CREATE TABLE parted (aid int NOT NULL, abalance int, filler char(84)) PARTITION BY HASH (aid)
-- @setup DO $$BEGIN FOR n IN 0..63 LOOP
--   EXECUTE format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES WITH (MODULUS 64, REMAINDER %s)', n, n);
--   END LOOP; END$$
-- @setup INSERT INTO parted SELECT g, 0, '' FROM generate_series(1, 100000 * :scale) g
-- @setup ALTER TABLE parted ADD PRIMARY KEY (aid)
\set aid random(1, 100000 * :scale)
SELECT abalance FROM parted WHERE aid = :aid;

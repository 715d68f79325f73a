-- rows appended to the end of a queue, one per transaction
-- @reason All clients append to the same last page of the same index and draw from one sequence: the
--   right edge of a B-tree, relation extension, and WAL, without the rest of tpcb-like.
-- @writes
-- @without-pgbench-tables
-- @setup CREATE TABLE queue (id bigserial PRIMARY KEY, made timestamptz NOT NULL DEFAULT now(), payload text NOT NULL)
-- @settle TRUNCATE queue
-- @verify SELECT count(*) = count(DISTINCT id) FROM queue
\set n random(1, 1000000000)
INSERT INTO queue (payload) VALUES ('message ' || :n);

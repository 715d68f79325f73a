-- every client updates the same row
-- @reason A counter or a balance that all share: the row's lock is handed from one to the next, with
--   a wake-up and a commit each time. Throughput is that of one client at best; what is seen is how
--   much worse it gets.
-- @writes
-- @without-pgbench-tables
-- @setup CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL)
-- @setup INSERT INTO hot VALUES (1, 0)
-- @verify SELECT count(*) = 1 FROM hot
UPDATE hot SET n = n + 1 WHERE id = 1;

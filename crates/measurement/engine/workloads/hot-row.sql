-- every client updates the same row
-- @reason A counter or a balance that all clients share: the row lock passes from one to the next,
--   with a wake-up and a commit each time. At best, throughput equals that of one client; this
--   workload shows how far below that it falls.
-- @writes
-- @without-pgbench-tables
-- @setup CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL)
-- @setup INSERT INTO hot VALUES (1, 0)
-- @verify SELECT count(*) = 1 FROM hot
UPDATE hot SET n = n + 1 WHERE id = 1;

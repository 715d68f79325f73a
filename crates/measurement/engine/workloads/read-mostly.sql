-- nine reads per update, with keys from a Zipfian distribution: a few accounts get most requests
-- @reason Uniform keys spread buffers, locks and row versions more evenly than any application does.
--   Here the ten hottest accounts get about a third of the transactions, scattered over the table by
--   permute(), so that hot rows do not share a page by accident.
-- @writes
-- @script read 9
\set r random_zipfian(1, 100000 * :scale, 1.1)
\set aid permute(:r - 1, 100000 * :scale) + 1
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
-- @script update 1
\set r random_zipfian(1, 100000 * :scale, 1.1)
\set aid permute(:r - 1, 100000 * :scale) + 1
\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;

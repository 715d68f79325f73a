-- the sum over ten thousand neighbouring accounts: the executor, tuple access and aggregates
-- instead of the round trip
-- @reason Published tests follow select-only with a query that does some work. Here one transaction
--   reads about 160 pages, so that the share of the client and the protocol becomes negligible and
--   the comparison is of the server's inner loop.
\set aid random(1, 100000 * :scale - 9999)
SELECT count(*), sum(abalance), min(bid), max(bid) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 9999;

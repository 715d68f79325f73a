-- the sum over ten thousand neighbouring accounts: the executor, tuple access and aggregates
-- instead of the round trip
-- @reason After select-only the published tests asked what happens once a query does some work: here
--   one transaction reads some 160 pages, so that the client's and the protocol's share all but
--   vanish and what is compared is the server's inner loop.
\set aid random(1, 100000 * :scale - 9999)
SELECT count(*), sum(abalance), min(bid), max(bid) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 9999;

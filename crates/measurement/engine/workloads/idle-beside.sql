-- select-only with 500 idle connections
-- @reason Pools keep hundreds of idle connections open for a few active ones. Before PostgreSQL 14,
--   every snapshot scanned all of them; since then they should cost only memory. A comparison with
--   select-only shows which applies.
-- @idle 500
\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;

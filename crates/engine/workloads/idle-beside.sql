-- select-only while 500 connections are open and do nothing
-- @reason Pools keep hundreds of idle connections beside few active ones. Before PostgreSQL 14 every
--   snapshot walked over all of them; afterwards they should cost nothing but memory. Held against
--   select-only it shows which.
-- @idle 500
\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;

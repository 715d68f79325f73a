SELECT sum((SELECT abalance FROM pgbench_accounts WHERE aid = 1 + (g * 7919) % 100000)) FROM generate_series(1, 1000) g;

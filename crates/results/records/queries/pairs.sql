-- By how much do the servers of each comparison differ, in how many of its pairs?
WITH ratios AS (
    SELECT p.run, p.label, p.clients, p.metric, p.better, p.b / p.a AS ratio,
           row_number() OVER (PARTITION BY p.run, p.arm, p.clients, p.metric
                              ORDER BY p.b / p.a, p.launch, p.round) AS place,
           count(*) OVER (PARTITION BY p.run, p.arm, p.clients, p.metric) AS n, p.arm
    FROM pairs p
    WHERE p.phase = 'pairs' AND p.a <> 0
)
SELECT q.run, q.label, q.clients, q.metric, max(q.n) AS pairs_,
       avg(CASE WHEN abs(2 * q.place - q.n - 1) <= 1 THEN q.ratio END) - 1 AS median_change,
       CAST(sum(CASE WHEN (q.better = 'higher' AND q.ratio > 1) OR (q.better = 'lower' AND q.ratio < 1)
                     THEN 1 ELSE 0 END) AS DOUBLE) / max(q.n) AS share_better,
       max(r.verdict) AS verdict
FROM ratios q JOIN runs r ON r.run = q.run
WHERE q.metric IN ('throughput', 'server-cpu', 'p99')
GROUP BY q.run, q.arm, q.label, q.clients, q.metric
ORDER BY q.run, q.label, q.clients, q.metric

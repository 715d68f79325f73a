-- Which settings do the fast runs of a load have, and the slow ones not?
WITH ranked AS (
    SELECT p.run, r.work, p.clients,
           ntile(4) OVER (PARTITION BY r.work, p.clients ORDER BY p.throughput, p.run) AS quarter_
    FROM points p JOIN runs r ON r.run = p.run AND r.stage = p.stage
    WHERE p.arm = 0 AND p.variant IS NULL AND r.state = 'complete' AND p.throughput IS NOT NULL
), sizes AS (
    SELECT work, clients, quarter_, count(*) AS runs
    FROM ranked WHERE quarter_ IN (1, 4) GROUP BY work, clients, quarter_ HAVING count(*) >= 5
), shares AS (
    SELECT k.work, k.clients, s.name, s.value,
           -- Counts, and one division: no engine rounds on the way.
           coalesce(CAST(sum(CASE WHEN k.quarter_ = 4 THEN 1 ELSE 0 END) AS DOUBLE)
                    / max(CASE WHEN k.quarter_ = 4 THEN z.runs END), 0) AS of_fast,
           coalesce(CAST(sum(CASE WHEN k.quarter_ = 1 THEN 1 ELSE 0 END) AS DOUBLE)
                    / max(CASE WHEN k.quarter_ = 1 THEN z.runs END), 0) AS of_slow
    FROM ranked k
    JOIN sizes z ON z.work = k.work AND z.clients = k.clients AND z.quarter_ = k.quarter_
    JOIN settings s ON s.run = k.run AND s.arm = 0
    GROUP BY k.work, k.clients, s.name, s.value
)
SELECT work, clients, name, value, of_fast, of_slow
FROM shares
WHERE abs(of_fast - of_slow) > 0.25
ORDER BY round(abs(of_fast - of_slow), 6) DESC, work, clients, name, value
LIMIT 50

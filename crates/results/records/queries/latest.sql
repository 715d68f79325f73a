-- Which loads are slower in the latest run of a host than in the median of the ten before?
WITH ordered AS (
    SELECT r.work, coalesce(r.host, r.machine, 'unknown') AS host, p.clients, p.run, p.throughput,
           row_number() OVER (PARTITION BY r.work, coalesce(r.host, r.machine, 'unknown'), p.clients
                              ORDER BY r.started DESC, r.run DESC) AS back
    FROM points p JOIN runs r ON r.run = p.run AND r.stage = p.stage
    WHERE p.arm = 0 AND p.variant IS NULL AND p.throughput IS NOT NULL AND r.state = 'complete'
), before_ AS (
    SELECT work, host, clients, throughput,
           row_number() OVER (PARTITION BY work, host, clients ORDER BY throughput, run) AS place,
           count(*) OVER (PARTITION BY work, host, clients) AS n
    FROM ordered WHERE back BETWEEN 2 AND 11
), medians AS (
    SELECT work, host, clients, max(n) AS runs,
           avg(CASE WHEN abs(2 * place - n - 1) <= 1 THEN throughput END) AS median_throughput
    FROM before_ GROUP BY work, host, clients
)
SELECT o.work, o.host, o.clients, o.run, o.throughput, m.median_throughput, m.runs,
       o.throughput / m.median_throughput - 1 AS change
FROM ordered o
JOIN medians m ON m.work = o.work AND m.host = o.host AND m.clients = o.clients
WHERE o.back = 1 AND o.throughput < m.median_throughput
ORDER BY o.throughput / m.median_throughput, o.work, o.host, o.clients
LIMIT 50

-- When did it change: in which month did the median of a load move by more than 5 % from the month before?
WITH values_ AS (
    SELECT r.work, coalesce(r.host, r.machine) AS host, p.clients,
           extract(YEAR FROM r.date) * 100 + extract(MONTH FROM r.date) AS month_, p.throughput, r.run
    FROM points p JOIN runs r ON r.run = p.run AND r.stage = p.stage
    WHERE p.arm = 0 AND p.variant IS NULL AND r.state = 'complete' AND p.throughput IS NOT NULL
), placed AS (
    SELECT work, host, clients, month_, throughput,
           row_number() OVER (PARTITION BY work, host, clients, month_ ORDER BY throughput, run) AS place,
           count(*) OVER (PARTITION BY work, host, clients, month_) AS n
    FROM values_
), months AS (
    SELECT work, host, clients, month_, max(n) AS runs,
           avg(CASE WHEN abs(2 * place - n - 1) <= 1 THEN throughput END) AS median_throughput
    FROM placed
    GROUP BY work, host, clients, month_
), followed AS (
    SELECT work, host, clients, month_, runs, median_throughput,
           lag(median_throughput) OVER (PARTITION BY work, host, clients ORDER BY month_) AS before_
    FROM months
)
SELECT work, host, clients, month_, runs, before_, median_throughput, median_throughput / before_ - 1 AS change
FROM followed
WHERE abs(median_throughput / before_ - 1) > 0.05
ORDER BY abs(median_throughput / before_ - 1) DESC, work, host, clients, month_
LIMIT 50

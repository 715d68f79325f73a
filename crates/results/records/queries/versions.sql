-- How fast is each release of PostgreSQL under each load?
WITH values_ AS (
    SELECT r.work, p.clients, s.major, p.throughput,
           row_number() OVER (PARTITION BY r.work, p.clients, s.major ORDER BY p.throughput, r.run) AS place,
           count(*) OVER (PARTITION BY r.work, p.clients, s.major) AS n
    FROM points p
    JOIN runs r ON r.run = p.run AND r.stage = p.stage
    JOIN servers s ON s.run = p.run AND s.arm = p.arm
    WHERE r.state = 'complete' AND p.variant IS NULL AND p.throughput IS NOT NULL AND s.major IS NOT NULL
)
SELECT work, clients, major, max(n) AS runs, min(throughput) AS lowest,
       -- The middle value, or the mean of the two: the same in every dialect.
       avg(CASE WHEN abs(2 * place - n - 1) <= 1 THEN throughput END) AS median_throughput,
       max(throughput) AS highest
FROM values_
GROUP BY work, clients, major
ORDER BY work, clients, length(major), major

-- Which hosts measure badly: how wide are their intervals, and how many of their runs were disturbed?
WITH widths AS (
    SELECT coalesce(r.host, r.machine, 'unknown') AS host, r.run, r.grade,
           (p.high - p.low) / p.throughput AS width,
           row_number() OVER (PARTITION BY coalesce(r.host, r.machine, 'unknown')
                              ORDER BY (p.high - p.low) / p.throughput, p.run, p.stage, p.arm, p.clients) AS place,
           count(*) OVER (PARTITION BY coalesce(r.host, r.machine, 'unknown')) AS n
    FROM points p JOIN runs r ON r.run = p.run
    WHERE p.throughput > 0 AND p.low IS NOT NULL AND p.high IS NOT NULL AND p.variant IS NULL
)
SELECT host, count(DISTINCT run) AS runs, max(n) AS points_,
       avg(CASE WHEN abs(2 * place - n - 1) <= 1 THEN width END) AS median_width,
       count(DISTINCT CASE WHEN grade = 'poor' THEN run END) AS poor_runs
FROM widths
GROUP BY host
ORDER BY median_width DESC, host

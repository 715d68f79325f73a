-- What is found on which host, and in which part of its runs?
WITH named AS (
    SELECT run, coalesce(host, machine, 'unknown') AS host FROM runs
), totals AS (
    SELECT host, count(*) AS runs FROM named GROUP BY host
)
SELECT n.host, f.id, max(f.title) AS title, f.severity, count(DISTINCT f.run) AS runs,
       CAST(count(DISTINCT f.run) AS DOUBLE) / t.runs AS share,
       max(f.expected_gain) AS largest_gain
FROM findings f
JOIN named n ON n.run = f.run
JOIN totals t ON t.host = n.host
WHERE f.severity IN ('high', 'medium')
GROUP BY n.host, f.id, f.severity, t.runs
ORDER BY n.host, runs DESC, f.id, f.severity

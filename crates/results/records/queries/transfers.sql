-- Which shared cache lines go from processor to processor most, and how does that grow with sessions?
SELECT workload, version, what, name,
       max(CASE WHEN sessions = 1 THEN transfers END) AS at_1,
       max(CASE WHEN sessions = 8 THEN transfers END) AS at_8,
       max(CASE WHEN sessions = 64 THEN transfers END) AS at_64,
       max(CASE WHEN sessions = 384 THEN transfers END) AS at_384,
       count(DISTINCT run) AS recordings
FROM lines
WHERE what IN ('memory', 'all')
GROUP BY workload, version, what, name
ORDER BY workload, version, at_64 DESC NULLS LAST, what, name
LIMIT 50

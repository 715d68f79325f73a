-- How many trials are lost on each host, and why?
SELECT coalesce(r.host, r.machine, 'unknown') AS host, t.lost, count(*) AS trials,
       count(DISTINCT t.run) AS runs, min(t.why) AS for_example
FROM trials t JOIN runs r ON r.run = t.run
WHERE t.lost IS NOT NULL
GROUP BY coalesce(r.host, r.machine, 'unknown'), t.lost
ORDER BY trials DESC, host, t.lost

-- What does a transaction cost the server on each processor: CPU time and throughput a CPU?
WITH values_ AS (
    SELECT r.cpu_model, r.architecture, r.work, m.clients, m.value, p.throughput / r.cpus AS per_cpu,
           row_number() OVER (PARTITION BY r.cpu_model, r.architecture, r.work, m.clients
                              ORDER BY m.value, r.run) AS place,
           count(*) OVER (PARTITION BY r.cpu_model, r.architecture, r.work, m.clients) AS n
    FROM metrics m
    JOIN runs r ON r.run = m.run AND r.stage = m.stage
    JOIN points p ON p.run = m.run AND p.stage = m.stage AND p.arm = m.arm AND p.clients = m.clients
    WHERE m.metric = 'server-cpu' AND m.trial IS NULL AND m.variant IS NULL AND p.variant IS NULL
      AND m.arm = 0 AND r.state = 'complete' AND r.cpus > 0
)
SELECT cpu_model, architecture, work, clients, max(n) AS runs,
       avg(CASE WHEN abs(2 * place - n - 1) <= 1 THEN value END) AS median_cpu_us,
       max(per_cpu) AS best_throughput_per_cpu
FROM values_
GROUP BY cpu_model, architecture, work, clients
ORDER BY work, clients, cpu_model, architecture

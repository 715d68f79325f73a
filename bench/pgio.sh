#!/bin/bash
# buffer_hit against PGIO's method of buffer hits, on the same server and table,
# with the same sessions, alternating in one run.
#
#	bench/pgio.sh PG_CONFIG [ROUNDS [SESSIONS]]
#
# PGIO's method: a PL/pgSQL loop that draws a key and sums a column over the 256
# rows from that key on, by dynamic SQL, through the index; one row per block.
# Prints block hits per second and per CPU second for each session, medians over
# the rounds. Exits 1 if buffer_hit achieves less than 5 times PGIO's rate at random
# or 15 times on one block, or if the sessions' own counters differ from it by 1 %.
source "$(dirname "$0")/cluster.sh"
pg_config=${1:?usage: pgio.sh PG_CONFIG [ROUNDS [SESSIONS]]}
rounds=${2:-15}
sessions=${3:-1}
blocks=32768

start_cluster "$pg_config" "shared_buffers = 512MB" "fsync = off"
make_table pgio1 $blocks
run_sql <<EOF
CREATE FUNCTION pgio_way(arena bigint, slot integer, microseconds integer)
RETURNS pgassay.outcome LANGUAGE plpgsql AS \$\$
DECLARE
	batch bigint;
	first bigint;
	total bigint;
BEGIN
	PERFORM pgassay.loop_begin(arena, slot, 0, NULL, microseconds);
	LOOP
		batch := pgassay.loop_next();
		EXIT WHEN batch = 0;
		FOR i IN 1 .. batch LOOP
			first := 1 + floor(random() * ($blocks - 255))::bigint;
			EXECUTE 'SELECT sum(scratch) FROM pgio1 WHERE mykey BETWEEN '
				|| first || ' AND ' || first + 255 INTO total;
		END LOOP;
	END LOOP;
	RETURN pgassay.loop_end();
END
\$\$;
EOF
run_sql -c "SELECT pgassay.warm('pgio1')" -c "SELECT pgassay.warm('pgio1')" >/dev/null

# The session that keeps the arena, and one file of calls for each of the others.
mkfifo "$work/keeper.in"
run_sql <"$work/keeper.in" >"$work/keeper.out" &
keeper=$!
exec 9>"$work/keeper.in"
echo "SELECT pgassay.arena_create($sessions);" >&9
until [ -s "$work/keeper.out" ]; do sleep 0.01; done
arena=$(cat "$work/keeper.out")
columns="operations, blocks_hit, blocks_read, elapsed_ns, cpu_ns"
pids=()
for slot in $(seq 0 $((sessions - 1))); do
	for round in $(seq "$rounds"); do
		echo "SELECT 'pgio', $round, $columns FROM pgio_way($arena, $slot, 400000);"
		echo "SELECT 'uniform', $round, $columns FROM pgassay.buffer_hit($arena, $slot, $round, microseconds => 400000, rel => 'pgio1');"
		echo "SELECT 'hot', $round, $columns FROM pgassay.buffer_hit($arena, $slot, $round, microseconds => 400000, rel => 'pgio1', pattern => 'hot');"
	done >"$work/calls.$slot"
	run_sql -f "$work/calls.$slot" >"$work/rows.$slot" &
	pids+=($!)
done
wait "${pids[@]}"
exec 9>&-
wait "$keeper"

cat "$work"/rows.* | run_sql -c 'CREATE TABLE rounds (way text, round int, operations float8, hit float8, read float8, elapsed_ns float8, cpu_ns float8)' \
	-c "COPY rounds FROM STDIN WITH (DELIMITER '|')"
run_sql -A -F '  ' -P tuples_only=off -P footer=off <<'EOF'
CREATE VIEW rates AS
	SELECT way, round, avg(hit / elapsed_ns * 1e3) AS per_second, sum(hit) / sum(cpu_ns) * 1e3 AS per_cpu_second
	FROM rounds GROUP BY way, round;
CREATE VIEW ratios AS
	SELECT way, round, r.per_second / p.per_second AS elapsed, r.per_cpu_second / p.per_cpu_second AS cpu
	FROM rates r JOIN (SELECT round, per_second, per_cpu_second FROM rates WHERE way = 'pgio') p USING (round);
SELECT way, round(median_second::numeric, 2) AS "M hits/s/session", round(median_cpu::numeric, 2) AS "M hits/CPU s",
	round(ratio::numeric, 2) AS "x PGIO by time", round(cpu_ratio::numeric, 2) AS "x PGIO by CPU",
	round(cpu_low::numeric, 2) AS "lowest round", round(cpu_high::numeric, 2) AS "highest", reads AS "blocks read",
	round((100 * counted)::numeric, 3) AS "% counted"
FROM (SELECT way, percentile_cont(0.5) WITHIN GROUP (ORDER BY per_second) AS median_second,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY per_cpu_second) AS median_cpu FROM rates GROUP BY way) a
	JOIN (SELECT way, percentile_cont(0.5) WITHIN GROUP (ORDER BY elapsed) AS ratio,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS cpu_ratio, min(cpu) AS cpu_low, max(cpu) AS cpu_high
		FROM ratios GROUP BY way) b USING (way)
	JOIN (SELECT way, sum(read) AS reads, sum(hit + read) / sum(operations) AS counted FROM rounds GROUP BY way) c USING (way)
ORDER BY median_cpu;
EOF
[ "$(run_sql -c "SELECT (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) >= 5 FROM ratios WHERE way = 'uniform')
	AND (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) >= 15 FROM ratios WHERE way = 'hot')
	AND (SELECT abs(sum(hit + read) / sum(operations) - 1) < 0.01 FROM rounds WHERE way <> 'pgio')")" = t ]

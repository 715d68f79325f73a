#!/bin/bash
# `pgassay run pgio` against PGIO's own scripts: one server, one table, one
# session, the three methods alternating in one run.
#
#	bench/pgio-classic.sh PG_CONFIG PGIO_DIR [ROUNDS]
#
# PGIO_DIR contains PGIO 1.0 (https://github.com/therealkevinc/pgio), which is not
# part of this project. Prints SELECTs per second and per CPU second for each
# method, and the ratios to PGIO with 95 % intervals of the median (by order
# statistics). Exits 1 unless the whole interval of --classic is within 5 % of PGIO
# and the normal method does at least 1.1 times as many logical reads per CPU second.
source "$(dirname "$0")/cluster.sh"
pg_config=${1:?usage: pgio-classic.sh PG_CONFIG PGIO_DIR [ROUNDS]}
pgio=$(realpath "${2:?usage: pgio-classic.sh PG_CONFIG PGIO_DIR [ROUNDS]}")
rounds=${3:-40}
pgassay=${PGASSAY:-$project/target/release/pgassay}
rows=32768

start_cluster "$pg_config" "shared_buffers = 512MB" "fsync = off"
chmod 755 "$sockets"
run_pgassay() {
	"$pgassay" --runs "$work/runs" --quiet run pgio "host=$sockets port=5432 user=postgres dbname=postgres" --load \
		--tables 1 --size $((rows * 8192)) --clients 1 --trials 1 --time 0.2 --keep-tables "$@" >/dev/null
}
run_pgassay
run_pgassay --classic
for file in pgio_get_rand.sql pgio.sql; do
	found=$(find "$pgio" -name "$file" | head -1)
	# The script starts by dropping a type that does not exist yet.
	"$bin/psql" -Xq -f "${found:?no $file in $pgio}" >/dev/null 2>&1 || true
done
run_sql -c "SELECT sum(scratch) FROM pgassay_pgio.pgio1" >/dev/null

echo "SELECT pg_backend_pid() AS pid \\gset
\\setenv BACKEND :pid" >"$work/calls"
ways=(pgio classic normal)
for round in $(seq "$rounds"); do
	for way in $(printf '%s\n' "${ways[@]}" | shuf --random-source=<(yes "$round")); do
		case $way in
		pgio) call="SELECT sql_selects FROM mypgio('pgassay_pgio.pgio1', 0, 1, $rows, 255, 8)" ;;
		classic) call="SELECT split_part(pgassay_pgio.classic('pgassay_pgio.pgio1', 0, 1000000, $rows, 255, 8), ' ', 1)" ;;
		normal) call="CALL pgassay_pgio.units1('', 1000000, 9223372036854775807, 0)" ;;
		esac
		echo "\\! printf '%s %s ' $way $round; cut -d' ' -f1 /proc/\$BACKEND/schedstat | tr '\\n' ' '"
		echo "$call;"
		echo "\\! printf 'end '; cut -d' ' -f1 /proc/\$BACKEND/schedstat"
	done
done >>"$work/calls"
run_sql -f "$work/calls" >"$work/rows"
# way round cpu_before selects … end cpu_after, over two lines
tr '\n' ' ' <"$work/rows" | sed 's/end \([0-9]*\) /end \1\n/g' |
	awk 'NF { for (i = 1; i < NF; i++) if ($i == "end") print $1, $2, $4, $(i + 1) - $3 }' >"$work/table"
run_sql -c "CREATE TABLE rounds (way text, round int, selects float8, cpu_ns float8)" \
	-c "COPY rounds FROM STDIN WITH (DELIMITER ' ')" <"$work/table"
run_sql -A -F '  ' -P tuples_only=off -P footer=off <<'SQL'
CREATE VIEW ratios AS
	SELECT r.way, round, (r.selects / r.cpu_ns) / (p.selects / p.cpu_ns) AS cpu, r.selects / p.selects AS elapsed
	FROM rounds r JOIN (SELECT round, selects, cpu_ns FROM rounds WHERE way = 'pgio') p USING (round);
CREATE VIEW ranked AS
	SELECT way, cpu, row_number() OVER (PARTITION BY way ORDER BY cpu) AS rank, count(*) OVER (PARTITION BY way) AS n FROM ratios;
CREATE VIEW intervals AS
	SELECT way, n, percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS ratio,
		min(cpu) FILTER (WHERE rank = greatest(1, floor((n - 1.96 * sqrt(n)) / 2))) AS low,
		min(cpu) FILTER (WHERE rank = least(n, n + 1 - greatest(1, floor((n - 1.96 * sqrt(n)) / 2)))) AS high
	FROM ranked GROUP BY way, n;
SELECT way, round(median::numeric) AS "SELECTs/s", round(per_cpu::numeric) AS "SELECTs/CPU s", n AS rounds,
	round(ratio::numeric, 3) AS "x PGIO by CPU", round(low::numeric, 3) AS low, round(high::numeric, 3) AS high
FROM intervals JOIN (SELECT way, percentile_cont(0.5) WITHIN GROUP (ORDER BY selects) AS median,
	percentile_cont(0.5) WITHIN GROUP (ORDER BY selects / cpu_ns * 1e9) AS per_cpu FROM rounds GROUP BY way) m USING (way)
ORDER BY way;
SQL
[ "$(run_sql -c "SELECT (SELECT low > 0.95 AND high < 1.05 FROM intervals WHERE way = 'classic')
	AND (SELECT ratio >= 1.1 FROM intervals WHERE way = 'normal')")" = t ]

#!/bin/bash
# Set-up of `pgassay run pgio` and PGIO's setup.sh: the same tables, alternating on
# one server.
#
#	bench/pgio-setup.sh PG_CONFIG PGIO_DIR [ROUNDS [TABLES [SCALE]]]
#
# Prints the seconds of each round and the ratio of the medians; exits 1 unless
# pgassay is at least twice as fast. At its end, PGIO waits five seconds to read the
# sizes of the tables; these are subtracted.
source "$(dirname "$0")/cluster.sh"
usage="usage: pgio-setup.sh PG_CONFIG PGIO_DIR [ROUNDS [TABLES [SCALE]]]"
pg_config=${1:?$usage}
pgio=$(realpath "${2:?$usage}")
rounds=${3:-3}
tables=${4:-4}
scale=${5:-1G}
pgassay=${PGASSAY:-$project/target/release/pgassay}

start_cluster "$pg_config" "shared_buffers = 1GB" "max_wal_size = 16GB" "checkpoint_timeout = 1h"
chmod 755 "$sockets"
cp -r "$pgio" "$work/pgio"
config="UPDATE_PCT=0
RUN_TIME=1
NUM_SCHEMAS=$tables
NUM_THREADS=$(nproc)
WORK_UNIT=255
UPDATE_WORK_UNIT=8
SCALE=$scale
DBNAME=postgres
CONNECT_STRING=postgres
CREATE_BASE_TABLE=TRUE"
echo "$config" >"$work/pgio/pgio.conf"
export PATH=$bin:$PATH
seconds() {
	local start=$EPOCHREALTIME
	"$@" >/dev/null 2>&1
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'
}
theirs() { (cd "$work/pgio" && bash setup.sh); }
ours() {
	"$pgassay" --runs "$work/runs" run pgio "host=$sockets port=5432 user=postgres dbname=postgres" --load \
		--config "$work/pgio/pgio.conf" --setup-only
}
for round in $(seq "$rounds"); do
	for way in $([ $((round % 2)) = 0 ] && echo "ours theirs" || echo "theirs ours"); do
		# Each starts with an empty database and no dirty buffers.
		run_sql -c "DROP SCHEMA IF EXISTS pgassay_pgio CASCADE" \
			-c "DROP TABLE IF EXISTS pgio_base$(for i in $(seq "$tables"); do printf ', pgio%s' "$i"; done)" \
			-c "CHECKPOINT" 2>/dev/null
		took=$(seconds "$way")
		[ "$way" = ours ] || took=$(awk -v t="$took" 'BEGIN { print t - 5 }')
		echo "$way $took" | tee -a "$work/times"
	done
done
median() { awk -v way="$1" '$1 == way { print $2 }' "$work/times" | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
awk -v a="$(median theirs)" -v b="$(median ours)" 'BEGIN {
	printf "PGIO %.1f s, pgassay %.1f s: %.2f times as fast\n", a, b, a / b
	exit !(a / b >= 2)
}'

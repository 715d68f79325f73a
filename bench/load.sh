#!/usr/bin/env bash
# Loading the pgbench tables: `pgassay pgbench -i` and the real `pgbench -i`, alternating on one
# server.
#
#	bench/load.sh [PAIRS [SCALE]]      default: 5 pairs at scale 100
#
# For each, measures the wall-clock time (after a checkpoint) and the CPU time of all server processes
# and of the client.  Prints pgbench / pgassay as median [min .. max]: how many times faster pgassay
# is.  After each pair, the tables loaded by the two programs are compared.
# One load is discarded first, because a new cluster has to create its files and WAL.
# OURS is pgassay, BIN the server's bin directory, PLACE the directory for the cluster.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$project/bench/server.sh"
pairs=${1:-5}
scale=${2:-100}
ours=${OURS:-$project/target/release/pgassay}
start_server "-c shared_buffers=${SHARED_BUFFERS:-2GB} -c max_wal_size=16GB -c autovacuum=off"

fill() { # ours | theirs: WALL USER SYSTEM of the client, CPU of the server
	local before after program=("$bin/pgbench")
	[ "$1" = theirs ] || program=("$ours" pgbench)
	"$bin/psql" -qX -c CHECKPOINT
	before=$(server_cpu)
	local TIMEFORMAT='%R %U %S'
	{ time "${program[@]}" -i -q -s "$scale" >"$work/out" 2>&1; } 2>"$work/time" ||
		{ cat "$work/out" >&2; exit 1; }
	sleep 0.5
	after=$(server_cpu)
	echo "$1: $(tail -1 "$work/out")" >&2
	echo "$(tail -1 "$work/time") $before $after"
}
contents() {
	"$bin/psql" -AtX -c "SELECT count(*), sum(aid), sum(bid), sum(abalance), min(octet_length(filler::text)), max(octet_length(filler::text)), sum(pg_column_size(a.*)) FROM pgbench_accounts a" \
		-c "SELECT count(*) FROM pgbench_accounts WHERE bid <> (aid - 1) / 100000 + 1" \
		-c "SELECT count(*), sum(tid), sum(bid), count(filler) FROM pgbench_tellers" \
		-c "SELECT count(*), sum(bid), sum(bbalance), count(filler) FROM pgbench_branches" \
		-c "SELECT count(*) FROM pgbench_history" \
		-c "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid::regclass::text ~ '^pgbench' ORDER BY 1"
}

echo "$("$bin/pgbench" --version); scale $scale, $pairs alternating pairs"
: >"$work/pairs"
fill theirs >/dev/null
for pair in $(seq "$pairs"); do
	if [ $((pair % 2)) = 1 ]; then
		o=$(fill ours) && contents >"$work/by.ours"
		t=$(fill theirs) && contents >"$work/by.theirs"
	else
		t=$(fill theirs) && contents >"$work/by.theirs"
		o=$(fill ours) && contents >"$work/by.ours"
	fi
	diff "$work/by.theirs" "$work/by.ours" || { echo "load.sh: the tables of the two programs differ" >&2; exit 1; }
	echo "$o $t" >>"$work/pairs"
done
awk "$sorted_ratio"'
	{ wall[NR] = $6 / $1; server[NR] = ($10 - $9) / ($5 - $4); client[NR] = ($7 + $8) / ($2 + $3 + 0.001)
	  mine[NR] = $1; its[NR] = $6 }
	END { printf "pgbench / pgassay: time %s, server CPU %s, client CPU %s\n", shown(wall, NR), shown(server, NR), shown(client, NR)
	  printf "seconds: pgassay %s, pgbench %s; the tables are identical\n", shown(mine, NR), shown(its, NR) }' "$work/pairs"

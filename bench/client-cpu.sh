#!/usr/bin/env bash
# CPU cost of the client: the load engine and the real pgbench, alternating on one server.
#
#	bench/client-cpu.sh [PAIRS [CLIENTS…]]      default: 9 pairs at 1 8 64 256 1000
#
# Both run prepared select-only over a Unix socket, with the same number of
# transactions and one load thread each (THREADS=2 for two).  For each client
# count, prints the ratio pgassay / pgbench of CPU time (user + system of the
# whole process, including start-up), of its user part and of throughput, as
# median [min .. max] over the pairs; then system calls per transaction by strace.
# BIN is the server's bin directory, SERVER_SET contains further settings.  OURS is
# a build of the example client_load in place of a new one; with AGAINST, another
# build of it takes pgbench's place: before and after a change.

set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pairs=${1:-9}
shift || true
clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(1 8 64 256 1000)
threads=${THREADS:-1}
bin=${BIN:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)}
export LC_ALL=C

if [ -z "${OURS:-}" ]; then
	cargo build --quiet --release --manifest-path "$project/Cargo.toml" -p pgassay-load --example client_load
	OURS=$project/target/release/examples/client_load
fi

work=$(mktemp -d /var/tmp/pgassay-bench.XXXXXX)
sockets=$(mktemp -d /tmp/pga-XXXXXX)
as_server=(env)
if [ "$(id -u)" = 0 ]; then
	as_server=(setpriv --reuid postgres --regid postgres --clear-groups)
	chown postgres "$work" "$sockets"
fi
stop() {
	"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$work" "$sockets"
}
trap stop EXIT
cd "$work"
"${as_server[@]}" "$bin/initdb" -D "$work/data" --locale=C --encoding=UTF8 -U postgres -A trust >/dev/null
"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -w -o \
	"-c listen_addresses= -c unix_socket_directories=$sockets -c max_connections=1100 -c shared_buffers=512MB -c autovacuum=off ${SERVER_SET:-}" start >/dev/null
export PGHOST=$sockets PGUSER=postgres PGDATABASE=postgres
"$bin/pgbench" -i -q -s 10 2>/dev/null

# USER SYSTEM ELAPSED of a command, in seconds, on stdout; its output goes to $work/out.
timed() {
	local TIMEFORMAT='%U %S %R'
	{ time "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; return 1; } 2>/dev/null; } 2>&1
}
ours() { # clients, transactions per client
	"$OURS" "host=$sockets dbname=postgres user=postgres" select-only "$1" 0 "$threads" prepared 0 "$2"
}
theirs() {
	if [ -n "${AGAINST:-}" ]; then
		"$AGAINST" "host=$sockets dbname=postgres user=postgres" select-only "$1" 0 "$threads" prepared 0 "$2"
		return
	fi
	"$bin/pgbench" -n -S -M prepared -c "$1" -j $((threads < $1 ? threads : $1)) -t "$2"
}
# Transactions per second without connection time, as reported by each program.
our_rate() { sed -n 's/.*"tps":\([0-9.]*\).*/\1/p' "$work/out"; }
their_rate() {
	[ -z "${AGAINST:-}" ] || { our_rate; return; }
	sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$work/out"
}

echo "pgbench: $("$bin/pgbench" --version); $pairs alternating pairs, $threads load thread(s)"
echo "pgassay / ${AGAINST:-pgbench}, median [min .. max]; medians of CPU microseconds per transaction"
for c in "${clients[@]}"; do
	per_client=$((c == 1 ? 60000 : c == 8 ? 15000 : 160000 / c))
	total=$((per_client * c))
	: >"$work/pairs"
	for pair in $(seq "$pairs"); do
		if [ $((pair % 2)) = 1 ]; then
			o=$(timed ours "$c" "$per_client"); or=$(our_rate)
			t=$(timed theirs "$c" "$per_client"); tr=$(their_rate)
		else
			t=$(timed theirs "$c" "$per_client"); tr=$(their_rate)
			o=$(timed ours "$c" "$per_client"); or=$(our_rate)
		fi
		echo "$o $or $t $tr" >>"$work/pairs"
	done
	awk -v c="$c" -v n="$total" '
		function sorted(a, k,   i, j, t) { for (i = 2; i <= k; i++) { t = a[i]; for (j = i - 1; j > 0 && a[j] > t; j--) a[j + 1] = a[j]; a[j + 1] = t } }
		function median(a, k) { return k % 2 ? a[(k + 1) / 2] : (a[k / 2] + a[k / 2 + 1]) / 2 }
		function shown(a, k) { sorted(a, k); return sprintf("%.2f [%.2f .. %.2f]", median(a, k), a[1], a[k]) }
		{ cpu[NR] = ($1 + $2) / ($5 + $6); user[NR] = $1 / ($5 > 0 ? $5 : 0.001); rate[NR] = $4 / $8
		  mine[NR] = ($1 + $2) / n * 1e6; theirs[NR] = ($5 + $6) / n * 1e6 }
		END { sorted(mine, NR); sorted(theirs, NR)
		  printf "%5d clients: CPU %s  user %s  throughput %s  (%.2f against %.2f us)\n", c, shown(cpu, NR), shown(user, NR), shown(rate, NR), median(mine, NR), median(theirs, NR) }' "$work/pairs"
done

if command -v strace >/dev/null; then
	echo "system calls per transaction (strace -c, difference of two run lengths)"
	calls() { # who, clients, transactions per client
		if [ "$1" = ours ]; then
			strace -f -qq -c -o "$work/calls" "$OURS" "host=$sockets dbname=postgres user=postgres" select-only "$2" 0 "$threads" prepared 0 "$3" >/dev/null 2>&1
		else
			strace -f -qq -c -o "$work/calls" "$bin/pgbench" -n -S -M prepared -c "$2" -j $((threads < $2 ? threads : $2)) -t "$3" >/dev/null 2>&1
		fi
		awk '/total$/ { print $(NF - 2) ~ /^[0-9]+$/ ? $(NF - 2) : $(NF - 1) }' "$work/calls"
	}
	for c in 1 8; do
		for who in ours pgbench; do
			short=$(calls $who $c 200) long=$(calls $who $c 2200)
			awk -v who=$who -v c=$c -v a="$short" -v b="$long" 'BEGIN { printf "%5d clients, %-7s %.2f\n", c, who, (b - a) / (2000 * c) }'
		done
	done
fi

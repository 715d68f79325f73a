#!/usr/bin/env bash
# The load engine and the real pgbench in cases that client-cpu.sh does not cover: over TLS,
# tpcb-like's throughput, at a given rate for a minute, and with ten thousand clients.
#
#	bench/wire.sh [PAIRS [tls|tpcb|paced|many …]]      default: 5 pairs of each
#
# OURS is examples/client_load in release mode, BIN the server's bin directory.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$project/bench/server.sh"
pairs=${1:-5}
shift || true
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(tls tpcb paced many)
if [ -z "${OURS:-}" ]; then
	cargo build --quiet --release --manifest-path "$project/Cargo.toml" -p pgassay-load --example client_load
	OURS=$project/target/release/examples/client_load
fi
start_server "-c shared_buffers=512MB -c max_connections=300 -c autovacuum=off -c listen_addresses=127.0.0.1 -c port=${PORT:-54329}"
export PGPORT=${PORT:-54329}
"$bin/pgbench" -i -q -s 10 2>/dev/null

timed() { # USER SYSTEM of a command
	local TIMEFORMAT='%U %S'
	{ time "$@" >"$work/out" 2>&1; } 2>"$work/time" || { cat "$work/out" >&2; exit 1; }
	cat "$work/time"
}
our_rate() { sed -n 's/.*"tps":\([0-9.]*\).*/\1/p' "$work/out"; }
their_rate() { sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$work/out"; }

# All transactions, including the warm-up: the CPU time covers these.
our_count() { sed -n 's/.*"transactions_sent":\([0-9]*\).*/\1/p' "$work/out"; }
their_count() { sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/out"; }

compare() { # title, CONNINFO, script, clients, seconds, pgbench's flag for the script, a different CONNINFO for pgassay
	local our=${7:-$2}
	: >"$work/pairs"
	for pair in $(seq "$pairs"); do
		"$bin/psql" -qX -c CHECKPOINT
		if [ $((pair % 2)) = 1 ]; then
			o=$(timed "$OURS" "$our" "$3" "$4" "$5" 1) or="$(our_rate) $(our_count)"
			t=$(timed "$bin/pgbench" -n -M prepared $6 -c "$4" -j 1 -T "$5" "$2") tr="$(their_rate) $(their_count)"
		else
			t=$(timed "$bin/pgbench" -n -M prepared $6 -c "$4" -j 1 -T "$5" "$2") tr="$(their_rate) $(their_count)"
			o=$(timed "$OURS" "$our" "$3" "$4" "$5" 1) or="$(our_rate) $(our_count)"
		fi
		echo "$o $or $t $tr" >>"$work/pairs"
	done
	# For both, the system part is the kernel sending over loopback; the user part is the program.
	awk "$sorted_ratio"' { cpu[NR] = (($1 + $2) / $4) / (($5 + $6) / $8); user[NR] = ($1 / $4) / ($5 / $8)
		  system_[NR] = ($2 / $4) / ($6 / $8); rate[NR] = $3 / $7 }
		END { printf "'"$1"': pgassay / pgbench: client CPU per transaction %s (user %s, system %s), throughput %s\n", shown(cpu, NR), shown(user, NR), shown(system_, NR), shown(rate, NR) }' "$work/pairs"
}

for part in "${parts[@]}"; do
	case $part in
	tls)
		openssl req -new -x509 -days 2 -nodes -subj /CN=localhost -out "$work/data/server.crt" -keyout "$work/data/server.key" 2>/dev/null
		chmod 600 "$work/data/server.key"
		[ "$(id -u)" != 0 ] || chown postgres "$work/data/server.crt" "$work/data/server.key"
		"$bin/psql" -qX -c "ALTER SYSTEM SET ssl = on" -c "SELECT pg_reload_conf()" >/dev/null
		sleep 1
		secured="host=127.0.0.1 port=$PGPORT dbname=postgres user=postgres sslmode=require"
		for c in 8 64; do
			compare "TLS, $c clients" "$secured" select-only "$c" 3 -S
		done
		# The share of TCP alone in the ratio: pgassay without TLS, pgbench with TLS.
		compare "TCP against TLS, 8 clients" "$secured" select-only 8 3 -S "${secured/require/disable}"
		;;
	tpcb)
		for c in 1 8 64; do
			compare "tpcb-like, $c clients" "host=$sockets port=$PGPORT dbname=postgres user=postgres" tpcb-like "$c" 3 ""
		done
		;;
	paced)
		"$OURS" "host=$sockets port=$PGPORT dbname=postgres user=postgres" select-only 8 5 1 >"$work/out"
		rate=$(our_rate | awk '{ printf "%d", $1 / 2 }')
		"$OURS" "host=$sockets port=$PGPORT dbname=postgres user=postgres" select-only 8 60 1 prepared "$rate" >"$work/out"
		our_rate | awk -v r="$rate" '{ printf "paced at %d per second for a minute: %.1f, deviation %.2f %%\n", r, $1, ($1 / r - 1) * 100 }'
		;;
	many)
		# In its own process; the test reads its memory: at most 300 MiB.
		(cd "$project" && cargo test --quiet --release -p pgassay-load --test load many::ten_thousand_clients_fit -- --nocapture)
		;;
	esac
done

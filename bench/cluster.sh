# A throw-away cluster with the extension's functions, for the scripts in this
# directory (to be sourced).
#
#	start_cluster PG_CONFIG [SETTING=VALUE…]   sets PGHOST … and $bin, $work
#	run_sql ARGS…                              psql on it, tuples only
#
# As root, the server runs as the user postgres.  Everything is removed at exit.

set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

stop_cluster() {
	if [ -f "$work/data/postmaster.pid" ]; then
		"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null || true
	fi
	rm -rf "$work" "$sockets"
}

start_cluster() {
	local pg_config=$1
	shift
	bin=$("$pg_config" --bindir)
	work=$(mktemp -d /var/tmp/pgassay-bench.XXXXXX)
	sockets=$(mktemp -d /tmp/pga-XXXXXX)
	as_server=(env)
	if [ "$(id -u)" = 0 ]; then
		as_server=(setpriv --reuid postgres --regid postgres --clear-groups)
		chown postgres "$work" "$sockets"
	fi
	chmod 755 "$work"
	trap stop_cluster EXIT
	cp -r "$project/ext" "$work/ext"
	make -s -C "$work/ext" PG_CONFIG="$pg_config" clean >/dev/null
	make -s -C "$work/ext" PG_CONFIG="$pg_config" pgassay.so definitions.sql
	chmod -R a+rX "$work"
	cd "$work"
	"${as_server[@]}" "$bin/initdb" -D "$work/data" --locale=C --encoding=UTF8 \
		-U postgres -A trust >"$work/initdb.log"
	{
		echo "unix_socket_directories = '$sockets'"
		echo "listen_addresses = ''"
		echo "port = 5432"
		echo "autovacuum = off"
		printf '%s\n' "$@"
	} >>"$work/data/postgresql.conf"
	"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -w start >/dev/null
	export PGHOST=$sockets PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	run_sql -c 'CREATE SCHEMA pgassay' -f "$work/ext/definitions.sql"
}

run_sql() {
	"$bin/psql" -XAtq -v ON_ERROR_STOP=1 "$@"
}

# Creates a table with one row per 8 KiB block.
make_table() { # name, blocks
	run_sql -c "CREATE TABLE $1 (mykey bigint, scratch bigint, filler char(1024)) WITH (fillfactor = 10)" \
		-c "INSERT INTO $1 SELECT g, 0, 'x' FROM generate_series(1, $2) g ORDER BY hashint8(g)" \
		-c "CREATE INDEX ON $1 (mykey)" -c "VACUUM (FREEZE, ANALYZE) $1"
}

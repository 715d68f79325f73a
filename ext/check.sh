#!/bin/bash
# Builds the extension for one PostgreSQL, and runs its regression tests and
# multi-session tests on a throw-away cluster of it.
#
#	ext/check.sh [PG_CONFIG [PG_CONFIG of another major version]]
#
# As root, the server runs as the user postgres.  Exits 0 if all tests passed.
set -euo pipefail

pg_config=${1:-pg_config}
other=${2:-}
major() { "$1" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/'; }
if [ -n "$other" ] && [ "$(major "$other")" = "$(major "$pg_config")" ]; then
	echo "check.sh: $other has the same major version; pass one of another major version" >&2
	exit 2
fi
source_dir=$(cd "$(dirname "$0")" && pwd)
bin=$("$pg_config" --bindir)
work=$(mktemp -d /var/tmp/pgassay-check.XXXXXX)
sockets=$(mktemp -d /tmp/pga-XXXXXX)
as_server=()
if [ "$(id -u)" = 0 ]; then
	as_server=(setpriv --reuid postgres --regid postgres --clear-groups)
	chown postgres "$work" "$sockets"
fi
cd "$work"

finish() {
	if [ -f "$work/data/postmaster.pid" ]; then
		"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null || true
	fi
	rm -rf "$work" "$sockets"
}
trap finish EXIT

cp -r "$source_dir" "$work/ext"
make -s -C ext PG_CONFIG="$pg_config" clean >/dev/null
make -s -C ext PG_CONFIG="$pg_config" pgassay.so definitions.sql
if [ -n "$other" ]; then
	cp -r "$source_dir" "$work/other"
	make -s -C other PG_CONFIG="$other" clean >/dev/null
	make -s -C other PG_CONFIG="$other" pgassay.so
fi
chmod -R a+rX "$work"
if [ "$(id -u)" = 0 ]; then chown -R postgres "$work/ext"; fi

"${as_server[@]}" "$bin/initdb" -D data --locale=C --encoding=UTF8 -U postgres -A trust >initdb.log
cat >>data/postgresql.conf <<EOF
unix_socket_directories = '$sockets'
listen_addresses = ''
port = 5432
fsync = off
max_connections = 100
dynamic_shared_memory_type = mmap
restart_after_crash = on
EOF
"${as_server[@]}" "$bin/pg_ctl" -D data -l server.log -w start >/dev/null

export PGHOST=$sockets PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
echo "== $("$bin/postgres" --version): regression tests"
# Some redistributed servers include a pg_regress that doesn't run; that of any
# version works, because it only drives psql.
regress=""
for candidate in "$pg_config" "$other" pg_config; do
	[ -n "$candidate" ] || continue
	regress=$(dirname "$("$candidate" --pgxs)")/../../src/test/regress/pg_regress
	if { "$regress" --version; } >/dev/null 2>&1; then break; fi
	regress=""
done
[ -n "$regress" ] || { echo "no working pg_regress found; install the server's development package" >&2; exit 1; }
tests=$(sed -n 's/^REGRESS = //p' ext/Makefile)
# shellcheck disable=SC2086
if ! (cd ext && "${as_server[@]}" "$regress" --inputdir=. --bindir="$bin" \
	--dbname=contrib_regression $tests) >regress.log 2>&1; then
	cat regress.log
	cat ext/regression.diffs
	if [ -n "${PGASSAY_KEEP_RESULTS:-}" ]; then cp -r ext/results/. "$PGASSAY_KEEP_RESULTS"; fi
	exit 1
fi
echo "== multi-session tests"
"${as_server[@]}" bash ext/sessions.sh "$bin" "$work"

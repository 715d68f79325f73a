#!/bin/bash
# Runs the extension's tests with each installed PostgreSQL that has headers, or
# with those given by their pg_config: other major versions, a build with assertions.
#
#	scripts/test-extension.sh [PG_CONFIG…]
#	scripts/test-extension.sh "$(scripts/postgres-of-debian.sh 13)" /opt/pg15-cassert/bin/pg_config
set -euo pipefail
cd "$(dirname "$0")/.."
tested=0
named=$#
[ $# -gt 0 ] || set -- /usr/lib/postgresql/*/bin/pg_config /usr/local/pgsql/bin/pg_config "$(command -v pg_config || true)"
for pg_config; do
    [ -x "$pg_config" ] && [ -f "$("$pg_config" --includedir-server)/postgres.h" ] || {
        [ "$named" = 0 ] && continue
        echo "$pg_config: not an executable, or its server headers are missing" >&2
        exit 2
    }
    # Debian's pg_config in PATH is that of the newest version.
    bin=$("$pg_config" --bindir)
    case " ${seen:-} " in *" $bin "*) continue ;; esac
    seen="${seen:-} $bin"
    [ -x "$bin/postgres" ] || continue
    echo "extension: $("$pg_config" --version)"
    ext/check.sh "$pg_config"
    tested=$((tested + 1))
done
[ $tested -gt 0 ] || {
    echo "no PostgreSQL with server headers found; install postgresql-server-dev-NN, or pass a PG_CONFIG" >&2
    exit 1
}

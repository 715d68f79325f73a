#!/bin/bash
# The extension's tests, for each installed PostgreSQL that has headers.
set -euo pipefail
cd "$(dirname "$0")/.."
tested=0
for pg_config in /usr/lib/postgresql/*/bin/pg_config /usr/local/pgsql/bin/pg_config "$(command -v pg_config || true)"; do
    [ -x "$pg_config" ] && [ -f "$("$pg_config" --includedir-server)/postgres.h" ] || continue
    # Debian's pg_config in PATH is the newest of those by the number.
    bin=$("$pg_config" --bindir)
    case " ${seen:-} " in *" $bin "*) continue ;; esac
    seen="${seen:-} $bin"
    [ -x "$bin/postgres" ] || continue
    echo "extension: $("$pg_config" --version)"
    ext/check.sh "$pg_config"
    tested=$((tested + 1))
done
[ $tested -gt 0 ] || {
    echo "no PostgreSQL with its headers was found for the extension's tests" >&2
    exit 1
}

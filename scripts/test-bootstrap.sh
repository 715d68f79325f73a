#!/bin/bash
# Checks what scripts/bootstrap.sh asks apt for, with fake servers below a directory
# of its own and an apt-get that only records its arguments. Nothing is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/fake"
failed=0

program() { # path, its text
    mkdir -p "$(dirname "$1")"
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod 755 "$1"
}
server() { # directory of programs below the root, version
    program "$root$1/postgres" "echo 'postgres (PostgreSQL) $2'"
    program "$root$1/initdb" "exit 0"
}
headers() { # major
    mkdir -p "$root/usr/include/postgresql/$1/server"
    touch "$root/usr/include/postgresql/$1/server/postgres.h"
}
fresh() {
    root=$work/root
    rm -rf "$root" "$work/asked"
    touch "$work/asked"
    program "$work/fake/apt-get" "echo \"\$@\" >>'$work/asked'"
}
# As a user with sudo would be; the distribution's programs without any PostgreSQL.
program "$work/fake/sudo" 'exec "$@"'
program "$work/fake/dpkg" 'exit 0'
program "$work/fake/gcc" 'exit 0'

bootstrap() { # arguments of the assay; what it says is in $said
    said=$(PATH=$work/fake:$(clean_path) PGASSAY_ROOT=$root "$here/bootstrap.sh" assay "$@" 2>&1) || {
        echo "bootstrap.sh assay $* failed:" "$said" >&2
        exit 1
    }
}
clean_path() { # PATH without servers
    local dir kept='' IFS=:
    for dir in $PATH; do
        [ -x "$dir/postgres" ] || kept=$kept${kept:+:}$dir
    done
    echo "$kept"
}
# The last word of the request, since options stand before it.
expect() { # what it is about, package or nothing
    local asked
    asked=$(sed -n 's/.* install .*--no-install-recommends //p' "$work/asked")
    if [ "$asked" != "$2" ]; then
        echo "$1: asked for '$asked', not '$2'" >&2
        failed=1
    fi
}

fresh
server /usr/lib/postgresql/15/bin 15.4
bootstrap --quick
expect "a server without headers" postgresql-server-dev-15

fresh
server /usr/lib/postgresql/15/bin 15.4
headers 15
bootstrap
expect "a server with headers" ""

fresh
server /usr/lib/postgresql/15/bin 15.4
ln -s "$root/usr/lib/postgresql/15/bin/"{postgres,initdb} "$work/fake/"
bootstrap --quick
expect "a server by links in PATH" postgresql-server-dev-15
rm "$work/fake/"{postgres,initdb}

fresh
server /usr/lib/postgresql/9.6/bin 9.6.24
server /usr/lib/postgresql/16/bin 16.1
server /usr/lib/postgresql/15/bin 15.4
headers 15
bootstrap
expect "the newest of several" postgresql-server-dev-16
fresh
server /usr/lib/postgresql/16/bin 16.1
server /usr/lib/postgresql/15/bin 15.4
bootstrap --quick temp:15
expect "the version that is named" postgresql-server-dev-15
fresh
server /usr/lib/postgresql/16/bin 16.1
server /usr/lib/postgresql/15/bin 15.4
bootstrap "$root/usr/lib/postgresql/15"
expect "the installation that is named" postgresql-server-dev-15

fresh
server /usr/lib/postgresql/15/bin 15.4
server /usr/local/pgsql/bin 17.2
bootstrap
expect "a newer one from source, with headers of its own" ""

fresh
server /usr/lib/postgresql/15/bin 15.4
server /usr/local/pgsql/bin 19devel
bootstrap
expect "a development version is not the newest release" postgresql-server-dev-15

# One that another user can change is not run, not even for its version.
fresh
server /usr/lib/postgresql/15/bin 15.4
server /usr/local/pgsql/bin "17.2'; touch '$work/was-run"
chmod 777 "$root/usr/local/pgsql/bin"
bootstrap
expect "an installation that others can change" postgresql-server-dev-15
[ ! -e "$work/was-run" ] || {
    echo "a program that others can change was run" >&2
    failed=1
}

fresh
server /usr/lib/postgresql/15/bin 15.4
bootstrap host=db.example.org
expect "a running server" ""

# An unreachable package leaves the rest of the assay as it is.
fresh
server /usr/lib/postgresql/15/bin 15.4
program "$work/fake/apt-get" 'case "$*" in *install*) exit 100 ;; esac'
bootstrap
[ "$(grep -c '^not installed: postgresql-server-dev-15; ' <<<"$said")" = 1 ] || {
    echo "an unreachable package is not named:" "$said" >&2
    failed=1
}
exit $failed

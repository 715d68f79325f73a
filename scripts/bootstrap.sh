#!/bin/bash
# Installs what is missing for a purpose, naming each thing; what is there is
# left as it is. Nothing is removed, no cluster is created or touched.
#
#   scripts/bootstrap.sh build    a C compiler, Rust
#   scripts/bootstrap.sh assay    and a PostgreSQL server
#   scripts/bootstrap.sh test     and what the tests run
#
# Packages come from apt, with sudo where we are not root. Where apt is not
# there, it says what is missing and stops.
set -euo pipefail
purpose=${1:?build, assay or test}
here=$(cd "$(dirname "$0")" && pwd)
wanted_rust=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$here/../Cargo.toml")

say() { printf '%s\n' "$*" >&2; }
stop() {
    say "$@"
    exit 3
}
have() { command -v "$1" >/dev/null 2>&1; }

# A server's directory of programs, wherever a distribution puts it. The program
# itself looks in more places; this only decides whether to install one.
server_bin() {
    local dir
    for dir in $(printf '%s' "$PATH" | tr ':' ' ') /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
        /usr/lib/postgresql*/bin /usr/lib64/postgresql-*/bin /usr/libexec/postgresql* \
        /usr/local/pgsql*/bin /opt/*/bin /opt/*/*/bin; do
        if [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ]; then
            echo "$dir"
            return 0
        fi
    done
    return 1
}

# --- what is missing -------------------------------------------------------
packages=()
missing() { # what it is, package
    say "missing: $1 (package $2)"
    packages+=("$2")
}

# By trying: where a header lies differs between distributions and processors.
compiles() { printf '#include <stdio.h>\nint main(void){return 0;}\n' | cc -x c -o /dev/null - 2>/dev/null; }
if ! have cc || ! compiles; then
    missing "a C compiler" gcc
    missing "the C library's headers" libc6-dev
fi
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
    missing "certificate authorities, for downloads" ca-certificates

want_server=no
if [ "$purpose" != build ] && ! server_bin >/dev/null; then
    want_server=yes
    say "missing: a PostgreSQL server (package postgresql)"
fi
want_rust=no
if ! "$here/cargo.sh" --which >/dev/null; then
    want_rust=yes
    say "missing: Rust $wanted_rust or newer"
fi

# --- apt, once ---------------------------------------------------------------
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        say "+ sudo $*"
        sudo "$@"
    else
        stop "this needs root and there is no sudo: $*"
    fi
}
# A foreign process may hold the lock, and may not ask questions.
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
        apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >&2
}
updated=no
update_once() {
    [ $updated = no ] || return 0
    have apt-get || stop "no apt-get here: install what is missing by your distribution's packages," \
        "and run this again"
    # A foreign repository that fails is no reason to stop: what is needed is
    # looked for in the lists that could be read.
    apt update || say "apt-get update had errors; going on with the package lists at hand"
    updated=yes
}
install() {
    update_once
    # --no-remove: nothing of the user's goes for something of ours.
    apt install --no-remove --no-install-recommends "$@"
}
candidate() { # the version that apt would install, without distribution's suffix
    LC_ALL=C apt-cache policy "$1" 2>/dev/null |
        sed -n 's/^  Candidate: \(([^)]*)\)\?\([0-9]*:\)\?\([0-9][0-9.]*\).*/\3/p'
}
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n' "$wanted_rust" "$1" | sort -V | head -n 1)" = "$wanted_rust" ]; }

# --- PostgreSQL ------------------------------------------------------------
# Debian's packages create and start a cluster for everybody; ours are made for
# each run. The switch is a file of its own, taken away again afterwards.
install_server() { # packages
    local drop_in=/etc/postgresql-common/createcluster.d/pgassay.conf result=0
    update_once
    if ! dpkg -s postgresql-common >/dev/null 2>&1; then
        install postgresql-common
    fi
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' | as_root tee "$drop_in" >/dev/null
    if ! grep -qs "^[[:space:]]*include_dir" /etc/postgresql-common/createcluster.conf; then
        as_root rm -f "$drop_in"
        stop "this postgresql-common does not read createcluster.d, so installing PostgreSQL would" \
            "start a cluster; install it yourself: apt-get install $*"
    fi
    install "$@" || result=$?
    as_root rm -f "$drop_in"
    return $result
}

# --- Rust ------------------------------------------------------------------
install_rust() {
    if have rustup; then
        say "installing Rust's stable toolchain for this user (rustup)"
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >&2
        return
    fi
    update_once
    # Debian 12 carries a new Rust for its browsers; Debian 13 carries rustup.
    if new_enough "$(candidate cargo-web)" &&
        install cargo-web rustc-web rustfmt-web rust-web-clippy; then
        return
    fi
    if new_enough "$(candidate cargo)" && install cargo rustc rustfmt rust-clippy; then
        return
    fi
    if [ -n "$(candidate rustup)" ] && install rustup; then
        install_rust
        return
    fi
    have curl || install curl
    say "installing Rust for this user with rustup's own installer, into ~/.cargo and ~/.rustup"
    curl --proto '=https' --tlsv1.2 -sSf --retry 3 https://static.rust-lang.org/rustup/rustup-init.sh |
        sh -s -- -y --no-modify-path --profile minimal --component clippy --component rustfmt >&2
}

[ ${#packages[@]} -eq 0 ] || install "${packages[@]}"
if [ $want_server = yes ]; then
    update_once
    install_server postgresql
    server_bin >/dev/null || stop "the package postgresql brought no server; install one yourself"
fi
if [ $want_rust = yes ]; then
    install_rust
    "$here/cargo.sh" --which >/dev/null || stop "Rust $wanted_rust or newer could not be installed"
fi

# --- what only the tests run -------------------------------------------------
if [ "$purpose" = test ]; then
    bin=$(server_bin)
    major=$(basename "$(dirname "$bin")")
    packages=()
    have openssl || missing "certificates for the tests of TLS" openssl
    have objdump || missing "objdump, which inspect is checked against" binutils
    have make || missing "make" make
    have git || missing "git, a form of source for builds" git
    have patch || missing "patch, for builds with patches" patch
    have meson || missing "meson, a build system of PostgreSQL" meson
    have ninja || missing "ninja, which meson runs" ninja-build
    # Where it is a distribution's own, its client and headers go by the number.
    if [[ $bin = /usr/lib/postgresql/*/bin ]]; then
        [ -x "$bin/psql" ] || missing "psql" "postgresql-client-$major"
        [ -x "$bin/pgbench" ] || missing "pgbench" "postgresql-$major"
        [ -f "/usr/include/postgresql/$major/server/postgres.h" ] ||
            missing "the server's headers, for the extension" "postgresql-server-dev-$major"
    fi
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing "PgBouncer, a pooler to connect through" pgbouncer
    if [ ${#packages[@]} -gt 0 ]; then
        update_once
        install_server "${packages[@]}"
        # The tests start their own; the package's service is not wanted.
        if [[ " ${packages[*]} " = *" pgbouncer "* ]] && [ -d /run/systemd/system ]; then
            as_root systemctl disable --now pgbouncer >&2
        fi
    fi
fi
say "Rust: $("$here/cargo.sh" --which)"
[ "$purpose" = build ] || say "PostgreSQL: $("$(server_bin)/postgres" --version)"

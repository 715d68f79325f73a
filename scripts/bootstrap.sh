#!/bin/bash
# Installs the missing dependencies for a purpose and names each of them.
# Existing software is left as it is; no cluster is created or changed.
#
#   scripts/bootstrap.sh build    a C compiler, Rust
#   scripts/bootstrap.sh assay    also a PostgreSQL server
#   scripts/bootstrap.sh test     also what the tests need
#
# Packages come from apt, with sudo unless run as root. If there is no apt, it
# lists what is missing and stops.
set -euo pipefail
purpose=${1:?missing argument: build, assay or test}
here=$(cd "$(dirname "$0")" && pwd)
wanted_rust=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$here/../Cargo.toml")

say() { printf '%s\n' "$*" >&2; }
stop() {
    say "$@"
    exit 3
}
have() { command -v "$1" >/dev/null 2>&1; }

# The program directory of a server, wherever a distribution puts it. pgassay
# itself looks in more places; this only decides whether to install a server.
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
missing() { # description, package
    say "missing: $1 (package $2)"
    packages+=("$2")
}

# Tested by compiling: the location of headers differs between distributions and architectures.
compiles() { printf '#include <stdio.h>\nint main(void){return 0;}\n' | cc -x c -o /dev/null - 2>/dev/null; }
if ! have cc || ! compiles; then
    missing "a C compiler" gcc
    missing "the C library headers" libc6-dev
fi
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
    missing "CA certificates, for downloads" ca-certificates

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
        stop "this command needs root, and sudo is not installed: $*"
    fi
}
# Another process may hold the lock; no interactive questions.
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
        apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >&2
}
updated=no
update_once() {
    [ $updated = no ] || return 0
    have apt-get || stop "apt-get is not available: install the missing packages with your distribution's tools," \
        "and run this again"
    # A failing third-party repository is no reason to stop: the packages may be
    # in the lists that could be read.
    apt update || say "apt-get update reported errors; continuing with the package lists that were read"
    updated=yes
}
install() {
    update_once
    # --no-remove: never remove a package of the user's to install one of ours.
    apt install --no-remove --no-install-recommends "$@"
}
candidate() { # the version that apt would install, without the distribution's suffix
    LC_ALL=C apt-cache policy "$1" 2>/dev/null |
        sed -n 's/^  Candidate: \(([^)]*)\)\?\([0-9]*:\)\?\([0-9][0-9.]*\).*/\3/p'
}
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n' "$wanted_rust" "$1" | sort -V | head -n 1)" = "$wanted_rust" ]; }

# --- PostgreSQL ------------------------------------------------------------
# Debian's packages create and start a cluster by default; pgassay creates its own
# for each run. A drop-in file disables that, and is removed afterwards.
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
        stop "this version of postgresql-common does not read createcluster.d, so installing PostgreSQL" \
            "would start a cluster; install it yourself: apt-get install $*"
    fi
    install "$@" || result=$?
    as_root rm -f "$drop_in"
    return $result
}

# --- Rust ------------------------------------------------------------------
install_rust() {
    if have rustup; then
        say "installing the stable Rust toolchain for this user (rustup)"
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >&2
        return
    fi
    update_once
    # Debian 12 has a newer Rust for its browsers; Debian 13 has rustup.
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
    say "installing Rust for this user with the rustup installer, into ~/.cargo and ~/.rustup"
    curl --proto '=https' --tlsv1.2 -sSf --retry 3 https://static.rust-lang.org/rustup/rustup-init.sh |
        sh -s -- -y --no-modify-path --profile minimal --component clippy --component rustfmt >&2
}

[ ${#packages[@]} -eq 0 ] || install "${packages[@]}"
if [ $want_server = yes ]; then
    update_once
    install_server postgresql
    server_bin >/dev/null || stop "the package postgresql did not install a server; install one yourself"
fi
if [ $want_rust = yes ]; then
    install_rust
    "$here/cargo.sh" --which >/dev/null || stop "Rust $wanted_rust or newer could not be installed"
fi

# --- what only the tests need -------------------------------------------------
if [ "$purpose" = test ]; then
    bin=$(server_bin)
    major=$(basename "$(dirname "$bin")")
    packages=()
    have openssl || missing "openssl, which creates certificates for the TLS tests" openssl
    have objdump || missing "objdump, the reference for inspect" binutils
    have make || missing "make" make
    have git || missing "git, a source for builds" git
    have patch || missing "patch, for builds with patches" patch
    have meson || missing "meson, a build system of PostgreSQL" meson
    have ninja || missing "ninja, which meson runs" ninja-build
    # For a distribution's server, the client and header packages carry the major version.
    if [[ $bin = /usr/lib/postgresql/*/bin ]]; then
        [ -x "$bin/psql" ] || missing "psql" "postgresql-client-$major"
        [ -x "$bin/pgbench" ] || missing "pgbench" "postgresql-$major"
        [ -f "/usr/include/postgresql/$major/server/postgres.h" ] ||
            missing "the server's headers, for the extension" "postgresql-server-dev-$major"
    fi
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing "PgBouncer, a connection pooler" pgbouncer
    if [ ${#packages[@]} -gt 0 ]; then
        update_once
        install_server "${packages[@]}"
        # The tests start their own; disable the package's service.
        if [[ " ${packages[*]} " = *" pgbouncer "* ]] && [ -d /run/systemd/system ]; then
            as_root systemctl disable --now pgbouncer >&2
        fi
    fi
fi
say "Rust: $("$here/cargo.sh" --which)"
[ "$purpose" = build ] || say "PostgreSQL: $("$(server_bin)/postgres" --version)"

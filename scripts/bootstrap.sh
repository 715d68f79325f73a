#!/bin/bash
# Installs the missing dependencies for a purpose and names each of them.
# Existing software is left as it is; no cluster is created or changed.
#
#   scripts/bootstrap.sh build           a C compiler, Rust
#   scripts/bootstrap.sh assay [ARG...]  also a PostgreSQL server, and the headers of
#                                        the server that `pgassay assay ARG...` launches
#   scripts/bootstrap.sh test            also what the tests need
#   scripts/bootstrap.sh attack          a PostgreSQL server and what `make attack` needs
#
# Packages come from apt, with sudo unless run as root. If there is no apt, it
# lists what is missing and stops.
set -euo pipefail
purpose=${1:?missing argument: build, assay, test or attack}
shift
here=$(cd "$(dirname "$0")" && pwd)
wanted_rust=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$here/../Cargo.toml")

say() { printf '%s\n' "$*" >&2; }
stop() {
    say "$@"
    exit 3
}
have() { command -v "$1" >/dev/null 2>&1; }

# Replaces / as the place of servers and headers, for scripts/test-bootstrap.sh.
root=${PGASSAY_ROOT:-}
debian=$root/usr/lib/postgresql

# The program directories of servers, wherever a distribution puts them. pgassay
# itself looks in more places; this only decides what to install.
server_bins() {
    local dir IFS=:
    for dir in $PATH "$debian"/*/bin "$root"/usr/pgsql-*/bin \
        "$root"/usr/lib/postgresql*/bin "$root"/usr/lib64/postgresql-*/bin "$root"/usr/libexec/postgresql* \
        "$root"/usr/local/pgsql*/bin "$root"/opt/*/bin "$root"/opt/*/*/bin; do
        [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] || continue
        # By a link in PATH it is the installation that the link leads to, whose packages go with it.
        [ ! -L "$dir/postgres" ] || dir=$(dirname "$(readlink -f "$dir/postgres")")
        printf '%s\n' "$dir"
    done
}
server_bin() {
    local bins
    bins=$(server_bins)
    [ -n "$bins" ] && printf '%s\n' "${bins%%$'\n'*}"
}

# The version of a server, as `15.4` or `19devel`. As in pgassay itself, a program
# that another user can change is not run.
version_of() { # program directory
    local part
    case $1 in
    "$debian"/*/bin)
        part=${1%/bin}
        echo "${part##*/}"
        return
        ;;
    esac
    part=$(readlink -f "$1/postgres") || return 1
    while [ "$part" != / ]; do
        [ -z "$(find "$part" -maxdepth 0 \( ! -uid 0 ! -uid "$(id -u)" -o ! -perm -1000 \
            \( -perm -002 -o -perm -020 ! -gid 0 ! -gid "$(id -g)" \) \))" ] || return 1
        part=$(dirname "$part")
    done
    "$1/postgres" --version | sed -n 's/^[^0-9]*\([0-9][0-9.a-z]*\).*/\1/p'
}

# The program directory of the server that an assay with these arguments launches:
# the one they name, or the newest release. Fails if it measures a running server.
measured_bin() {
    local argument dir version rank major='' best='' best_rank=''
    for argument; do
        case $argument in
        postgres://* | postgresql://* | host=* | service=* | build:*) return 1 ;;
        temp:*) major=${argument#temp:} ;;
        /* | ./* | ../*)
            for dir in "$argument" "$argument/bin"; do
                if [ -x "$dir/postgres" ]; then
                    readlink -f "$dir"
                    return
                fi
            done
            ;;
        esac
    done
    while read -r dir; do
        version=$(version_of "$dir") && [ -n "$version" ] || continue
        case $version in
        "${major:-$version}" | "$major".*) ;;
        *) continue ;;
        esac
        case $version in
        *[a-z]*) rank="0 $version" ;;
        *) rank="1 $version" ;;
        esac
        if [ "$(printf '%s\n' "$rank" "$best_rank" | sort -V | tail -n 1)" = "$rank" ]; then
            best=$dir best_rank=$rank
        fi
    done < <(server_bins)
    [ -n "$best" ] && readlink -f "$best"
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

# --- the measured server's headers -------------------------------------------
# The extension is compiled with them. An assay without them still measures
# everything else, so nothing here stops it.
install_headers() { # the assay's arguments
    local bin major packages=()
    bin=$(measured_bin "$@") || return 0
    # An installation from elsewhere brings its own headers, or no package here has them.
    case $bin in
    "$debian"/*/bin) ;;
    *) return 0 ;;
    esac
    major=${bin#"$debian"/} major=${major%/bin}
    [ -f "$root/usr/include/postgresql/$major/server/postgres.h" ] ||
        missing "PostgreSQL $major's server headers, for the extension" "postgresql-server-dev-$major"
    # Distributions compile their servers with it; another compiler emits other instructions.
    have gcc || missing "the compiler that the server was compiled with" gcc
    [ ${#packages[@]} -gt 0 ] || return 0
    # In a subshell, because stop() must not end the whole bootstrap here.
    (install "${packages[@]}") ||
        say "not installed: ${packages[*]}; the primitives inside the server will not be measured"
}
[ "$purpose" != assay ] || install_headers "$@"

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
    [ -x /usr/sbin/sshd ] || missing "OpenSSH's server, for commands on another machine" openssh-server
    have valgrind || missing "valgrind, which sees the same accesses to memory in another way" valgrind
    have qemu-x86_64 || missing "qemu's user emulator, whose plugins record accesses to memory" qemu-user
    have ip || missing "ip, which makes a network to be cut" iproute2
    ! have python3 || python3 -c 'import ensurepip' 2>/dev/null ||
        missing "Python's environments, for DuckDB and other readers of what pgassay writes" python3-venv
    have tsc || missing "TypeScript, which checks the types of the pages' script" node-typescript
    # Ubuntu has a browser as a snap only: scripts/test-pages.sh says so.
    if [ "$(. /etc/os-release && echo "$ID")" = debian ]; then
        have chromedriver || missing "Chromium and its driver, which open the reports' pages" chromium-driver
        /usr/bin/python3 -c 'import selenium' 2>/dev/null || missing "Selenium, which drives them" python3-selenium
        have curl || missing "curl, for axe, which no distribution packages" curl
    fi
    if [ ${#packages[@]} -gt 0 ]; then
        update_once
        install_server "${packages[@]}"
        # The tests start their own; disable the package's service.
        if [[ " ${packages[*]} " = *" pgbouncer "* ]] && [ -d /run/systemd/system ]; then
            as_root systemctl disable --now pgbouncer >&2
        fi
        if [[ " ${packages[*]} " = *" openssh-server "* ]] && [ -d /run/systemd/system ]; then
            as_root systemctl disable --now ssh >&2
        fi
    fi
fi

# The rules of accessibility that scripts/test-pages.py holds pages against (MPL-2.0; not a part of
# pgassay). It is fetched once, and used only if it is the file that was looked at.
axe_version=4.11.0
axe_sum=39bed7d72308f6d620789c169d699bfd7e8da80f65b545821a6b2215c3e83107
if [ "$purpose" = test ] && have chromedriver; then
    axe=$here/../target/tools/axe-core-$axe_version.tgz
    if ! echo "$axe_sum  $axe" | sha256sum --check --status 2>/dev/null; then
        say "fetching axe-core $axe_version into target/tools"
        mkdir -p "$(dirname "$axe")"
        curl --proto '=https' --tlsv1.2 -sSf --retry 3 -o "$axe" \
            "https://registry.npmjs.org/axe-core/-/axe-core-$axe_version.tgz" ||
            stop "axe-core can't be fetched: put axe-core-$axe_version.tgz of the npm registry into target/tools"
        echo "$axe_sum  $axe" | sha256sum --check --status || stop "$axe is not the file that was looked at"
    fi
    tar -xzOf "$axe" package/axe.min.js >"$here/../target/tools/axe.min.js"
fi

# --- what only the attack runs -------------------------------------------------
if [ "$purpose" = attack ]; then
    bin=$(server_bin)
    packages=()
    have python3 || missing "Python, which the attack is written in" python3
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing "PgBouncer, a pooler to connect through" pgbouncer
    have git || missing "git, for hostile repositories" git
    have zstd || missing "zstd, for hostile packages" zstd
    have mkfs.ext4 || [ -x /usr/sbin/mkfs.ext4 ] || missing "mkfs.ext4, for full disks" e2fsprogs
    have unshare || missing "unshare and prlimit, to attack apart from this machine" util-linux
    if [[ $bin = /usr/lib/postgresql/*/bin ]]; then
        [ -x "$bin/psql" ] || missing "psql" "postgresql-client-$(basename "$(dirname "$bin")")"
    fi
    if [ ${#packages[@]} -gt 0 ]; then
        install_server "${packages[@]}"
        # The attack starts its own; the package's service is not wanted.
        if [[ " ${packages[*]} " = *" pgbouncer "* ]] && [ -d /run/systemd/system ]; then
            as_root systemctl disable --now pgbouncer >&2
        fi
    fi
fi
say "Rust: $("$here/cargo.sh" --which)"
[ "$purpose" = build ] || say "PostgreSQL: $("$(server_bin)/postgres" --version)"

# shellcheck shell=bash
# Fresh Debian systems in chroots, for scripts that run the first steps of a new user. Sourced, as root.
# The base systems are kept below FRESH (/var/tmp/pgassay-fresh) in their initial state. MIRROR names
# another mirror than debootstrap's own.
fresh=${FRESH:-/var/tmp/pgassay-fresh}

# Makes $root from a suite: like an installed Debian, with updates and security, from the base's mirror.
fresh_root() { # suite, root
    local suite=$1 root=$2 base=$fresh/$1 mirror=${MIRROR:-}
    [ "$(id -u)" = 0 ] || { echo "run this as root; it creates chroots" >&2; exit 2; }
    mkdir -p "$fresh"
    if [ ! -e "$base/etc/debian_version" ]; then
        debootstrap --variant=minbase "$suite" "$base" ${mirror:+"$mirror"}
    fi
    rm -rf --one-file-system "$root"
    cp -a --reflink=auto "$base" "$root"
    mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$base/etc/apt/sources.list" | head -1)
    cat >"$root/etc/apt/sources.list" <<LIST
deb $mirror $suite main
deb $mirror $suite-updates main
deb $mirror-security $suite-security main
LIST
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
    # Behind an intercepting proxy, the chroot needs the host's CA certificates; ca-certificates, which
    # is to be installed in there, takes them up.
    authorities=$(ls /usr/local/share/ca-certificates/*.crt 2>/dev/null || true)
    if [ -n "$authorities" ]; then
        mkdir -p "$root/usr/local/share/ca-certificates"
        # shellcheck disable=SC2086 # several files
        cp $authorities "$root/usr/local/share/ca-certificates/"
    fi
}

# Runs a command as root in $root, with /proc, /sys and /dev of its own.
inside() {
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"; mount --make-rslave "$root/sys"
        mount --rbind /dev "$root/dev"; mount --make-rslave "$root/dev"
        exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            TERM="${TERM:-dumb}" LANG=C.UTF-8 "$@"' inside "$root" "$@"
}

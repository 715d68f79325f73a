#!/bin/bash
# Runs the first steps as a new user would: a fresh Debian in a chroot with git
# and make, a clone of the committed state, then `make TARGET`.
#
#   scripts/try-fresh.sh SUITE USER [TARGET [ARGS...]]
#
#   SUITE   bookworm (Debian 12) or trixie (Debian 13)
#   USER    root, or user: an unprivileged user with sudo
#   TARGET  assay (default) or test; further arguments go to make
#
# Needs root and debootstrap. The base systems are kept below FRESH
# (/var/tmp/pgassay-fresh) in their initial state, so that each run starts with
# empty caches. The exit code is make's; its output is in FRESH/SUITE-USER-TARGET.log.
set -euo pipefail
[ $# -ge 2 ] || {
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
suite=$1 user=$2 target=${3:-assay}
shift 2
[ $# -eq 0 ] || shift
project=$(cd "$(dirname "$0")/.." && pwd)
fresh=${FRESH:-/var/tmp/pgassay-fresh}
mirror=${MIRROR:-} # empty: debootstrap's own default
base=$fresh/$suite
root=$fresh/run-$suite-$user-$target
log=$fresh/$suite-$user-$target.log

[ "$(id -u)" = 0 ] || { echo "try-fresh.sh: run this as root; it creates chroots" >&2; exit 2; }
mkdir -p "$fresh"
if [ ! -e "$base/etc/debian_version" ]; then
    debootstrap --variant=minbase "$suite" "$base" ${mirror:+"$mirror"}
fi

rm -rf --one-file-system "$root"
cp -a --reflink=auto "$base" "$root"
# Like an installed Debian: with updates and security, from the base's mirror.
mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$base/etc/apt/sources.list" | head -1)
cat >"$root/etc/apt/sources.list" <<LIST
deb $mirror $suite main
deb $mirror $suite-updates main
deb $mirror-security $suite-security main
LIST
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
# Behind an intercepting proxy, the chroot needs the host's CA certificates.
own_authorities=$(ls /usr/local/share/ca-certificates/*.crt 2>/dev/null || true)
if [ -n "$own_authorities" ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp $own_authorities "$root/usr/local/share/ca-certificates/"
fi
git clone -q --bare "$project" "$root/srv/pgassay.git"
chmod -R a+rX "$root/srv"

cat >"$root/srv/first-steps" <<STEPS
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends git make ${own_authorities:+ca-certificates}
if [ $user != root ]; then
    apt-get -q -y install --no-install-recommends sudo
    useradd --create-home --shell /bin/bash $user
    echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user
fi
chown -R $user /srv/pgassay.git
STEPS
cat >"$root/srv/as-the-user" <<STEPS
set -e
cd
git clone -q /srv/pgassay.git pgassay
cd pgassay
SECONDS=0
make $target "\$@"
echo "make $target took \$SECONDS s on \$(nproc) CPUs"
# A cluster created by Debian's packages, or one of ours that was not removed.
left=\$(ls -d /var/lib/postgresql/*/main /tmp/pga-?????? /var/tmp/pgassay-*/clusters/* 2>/dev/null || true)
if [ -n "\$left" ]; then
    echo "left behind: \$left" >&2
    exit 1
fi
STEPS

home=/root
[ "$user" = root ] || home=/home/$user
inside() { # command as root in the chroot, with /proc, /sys and /dev of its own
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"; mount --make-rslave "$root/sys"
        mount --rbind /dev "$root/dev"; mount --make-rslave "$root/dev"
        exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            TERM="${TERM:-dumb}" LANG=C.UTF-8 "$@"' inside "$root" "$@"
}
inside HOME=/root bash /srv/first-steps >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 1
}
result=0
if [ "$user" = root ]; then
    inside HOME=$home bash /srv/as-the-user "$@" >>"$log" 2>&1 || result=$?
else
    inside su --login "$user" -c 'bash /srv/as-the-user "$@"' -- su "$@" >>"$log" 2>&1 || result=$?
fi
tail -n 40 "$log"
echo "$suite as $user: make $target exited with $result; full output: $log" >&2
[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"
exit $result

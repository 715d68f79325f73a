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
. "$project/scripts/fresh.sh"
root=$fresh/run-$suite-$user-$target
log=$fresh/$suite-$user-$target.log
fresh_root "$suite" "$root"
git clone -q --bare "$project" "$root/srv/pgassay.git"
chmod -R a+rX "$root/srv"

cat >"$root/srv/first-steps" <<STEPS
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends git make ${authorities:+ca-certificates}
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

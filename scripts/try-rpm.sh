#!/bin/bash
# Installs the .rpm of dist/ with the package managers of Fedora, RHEL and SUSE: dnf and zypper, run in a
# fresh Debian, take it from a repository made of it into root file systems that hold nothing else. It is
# queried and verified there, the program is run there, and it is removed again.
#
#   scripts/try-rpm.sh
#
# Needs root, debootstrap and the packages in DIST (dist/). Prints a line for each step and ends with 1 if
# one failed. What a distribution's own packages add (a PostgreSQL, its headers) is not tried here.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
. "$project/scripts/fresh.sh"
root=$fresh/run-rpm
log=$fresh/rpm.log
fresh_root bookworm "$root"
mkdir -p "$root/srv/dist"
cp "${DIST:-$project/dist}"/pgassay-*.rpm "$root/srv/dist/"
cat >"$root/srv/before" <<'STEPS'
export DEBIAN_FRONTEND=noninteractive
apt-get -q update && apt-get -q -y install --no-install-recommends rpm dnf zypper createrepo-c file
STEPS
cat >"$root/srv/steps" <<'STEPS'
set -u
failed=0
step() { # what, command…: the last line that it says
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then
        printf 'ok    %-28s %s\n' "$what" "$(tail -n 1 <<<"$said" | cut -c 1-100)"
    else
        printf 'FAIL  %s\n%s\n' "$what" "$(tail -n 8 <<<"$said" | sed 's/^/      /')"
        failed=1
    fi
}
here=$(uname -m)
for package in /srv/dist/*.rpm; do
    name=${package##*-1.} name=${name%.rpm}
    step "$name: digests" rpm -K "$package"
    step "$name: requires" bash -c '
        needs=$(rpm -qp --requires "$0" | grep -v "^rpmlib(") || true
        echo "${needs:-nothing}"
        [ -z "$needs" ] || [[ $needs == "glibc >= "* ]]' "$package"
    step "$name: recommends" bash -c 'rpm -qp --recommends "$0" | grep -x postgresql-server' "$package"
done
createrepo_c --quiet /srv/dist
installed() { # root: what must hold there
    local root=$1
    step "  files as packaged" rpm --root "$root" -V pgassay
    step "  program" chroot "$root" /usr/bin/pgassay --version
    step "  inspects itself" chroot "$root" /usr/bin/pgassay inspect /usr/bin/pgassay
    step "  licences" test -s "$root/usr/share/licenses/pgassay/LICENSES-OF-CRATES"
    step "  manual page" bash -c 'zcat "$0" | grep "^\.TH pgassay"' "$root/usr/share/man/man1/pgassay.1.gz"
}
gone() { # root
    step "  nothing left" bash -c '! find "$0/usr" -name "*pgassay*" | grep .' "$1"
}
dnf=(dnf -q -y --installroot=/srv/by-dnf --releasever=1 --disablerepo=* --repofrompath=dist,file:///srv/dist
    --enablerepo=dist --nogpgcheck --setopt=reposdir=/none)
step "dnf install" "${dnf[@]}" install pgassay
installed /srv/by-dnf
step "dnf remove" "${dnf[@]}" remove pgassay
gone /srv/by-dnf
zypper=(zypper --non-interactive --root /srv/by-zypper --no-gpg-checks)
mkdir -p /srv/by-zypper
step "zypper addrepo" "${zypper[@]}" addrepo --no-gpgcheck file:///srv/dist dist
step "zypper install" "${zypper[@]}" install --no-recommends pgassay
installed /srv/by-zypper
# Debian's zypper looks for what is installed in the wrong place, so it cannot remove it.
step "rpm -e" rpm --root /srv/by-zypper -e pgassay
gone /srv/by-zypper
step "rpm -i, where no package is" rpm --root /srv/by-rpm --initdb
step "  installed" rpm --root /srv/by-rpm -i /srv/dist/pgassay-*."$here".rpm
installed /srv/by-rpm
exit $failed
STEPS
inside HOME=/root bash /srv/before >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 1
}
result=0
inside HOME=/root bash /srv/steps 2>&1 | tee -a "$log" || result=1
[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"
exit $result

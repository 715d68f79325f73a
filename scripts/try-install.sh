#!/bin/bash
# Installs a package of dist/ as a new user would, on a fresh Debian without Rust, assays a PostgreSQL
# there, and prints how long it took from the install command to the first report.
#
#   scripts/try-install.sh SUITE USER KIND SERVER
#
#   SUITE   bookworm (Debian 12) or trixie (Debian 13)
#   USER    root, or user: an unprivileged user, for whom root installs the .deb
#   KIND    deb, wheel (with pip into a new environment, without a network), pipx or tar
#   SERVER  present: PostgreSQL is there before the clock starts; install: apt installs it meanwhile;
#           stand-in: pgassay downloads the one that stands in
#
# Needs root, debootstrap and the packages in DIST (dist/). The chroots are kept as by scripts/try-fresh.sh. The exit code
# is 0 if a report was written and nothing was left behind; FRESH/install-*.log has all output.
set -euo pipefail
[ $# -eq 4 ] || {
    sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
suite=$1 user=$2 kind=$3 server=$4
project=$(cd "$(dirname "$0")/.." && pwd)
. "$project/scripts/fresh.sh"
root=$fresh/run-install-$suite-$user-$kind-$server
log=$fresh/install-$suite-$user-$kind-$server.log
fresh_root "$suite" "$root"
mkdir "$root/srv/dist"
before=()
[ -z "$authorities" ] && [ "$server" != stand-in ] || before+=(ca-certificates)
case $kind in
deb)
    package="pgassay_*_$(dpkg --print-architecture).deb"
    as_root="apt-get -q -y install --no-install-recommends /srv/dist/pgassay_*.deb" as_user=true program=pgassay
    ;;
wheel)
    package="pgassay-*_$(uname -m)*.whl"
    before+=(python3-venv)
    as_root=true as_user='python3 -m venv ~/env && ~/env/bin/pip install --no-index /srv/dist/*.whl'
    program='~/env/bin/pgassay'
    ;;
pipx)
    package="pgassay-*_$(uname -m)*.whl"
    before+=(pipx)
    as_root=true as_user='pipx install /srv/dist/*.whl' program='~/.local/bin/pgassay'
    ;;
tar)
    package="pgassay-*-$(uname -m)-linux.tar.gz"
    as_root=true as_user='mkdir -p ~/.local && tar -xzf /srv/dist/*.tar.gz -C ~/.local --strip-components=1'
    program='~/.local/bin/pgassay'
    ;;
*)
    echo "try-install.sh: unknown kind: $kind" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2086 # a pattern
cp "${DIST:-$project/dist}"/$package "$root/srv/dist/"
chmod -R a+rX "$root/srv"

flags=''
case $server in
present) before+=(postgresql) ;;
install) as_root+=' && apt-get -q -y install --no-install-recommends postgresql' ;;
stand-in) flags=--stand-in ;;
*)
    echo "try-install.sh: unknown server: $server" >&2
    exit 2
    ;;
esac

cat >"$root/srv/before" <<STEPS
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
[ -z "${before[*]}" ] || apt-get -q -y install --no-install-recommends ${before[*]}
[ $user = root ] || useradd --create-home --shell /bin/bash $user
STEPS
cat >"$root/srv/as-root" <<STEPS
set -e
export DEBIAN_FRONTEND=noninteractive
$as_root
STEPS
cat >"$root/srv/as-the-user" <<STEPS
set -e
cd
$as_user
$program --version
! command -v cargo
$program assay --quick $flags
STEPS
as() { # script
    if [ "$user" = root ]; then
        inside HOME=/root PIP_CERT="${PIP_CERT:-}" bash "/srv/$1"
    else
        inside su --login "$user" -c "PIP_CERT=${PIP_CERT:-} bash /srv/$1"
    fi
}
inside HOME=/root bash /srv/before >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    exit 1
}
result=0
start=$(date +%s.%N)
{ inside HOME=/root bash /srv/as-root && installed=$(date +%s.%N) && as as-the-user; } >>"$log" 2>&1 || result=$?
end=$(date +%s.%N)
tail -n "${LINES_SHOWN:-6}" "$log"

# A report that can be rendered again, and nothing of a cluster.
cat >"$root/srv/after" <<STEPS
set -e
cd
test -s "\$(ls ~/.local/state/pgassay/runs/*/report.html)"
$program report last --format json | head -c 300 | grep -q '"'
left=\$(ls -d /tmp/pga-?????? /var/tmp/pgassay-*/clusters/* 2>/dev/null || true)
[ -z "\$left" ] || { echo "left behind: \$left" >&2; exit 1; }
STEPS
[ $result != 0 ] || as after >>"$log" 2>&1 || result=$?
awk -v a="$start" -v i="${installed:-$start}" -v b="$end" -v n="$(nproc)" -v what="$suite, $user, $kind, $server" -v r=$result \
    'BEGIN { printf "%s: first report after %.1f s (root'"'"'s part %.1f s) on %d CPUs, exit code %d\n", what, b - a, i - a, n, r }'
[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"
exit $result

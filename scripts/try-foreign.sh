#!/bin/bash
# Tries another processor's package of dist/ without that processor: in a chroot with that processor's
# Debian, run by qemu's user emulation. What the program says there of the same input must be what this
# processor's program says, to the byte; it must put load on a real server, and assay the PostgreSQL that
# it finds in there.
#
#   scripts/try-foreign.sh aarch64|ppc64le
#
#   SUITE    Debian's (bookworm, with PostgreSQL 15)
#   SECONDS_OF_ASSAY   counted seconds of each trial of the assay (1)
#
# Needs root, qemu-user-static, and an installed PostgreSQL for the load; and in DIST (dist/) the packages of
# both processors. Works in TMPDIR; Debian's packages are kept (scripts/foreign.sh). Prints a line for each
# step, and ends with 1 if one failed; RESULTS (target/try-foreign/PROCESSOR) has all outputs.
set -euo pipefail
case ${1:-} in
aarch64) processor=aarch64 debian=arm64 ;;
ppc64le) processor=ppc64le debian=ppc64el ;;
*)
    sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
project=$(cd "$(dirname "$0")/.." && pwd)
. "$project/scripts/foreign.sh"
dist=${DIST:-$project/dist} suite=${SUITE:-bookworm} results=${RESULTS:-$project/target/try-foreign/$processor}
for tool in "qemu-$processor-static" dpkg-deb setpriv; do
    command -v "$tool" >/dev/null || { echo "try-foreign.sh: $tool is missing (Debian: qemu-user-static)" >&2; exit 3; }
done
servers=$(printf "%s\n" /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ -x "$servers/initdb" ] || {
    echo "try-foreign.sh: no PostgreSQL in /usr/lib/postgresql (Debian: postgresql)" >&2
    exit 3
}
work=$(mktemp -d)
chmod 755 "$work"
root=$work/root
server=''
finish() {
    [ -z "$server" ] || as_server "$servers/pg_ctl" -D "$work/data" -m immediate -w stop >/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
as_server() { (cd "$work" && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
rm -rf "$results"
mkdir -p "$results"

failed=0
# Runs a command with its output in results/NAME.*, and says how it went.
step() { # name, command…
    local name=$1 start end code=0
    shift
    start=$(date +%s%N)
    "$@" >"$results/$name.out" 2>"$results/$name.err" || code=$?
    end=$(date +%s%N)
    if [ $code = 0 ]; then
        printf 'ok    %-28s %6d ms  %s\n' "$name" $(((end - start) / 1000000)) "$(tail -n 1 "$results/$name.out" | cut -c 1-90)"
    else
        printf 'FAIL  %-28s exit code %d\n' "$name" $code
        tail -n 5 "$results/$name.out" "$results/$name.err" | sed 's/^/      /'
        failed=1
    fi
}
foreign() { inside_foreign "$processor" "$@"; }

# --- both programs in one chroot, and what they are to read --------------------------
major=$([ "$suite" = bookworm ] && echo 15 || echo 17)
foreign_root "$suite" "$debian" "$root" "postgresql-$major" libc6 dash coreutils diffutils grep
here=$(dpkg --print-architecture)
mkdir "$work/native"
dpkg-deb --fsys-tarfile "$dist"/pgassay_*_"$here".deb | tar -x -C "$work/native"
cp "$work/native/usr/bin/pgassay" "$root/srv/native"
# Its metadata is checked by dpkg against an empty database; it has no maintainer scripts.
mkdir -p "$root/var/lib/dpkg"/{info,updates}
: >"$root/var/lib/dpkg/status"
echo "$debian" >"$root/var/lib/dpkg/arch"
step deb-installs dpkg --root="$root" --force-architecture --force-depends --log=/dev/null -i "$dist"/pgassay_*_"$debian".deb
cp -R "$project/crates/foundation/inspect/tests/fixtures" "$root/srv/fixtures"
cp -R "$project/crates/results/analysis/tests/check/recorded" "$root/srv/facts"
cp "$foreign/$suite-$debian/archives/postgresql-${major}_"*.deb "$root/srv/postgresql.deb"
chmod -R a+rX "$root/srv"

# --- the same words about the same input --------------------------------------------
# One shell for all of it: each line names a case, and what follows is asked of both programs.
cat >"$root/srv/same" <<'STEPS'
cd /srv
total=0 different=0
while read -r words; do
    [ -n "$words" ] || continue
    total=$((total + 1))
    /srv/native $words >/tmp/native.out 2>/tmp/native.err
    native=$?
    /usr/bin/pgassay $words >/tmp/foreign.out 2>/tmp/foreign.err
    code=$?
    if [ $code != $native ] || ! cmp /tmp/native.out /tmp/foreign.out || ! cmp /tmp/native.err /tmp/foreign.err; then
        different=$((different + 1))
        echo "different ($code, natively $native): $words"
        head -c 300 /tmp/foreign.err
    elif [ ! -s /tmp/foreign.out ]; then
        different=$((different + 1))
        echo "nothing said ($code): $words"
        head -c 300 /tmp/foreign.err
    fi
done
echo "$total outputs compared, $different different"
[ $total -gt 0 ] && [ $different = 0 ]
STEPS
same() { foreign sh /srv/same; }

step runs foreign sh -c 'pgassay --version && uname -m'
grep -qx "$processor" "$results/runs.out" || { echo "FAIL  that was not $processor"; failed=1; }
emulated() { # what one start takes, of 20
    foreign sh -c 'n=0; start=$(date +%s%N); while [ $n -lt 20 ]; do "$1" --version >/dev/null || exit; n=$((n + 1)); done
        echo "$((($(date +%s%N) - start) / 20000000)) ms for a start, the shell'"'"'s fork and date included"' sh "$1"
}
step start-up emulated /usr/bin/pgassay
step start-up-native emulated /srv/native
cases() { # words with @ for each file
    local file
    for file in "$root"/srv/$1; do echo "${2//@/${file#"$root"}}"; done
}
# Without --cpu it would say what runs on the processor it finds, which is another one.
cpus='--cpu graviton2 --cpu power9'
step inspect-corpus same < <(
    cases 'fixtures/*.so' "inspect @ --format json $cpus"
    cases 'fixtures/*.so' "inspect @ --addresses --format text $cpus"
)
step inspect-packages same <<LIST
inspect /srv/postgresql.deb --format json $cpus
inspect /srv/postgresql.deb --format text $cpus
inspect /usr/lib/postgresql/$major/bin --format markdown $cpus
inspect /usr/lib/postgresql/$major/bin/postgres --require lse-or-outline,full-relro,pie --format html $cpus
LIST
step check-of-facts same < <(
    cases 'facts/*.json' 'check @ --all'
    cases 'facts/*.json' 'check @ --json'
    cases 'facts/*.json' 'check @ --fail-on low'
    echo 'check /srv/facts --json'
)

# --- load: this machine's PostgreSQL over TCP, with passwords and TLS ----------------
port=$((20000 + RANDOM % 10000))
start_server() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
    cp "$work/cert.pem" "$root/srv/cert.pem"
    chown postgres "$work/key.pem" "$work"
    echo secret >"$work/password"
    as_server "$servers/initdb" -A scram-sha-256 -U postgres --pwfile="$work/password" -D "$work/data" >/dev/null
    as_server "$servers/pg_ctl" -D "$work/data" -w -l "$work/log" -o "-p $port -k $work -c listen_addresses=127.0.0.1 -c ssl=on \
        -c ssl_cert_file=$work/cert.pem -c ssl_key_file=$work/key.pem -c fsync=off" start >/dev/null
    server=yes
}
step server-starts start_server
[ -e "$work/data/postmaster.pid" ] && server=yes
to="host=localhost port=$port user=postgres password=secret dbname=postgres"
brief=(--load --clients 1,4 --trials 2 --time 1 --scale 1 --observe none --seed 1)
step load-plain foreign pgassay run tpcb-like "$to sslmode=disable" "${brief[@]}"
# A peer within the program that answers at once, in place of a server.
step load-ceiling foreign pgassay run select-only "$to sslmode=disable" "${brief[@]}" --ceiling
step load-tls foreign pgassay run select-only "$to sslmode=verify-full sslrootcert=/srv/cert.pem" "${brief[@]}"
step pgbench-tls foreign sh -c 'export PGHOST=localhost PGPORT=$1 PGUSER=postgres PGPASSWORD=secret PGSSLMODE=require
    pgassay pgbench -i -q -s 1 postgres && pgassay pgbench -c 4 -T 2 -S postgres | grep "^tps"' sh "$port"
# Wrong figures would show here: the account that the server keeps itself.
counted() {
    local before after said
    asked() { PGPASSWORD=secret "$servers/psql" -XAtq -h localhost -p "$port" -U postgres -d postgres -c "$1"; }
    before=$(asked 'SELECT sum(abalance) FROM pgbench_accounts')
    said=$(foreign env PGHOST=localhost "PGPORT=$port" PGUSER=postgres PGPASSWORD=secret pgassay pgbench -n -c 4 -t 50 postgres |
        sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p')
    after=$(asked 'SELECT count(*) FROM pgbench_history')
    echo "balance $before before; $said transactions said, $after rows of history found"
    [ "$said" = 200 ] && [ "$after" = 200 ]
}
step pgbench-counts counted

# --- what was recorded there and what is recorded here is read alike ----------------
step record-here inside_foreign "$processor" /srv/native run select-only "$to sslmode=disable" "${brief[@]}"
step report-of-runs same < <(
    for run in "$root"/root/.local/state/pgassay/runs/*/; do
        run=${run#"$root"}
        for format in text html json markdown csv; do echo "report $run --format $format"; done
        echo "fit $run"
        echo "diagnose $run"
    done
    echo "runs"
)

# --- a PostgreSQL of that processor --------------------------------------------------
step doctor foreign sh -c 'pgassay doctor --json; code=$?; echo; echo "exit code $code"; [ $code -le 1 ]'
step inspect-found foreign pgassay inspect temp --format text
step assay-of-a-foreign-server foreign sh -c '
    pgassay assay temp --quick --clients 1,2 --trials 2 --time "$1" --scale 1
    code=$?
    echo "exit code $code"
    # 4: measured in part. An emulator has no CPU samples, among others; the report says so.
    [ $code = 0 ] || [ $code = 4 ]' sh "${SECONDS_OF_ASSAY:-1}"
step report-of-the-assay same <<'LIST'
report last --format text
report last --format json
LIST
cp "$root"/root/.local/state/pgassay/runs/*-assay-*/report.html "$results/assay.html" 2>/dev/null || true
left=$(find "$root/tmp" "$root/var/tmp" -maxdepth 3 -name 'pga-??????' -o -maxdepth 3 -path '*/clusters/*')
[ -z "$left" ] || { echo "FAIL  left behind: $left"; failed=1; }
exit $failed

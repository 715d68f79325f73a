#!/bin/bash
# The effect of the flags for atomics on PostgreSQL on arm64, by counts, without an arm64
# machine: instructions, exclusive loads and LSE atomics that one point select executes,
# counted in qemu's user emulator. Counts are not time: an exclusive pair counts as two
# instructions and an LSE atomic as one, whatever they cost.
#
#	bench/count-foreign.sh NATIVE BUILD…
#
# NATIVE is a native installation of the same version as the builds (it creates the
# cluster, whose files both can read), BUILD the directory of a cross-build, such as
# /var/tmp/pgassay-0/builds/15.18-lse-aarch64. Runs one backend in single-user mode and
# takes the difference of two run lengths. Prints a table in markdown. Needs qemu-user, cc
# and libc6-arm64-cross. CPU selects qemu's processor (max).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
native=${1:?missing argument: a native installation of the same version as the builds}
shift
: "${1:?missing argument: the directory of a cross-build}"
cpu=${CPU:-max}
short=100 long=1100
place=$(mktemp -d /var/tmp/pgassay-count-XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir "$place/out"
cc -O2 -shared -fPIC -I "$here/../crates/foundation/sys/src/qemu" -o "$place/count.so" "$here/../crates/measurement/engine/src/count/emulator.c"
chmod 755 "$place"
as_server() { "$@"; }
if [ "$(id -u)" = 0 ]; then
	chown postgres "$place" "$place/out"
	as_server() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
fi
cd "$place"
as_server "$native/bin/initdb" --locale=C --encoding=UTF8 -D "$place/data" >/dev/null 2>&1

quiet=(-F -c autovacuum=off -c fsync=off -c log_min_messages=fatal)
as_server "$native/bin/postgres" --single "${quiet[@]}" -D "$place/data" postgres >/dev/null <<'SQL'
CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))
INSERT INTO accounts SELECT n, 1, 0, '' FROM generate_series(1, 100000) n
VACUUM (FREEZE, ANALYZE) accounts
CHECKPOINT
SQL

statements() { # how many; always the same keys; the first ones read every page
	echo "SET enable_indexonlyscan = off"
	echo "SELECT count(*) FROM accounts"
	awk -v n="$1" 'BEGIN { key = 7; for (i = 0; i < n; i++) {
		key = (key * 7919 + 104729) % 100000
		print "SELECT abalance FROM accounts WHERE aid = " key + 1 } }'
}
counted() { # build, how many: the three counts
	statements "$2" | as_server qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu \
		-plugin "$place/count.so,out=$place/out" "$1/bin/postgres" --single "${quiet[@]}" \
		-D "$place/data" postgres >/dev/null 2>&1
	cat "$place"/out/emulator.*
	rm "$place"/out/emulator.*
}

echo "| build | instructions | exclusive loads | LSE atomics | repeat |"
echo "|---|---:|---:|---:|---:|"
for build in "$@"; do
	# Twice: the difference is the variation of the count itself.
	for _ in 1 2; do counted "$build" $short && counted "$build" $long; done |
		awk -v name="$(basename "$build")" -v n=$((long - short)) '
			{ for (i = 1; i <= 3; i++) count[NR, i] = $i }
			END {
				if (NR != 4) { print "no counts for " name > "/dev/stderr"; exit 1 }
				for (i = 1; i <= 3; i++) {
					first[i] = (count[2, i] - count[1, i]) / n
					again[i] = (count[4, i] - count[3, i]) / n
				}
				printf "| %s | %.1f | %.2f | %.2f | %+.3f %% |\n", name, first[1], first[2], first[3],
					100 * (again[1] / first[1] - 1)
			}'
done

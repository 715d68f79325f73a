#!/bin/bash
# What a select takes of shared memory on arm64, stepped on a real kernel under full emulation and recorded by the
# emulator's plugin on this machine: two ways to the same counts.
#
#	labs/lines/run.sh
#
# Debian 13's arm64 kernel is booted by qemu-system with PostgreSQL 17 and pgassay, built for arm64: once on a
# processor with LSE atomics, once on one without, whose atomics are exclusive pairs. There pgassay steps a session
# by ptrace. Then pgassay of this machine has the same installation recorded by qemu-user. The results are copied to
# target/lines/, and a row for each is printed. Counts, not times: a transaction takes minutes to step.
#
# TRANSACTIONS: of one session (1). NICE: of the emulator (10). GUEST_SECONDS: the longest that a guest may take
# (3600). PROGRAM_arm64: a pgassay already built for arm64. PGASSAY: this machine's (target/release/pgassay).
#
# Needs qemu-system-arm, qemu-user, kmod, cpio, xz-utils, e2fsprogs, jq, a C compiler, the cross compiler
# gcc-aarch64-linux-gnu, and rustup for the target's standard library. This script installs none of them.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$project/target/lines
architecture=arm64
work=$out/$architecture
suite=trixie
major=17
flavour=arm64
console=ttyAMA0
transactions=${TRANSACTIONS:-1}
GUEST_SECONDS=${GUEST_SECONDS:-3600}
emulate="qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -m 2G -smp 2"

. "$project/labs/guest.sh"
need jq cargo qemu-system-aarch64 qemu-aarch64 aarch64-linux-gnu-gcc
own=${PGASSAY:-$project/target/release/pgassay}
[ -x "$own" ] || { echo "build pgassay first: make build" >&2; exit 3; }
flags="-n $transactions --sessions 1 --scale 1 --seed 1 --json"

rm -rf "$out/guests"
mkdir -p "$work"
userland "postgresql-$major"
if [ -n "${PROGRAM_arm64:-}" ]; then
	cp "$PROGRAM_arm64" "$work/root/usr/bin/pgassay"
else
	(cd "$project" && env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
		CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 \
		cargo build -p pgassay --bin pgassay --target aarch64-unknown-linux-gnu --target-dir "$out/build")
	cp "$out/build/aarch64-unknown-linux-gnu/debug/pgassay" "$work/root/usr/bin/pgassay"
fi
guest_script <<GUEST
echo "guest: \$(busybox uname -r)"
pgassay lines /usr/lib/postgresql/$major/bin $flags >/lab/lines.json 2>/lab/lines.err
echo "guest: lines exited with \$?"
busybox tail -n 3 /lab/lines.err | busybox sed 's/^/guest: /'
GUEST
kernel "$flavour"
boot_one "$flavour" lse
boot_one "$flavour" pairs "" "$(sed 's/-cpu [^ ]*/-cpu cortex-a72/' <<<"$emulate")"

# The same installation, recorded by the emulator's plugin. The guest's users are not this machine's.
mv "$work/root/etc/passwd" "$work/passwd"
trap 'mv "$work/passwd" "$work/root/etc/passwd"' EXIT
mkdir -p "$out/guests/lse-plugin" "$out/guests/pairs-plugin"
"$own" lines "$work/root/usr/lib/postgresql/$major" $flags >"$out/guests/lse-plugin/lines.json"
"$own" lines "$work/root/usr/lib/postgresql/$major" $flags --emulated-cpu cortex-a72 >"$out/guests/pairs-plugin/lines.json"

printf '%-14s %14s %8s %8s %8s %8s\n' "" instructions loads stores atomics named
for way in lse lse-plugin pairs pairs-plugin; do
	file=$out/guests/$way/lines.json
	[ -s "$file" ] || file=$out/guests/$way/lab/lines.json
	[ -s "$file" ] || { echo "$way recorded nothing; see $out/console-$way.log" >&2; exit 4; }
	jq -r --arg way "$way" '[$way, .instructions, .total.loads, .total.stores, .total.atomics, .named_share] | @tsv' "$file" |
		while IFS=$'\t' read -r name instructions loads stores atomics named; do
			printf '%-14s %14s %8s %8s %8s %8s\n' "$name" "$instructions" "$loads" "$stores" "$atomics" "$named"
		done
done

#!/bin/bash
# Scattered reads on real kernels with other page sizes, under full emulation:
# arm64 with 4 and 16 KiB pages, ppc64le with 4 and 64 KiB.
#
#	labs/page-size/run.sh [ARCHITECTURE…]      default: arm64 ppc64el
#
# Debian 13's kernels come in matched pairs. Each is booted by qemu-system with a
# small initramfs and a disk with Debian's PostgreSQL and pgassay, built for that
# architecture. In the guest, pgassay runs scattered-read and collects the facts for
# check. The results are copied to target/page-size/guests/, and one report of all
# kernels is printed and written to target/page-size/report.html and .md. Counts, not
# times. From an arm64 guest with a CPU without LSE, only the facts are collected.
#
# SIZE, TRIALS: of scattered-read (32MB, 6). NICE: of the emulator (10). PROGRAM_arm64,
# PROGRAM_ppc64el: a pgassay already built. PGASSAY: the one that renders the report.
#
# Needs qemu-system-arm, qemu-system-ppc, kmod, cpio, xz-utils, e2fsprogs, jq, the
# cross compilers gcc-aarch64-linux-gnu and gcc-powerpc64le-linux-gnu, and rustup
# for the targets' standard libraries. This script installs none of them.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$project/target/page-size
suite=trixie
major=17
size=${SIZE:-32MB}
trials=${TRIALS:-6}
# The first two with the device's read-ahead off, the others at the kernel's default.
variants=bitmap-no-prefetch-ra0,bitmap-ra0,bitmap-no-prefetch,bitmap,bitmap-random-no-prefetch,index-random,sequential,bitmap-direct
[ $# -gt 0 ] || set -- arm64 ppc64el

. "$project/labs/guest.sh"
need jq cargo

# The kernels of an architecture: flavour, base page and emulator.
describe() {
	case $1 in
	arm64)
		kernels="arm64 arm64-16k"
		triple=aarch64-unknown-linux-gnu compiler=aarch64-linux-gnu-gcc
		emulate="qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -m 2G -smp 1" console=ttyAMA0
		;;
	ppc64el)
		kernels="powerpc64le powerpc64le-64k"
		triple=powerpc64le-unknown-linux-gnu compiler=powerpc64le-linux-gnu-gcc
		emulate="qemu-system-ppc64 -M pseries -cpu power9 -vga none -m 2G -smp 1" console=hvc0
		;;
	*) echo "no known kernels for $1; use arm64 or ppc64el" >&2; exit 2 ;;
	esac
	need "${emulate%% *}" "$compiler"
}

# Builds pgassay for the architecture, unless PROGRAM_arm64 or PROGRAM_ppc64el names one.
program() {
	local given=PROGRAM_$architecture variable
	if [ -n "${!given:-}" ]; then
		cp "${!given}" "$work/root/usr/bin/pgassay"
		return
	fi
	variable=$(tr a-z- A-Z_ <<<"$triple")
	(cd "$project" && env "CARGO_TARGET_${variable}_LINKER=$compiler" "CC_${triple//-/_}=$compiler" \
		CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 \
		cargo build -p pgassay --bin pgassay --target "$triple" --target-dir "${CROSS_TARGET:-$out/build}")
	cp "${CROSS_TARGET:-$out/build}/$triple/debug/pgassay" "$work/root/usr/bin/pgassay"
}

# What a guest does.
lab() {
	guest_script <<GUEST
echo "guest: \$(busybox uname -r), pages of \$(busybox awk '/KernelPageSize/ { print \$2; exit }' /proc/self/smaps) KiB"
if ! busybox grep -q lab=facts /proc/cmdline; then
	pgassay --runs /lab/runs --verbose run scattered-read /usr/lib/postgresql/$major/bin \
		--size $size --trials $trials --only $variants --read-ahead 0 --seed 1
	echo "guest: scattered-read exited with \$?"
fi
pgassay collect /usr/lib/postgresql/$major/bin --output /lab/facts.json
echo "guest: collect exited with \$?"
GUEST
}

own=${PGASSAY:-$project/target/release/pgassay}
[ -x "$own" ] || { echo "build pgassay first: make build" >&2; exit 3; }
mkdir -p "$out"
runs=()
for architecture in "$@"; do
	describe "$architecture"
	work=$out/$architecture
	mkdir -p "$work"
	userland "postgresql-$major"
	program
	lab
	for flavour in $kernels; do
		kernel "$flavour"
		boot_one "$flavour" "$flavour"
		recorded "$flavour"
		runs+=("$(dirname "$(compgen -G "$out/guests/$flavour/lab/runs/*/run.json")")")
	done
	# A CPU without LSE, whose atomics are exclusive loops: the facts for check.
	if [ "$architecture" = arm64 ]; then
		kernel arm64
		boot_one arm64 arm64-cortex-a72 lab=facts "$(sed 's/-cpu [^ ]*/-cpu cortex-a72/' <<<"$emulate")"
		recorded arm64-cortex-a72
	fi
done

# One report: what each kernel read for the same blocks.
"$own" report "${runs[@]}" --format html --output "$out/report.html"
"$own" report "${runs[@]}" --format markdown --output "$out/report.md"
"$own" report "${runs[@]}"

#!/bin/bash
# What a select takes of shared memory on arm64 and POWER, stepped on a real kernel under full emulation and recorded by
# the emulator's plugin on this machine: two ways to the same counts.
#
#	labs/lines/run.sh [arm64] [ppc64el]
#
# Debian's kernel is booted by qemu-system with PostgreSQL and pgassay, built for that processor: Debian 13 and
# PostgreSQL 17 on arm64, once with LSE atomics and once without, so that atomics are exclusive pairs; Debian 12 and
# PostgreSQL 15 on ppc64le, once on a POWER9, where the C library calls the kernel by scv, and once on a POWER8. There
# pgassay steps a session by ptrace. Then pgassay of this machine has the same installation recorded by qemu-user. The
# results are copied to target/lines/, and a row for each is printed. Counts, not times: a transaction takes minutes to
# step.
#
# TRANSACTIONS: of one session (1). NICE: of the emulator (10). GUEST_SECONDS: the longest that a guest may take
# (3600). PROGRAM_arm64, PROGRAM_ppc64el: a pgassay already built for it. PGASSAY: this machine's
# (target/release/pgassay).
#
# Needs qemu-system-arm, qemu-system-ppc, qemu-user, kmod, cpio, xz-utils, e2fsprogs, jq, a C compiler, the cross
# compilers gcc-aarch64-linux-gnu and gcc-powerpc64le-linux-gnu, and rustup for the targets' standard library. This
# script installs none of them.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$project/target/lines
transactions=${TRANSACTIONS:-1}
GUEST_SECONDS=${GUEST_SECONDS:-3600}
flags="-n $transactions --sessions 1 --scale 1 --seed 1 --json"
[ $# -gt 0 ] || set -- arm64 ppc64el

# Sets what a processor needs, and its guests: a name, a model for qemu-system, one for qemu-user.
processor() {
	architecture=$1
	work=$out/$architecture
	case $architecture in
	arm64)
		suite=trixie major=17 flavour=arm64 console=ttyAMA0
		triplet=aarch64-linux-gnu target=aarch64-unknown-linux-gnu
		machine="qemu-system-aarch64 -M virt" user=qemu-aarch64
		guests="lse max,pauth-impdef=on max
			pairs cortex-a72 cortex-a72"
		;;
	ppc64el)
		suite=bookworm major=15 flavour=powerpc64le console=hvc0
		triplet=powerpc64le-linux-gnu target=powerpc64le-unknown-linux-gnu
		machine="qemu-system-ppc64 -M pseries -vga none" user=qemu-ppc64le
		guests="power9 power9 power9
			power8 power8 power8"
		;;
	*)
		echo "$architecture is neither arm64 nor ppc64el" >&2
		exit 2
		;;
	esac
}

for each in "$@"; do
	processor "$each"
	. "$project/labs/guest.sh"
	need jq cargo "${machine%% *}" $user $triplet-gcc
done
own=${PGASSAY:-$project/target/release/pgassay}
[ -x "$own" ] || { echo "build pgassay first: make build" >&2; exit 3; }

# pgassay for the guest.
program() {
	local given=PROGRAM_$architecture name=${target//-/_}
	if [ -n "${!given:-}" ]; then
		cp "${!given}" "$work/root/usr/bin/pgassay"
		return
	fi
	(cd "$project" && env "CARGO_TARGET_${name^^}_LINKER=$triplet-gcc" "CC_$name=$triplet-gcc" \
		CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 \
		cargo build -p pgassay --bin pgassay --target $target --target-dir "$out/build")
	cp "$out/build/$target/debug/pgassay" "$work/root/usr/bin/pgassay"
}

# The loader's link, where it leads out of the directory.
keep_loader() {
	local loader to
	for loader in "$work"/root/usr/lib64/ld64.so.2; do
		to=$(readlink "$loader" || true)
		case $to in /*) ln -sfnr "$work/root$to" "$loader" ;; esac
	done
}

# The same installation, recorded by the emulator's plugin. The guest's users are not this machine's.
by_plugin() {
	local name=$1 model=$2
	mkdir -p "$out/guests/$name-plugin"
	mv "$work/root/etc/passwd" "$work/passwd"
	"$own" lines "$work/root/usr/lib/postgresql/$major" $flags --emulated-cpu "$model" \
		</dev/null >"$out/guests/$name-plugin/lines.json" || true
	mv "$work/passwd" "$work/root/etc/passwd"
}

row() {
	local way=$1 file=$2
	[ -s "$file" ] || { echo "$way recorded nothing; see $out/console-$way.log" >&2; exit 4; }
	jq -r --arg way "$way" '[$way, .instructions, .total.loads, .total.stores, .total.atomics, .named_share] | @tsv' "$file" |
		while IFS=$'\t' read -r name instructions loads stores atomics named; do
			printf '%-14s %14s %8s %8s %8s %8s\n' "$name" "$instructions" "$loads" "$stores" "$atomics" "$named"
		done
}

rm -rf "$out/guests"
for each in "$@"; do
	processor "$each"
	mkdir -p "$work"
	# A run that was interrupted while the plugin recorded left it there.
	[ ! -e "$work/passwd" ] || mv "$work/passwd" "$work/root/etc/passwd"
	userland "postgresql-$major"
	keep_loader
	program
	guest_script <<GUEST
echo "guest: \$(busybox uname -r)"
pgassay lines /usr/lib/postgresql/$major/bin $flags >/lab/lines.json 2>/lab/lines.err
echo "guest: lines exited with \$?"
busybox tail -n 3 /lab/lines.err | busybox sed 's/^/guest: /'
GUEST
	kernel "$flavour"
	while read -r name model emulated; do
		boot_one "$flavour" "$name" "" "$machine -cpu $model -m 2G -smp 2"
		by_plugin "$name" "$emulated"
	done <<<"$guests"
done

printf '%-14s %14s %8s %8s %8s %8s\n' "" instructions loads stores atomics named
for each in "$@"; do
	processor "$each"
	while read -r name _; do
		row "$name" "$out/guests/$name/lab/lines.json"
		row "$name-plugin" "$out/guests/$name-plugin/lines.json"
	done <<<"$guests"
done

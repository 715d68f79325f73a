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
mirror=${MIRROR:-http://deb.debian.org/debian}
major=17
size=${SIZE:-32MB}
trials=${TRIALS:-6}
# The first two with the device's read-ahead off, the others at the kernel's default.
variants=bitmap-no-prefetch-ra0,bitmap-ra0,bitmap-no-prefetch,bitmap,bitmap-random-no-prefetch,index-random,sequential,bitmap-direct
[ $# -gt 0 ] || set -- arm64 ppc64el

need() {
	local missing=()
	for tool in "$@"; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}; the comment at the top of $0 lists the packages" >&2; exit 3; }
}
need apt-get dpkg-deb modprobe cpio xz mke2fs debugfs jq cargo

# The kernels of an architecture: flavour, base page and emulator.
describe() {
	case $1 in
	arm64)
		kernels="arm64 arm64-16k"
		triple=aarch64-unknown-linux-gnu compiler=aarch64-linux-gnu-gcc
		emulate="qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on" console=ttyAMA0
		;;
	ppc64el)
		kernels="powerpc64le powerpc64le-64k"
		triple=powerpc64le-unknown-linux-gnu compiler=powerpc64le-linux-gnu-gcc
		emulate="qemu-system-ppc64 -M pseries -cpu power9 -vga none" console=hvc0
		;;
	*) echo "no known kernels for $1; use arm64 or ppc64el" >&2; exit 2 ;;
	esac
	need "${emulate%% *}" "$compiler"
}

# apt with its own lists and an empty status, for a foreign architecture.
private_apt() {
	local apt=$work/apt
	mkdir -p "$apt"/{lists/partial,archives/partial,etc}
	[ -f "$apt/status" ] || : >"$apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/etc/sources.list"
	apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
		-o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache::archives="$apt/archives" \
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Etc::sourcelist="$apt/etc/sources.list" \
		-o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=- -o Dir::Etc::preferencesparts=- \
		-o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

# Unpacks everything that PostgreSQL needs; runs no maintainer scripts.
userland() {
	[ -x "$work/root/usr/lib/postgresql/$major/bin/postgres" ] && return
	private_apt -y --download-only install postgresql-$major busybox-static libc6 >"$work/apt.log"
	rm -rf "$work/root" && mkdir -p "$work/root"
	# Debian 13 has merged /usr; some packages still use the old paths.
	mkdir -p "$work/root/usr"/{bin,sbin,lib,lib64}
	for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$work/root/$dir"; done
	for package in "$work"/apt/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/root" --keep-directory-symlink
	done
	mkdir -p "$work/root"/{proc,sys,dev,tmp,var/tmp,lab,etc}
	chmod 1777 "$work/root/tmp" "$work/root/var/tmp"
	# initdb and pg_ctl start programs through a shell.
	[ -e "$work/root/usr/bin/sh" ] || ln -s busybox "$work/root/usr/bin/sh"
	printf 'root:x:0:0::/root:/bin/sh\npostgres:x:100:100::/var/lib/postgresql:/bin/sh\n' >"$work/root/etc/passwd"
	printf 'root:x:0:\npostgres:x:100:\n' >"$work/root/etc/group"
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

# The guest's first process, once its disk is mounted.
guest_script() {
	cat >"$work/root/lab/init" <<GUEST
#!/bin/busybox sh
PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/lab
export PATH HOME
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev 2>/dev/null
busybox mkdir -p /dev/shm && busybox mount -t tmpfs tmpfs /dev/shm
busybox ip link set lo up
echo "guest: \$(busybox uname -r), pages of \$(busybox awk '/KernelPageSize/ { print \$2; exit }' /proc/self/smaps) KiB"
busybox uname -a >/lab/uname
if ! busybox grep -q lab=facts /proc/cmdline; then
	pgassay --runs /lab/runs --verbose run scattered-read /usr/lib/postgresql/$major/bin \
		--size $size --trials $trials --only $variants --read-ahead 0 --seed 1
	echo "guest: scattered-read exited with \$?"
fi
pgassay collect /usr/lib/postgresql/$major/bin --output /lab/facts.json
echo "guest: collect exited with \$?"
busybox sync
busybox umount /dev/shm
busybox mount -o remount,ro /
busybox poweroff -f
GUEST
	chmod +x "$work/root/lab/init"
}

# A kernel with the modules for its disk.
kernel() {
	local flavour=$1 package
	boot=$work/boot-$flavour
	[ -f "$boot/initramfs" ] && return
	rm -rf "$boot" && mkdir -p "$boot/unpacked" "$boot/fs"/{bin,dev,proc,mnt}
	package=$(private_apt -s install "linux-image-$flavour" | awk '$1 == "Inst" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
	(cd "$boot" && private_apt download "$package" >/dev/null)
	dpkg-deb -x "$boot"/linux-image-*.deb "$boot/unpacked"
	cp "$boot"/unpacked/boot/vmlinu?-* "$boot/kernel"
	local modules version
	modules=$(find "$boot/unpacked" -maxdepth 4 -type d -path '*/lib/modules/*' -print -quit)
	version=$(basename "$modules")
	mkdir -p "$boot/tree/lib/modules" && cp -r "$modules" "$boot/tree/lib/modules/"
	depmod -b "$boot/tree" "$version"
	for wanted in virtio_pci virtio_blk ext4 crc32c_generic; do
		modprobe -d "$boot/tree" -S "$version" --show-depends "$wanted" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
	done | awk '!seen[$0]++' >"$boot/modules"
	: >"$boot/fs/order"
	while read -r module; do
		local name
		name=$(basename "$module")
		name=${name%.xz}
		case $module in
		*.xz) xz -dc "$module" >"$boot/fs/$name" ;;
		*) cp "$module" "$boot/fs/$name" ;;
		esac
		echo "$name" >>"$boot/fs/order"
	done <"$boot/modules"
	cp "$work/root/usr/bin/busybox" "$boot/fs/bin/busybox"
	cat >"$boot/fs/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
while read -r module; do /bin/busybox insmod "/$module"; done </order
tries=0
until [ -b /dev/vda ] || [ $tries = 100 ]; do /bin/busybox usleep 100000; tries=$((tries + 1)); done
/bin/busybox mount -t ext4 -o noatime /dev/vda /mnt || /bin/busybox poweroff -f
exec /bin/busybox switch_root /mnt /lab/init
INIT
	chmod +x "$boot/fs/init" "$boot/fs/bin/busybox"
	ln -sf busybox "$boot/fs/bin/sh"
	(cd "$boot/fs" && find . | cpio -o -H newc --quiet | gzip -1) >"$boot/initramfs"
	rm -rf "$boot/unpacked" "$boot/tree"
}

# Boots a kernel and copies its results back. boot_one FLAVOUR NAME [KERNEL-ARGUMENT [CPU]]
boot_one() {
	local flavour=$1 name=$2 argument=${3:-} disk=$work/disk-$2.img runs=$out/guests/$2 machine=$emulate
	[ $# -lt 4 ] || machine=$(sed "s/-cpu [^ ]*/-cpu $4/" <<<"$emulate")
	rm -f "$disk" && truncate -s 2G "$disk"
	mke2fs -q -t ext4 -b 4096 -E root_owner=0:0 -d "$work/root" "$disk"
	echo "booting $name"
	timeout "${GUEST_SECONDS:-1800}" nice -n "${NICE:-10}" $machine -m 2G -smp 1 -nographic -nic none -no-reboot \
		-kernel "$boot/kernel" -initrd "$boot/initramfs" -append "console=$console panic=-1 quiet $argument" \
		-drive "file=$disk,if=virtio,format=raw,cache=unsafe" </dev/null 2>&1 | tee "$out/console-$name.log" | tr -d '\r' |
		grep --line-buffered -E "guest:|error|panic" || true
	rm -rf "$runs" && mkdir -p "$runs"
	debugfs -R "rdump /lab $runs" "$disk" >/dev/null 2>&1 || true
	rm -f "$disk"
	[ -s "$runs/lab/facts.json" ] || compgen -G "$runs/lab/runs/*/run.json" >/dev/null || {
		echo "$name recorded nothing; see its console log $out/console-$name.log" >&2
		exit 4
	}
}

own=${PGASSAY:-$project/target/release/pgassay}
[ -x "$own" ] || { echo "build pgassay first: make build" >&2; exit 3; }
mkdir -p "$out"
runs=()
for architecture in "$@"; do
	describe "$architecture"
	work=$out/$architecture
	mkdir -p "$work"
	[ -f "$work/updated" ] || { private_apt update >/dev/null && touch "$work/updated"; }
	userland
	program
	guest_script
	for flavour in $kernels; do
		kernel "$flavour"
		boot_one "$flavour" "$flavour"
		runs+=("$(dirname "$(compgen -G "$out/guests/$flavour/lab/runs/*/run.json")")")
	done
	# A CPU without LSE, whose atomics are exclusive loops: the facts for check.
	if [ "$architecture" = arm64 ]; then
		kernel arm64
		boot_one arm64 arm64-cortex-a72 lab=facts cortex-a72
	fi
done

# One report: what each kernel read for the same blocks.
"$own" report "${runs[@]}" --format html --output "$out/report.html"
"$own" report "${runs[@]}" --format markdown --output "$out/report.md"
"$own" report "${runs[@]}"

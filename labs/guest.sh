# Sourced by the labs that boot Debian's kernels under full emulation: a userland without
# maintainer scripts, a kernel with the modules for its disk, a boot, and the results copied out.
#
# The lab sets: suite (of Debian), architecture (Debian's name), work (a directory of that
# architecture, made), out (where consoles and results go), emulate (the emulator and its
# machine) and console (its device). NICE: of the emulator (10). GUEST_SECONDS: the longest
# that a guest may take (1800). MIRROR: Debian's (deb.debian.org).
#
# Needs kmod, cpio, xz-utils, e2fsprogs and Debian's archive keyring.
mirror=${MIRROR:-http://deb.debian.org/debian}

need() {
	local missing=()
	for tool in "$@"; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || { echo "missing: ${missing[*]}; the comment at the top of $0 lists the packages" >&2; exit 3; }
}
need apt-get dpkg-deb modprobe cpio xz mke2fs debugfs

# apt with lists of its own suite and an empty status, for an architecture that may be foreign.
private_apt() {
	local apt=$work/apt-$suite
	[ -f "$apt/updated" ] || {
		mkdir -p "$apt"/{lists/partial,archives/partial,etc}
		touch "$apt/updated"
		private_apt update >/dev/null || { rm -f "$apt/updated"; return 1; }
	}
	[ -f "$apt/status" ] || : >"$apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/etc/sources.list"
	apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
		-o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache::archives="$apt/archives" \
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Etc::sourcelist="$apt/etc/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

# Unpacks these packages and all that they depend on into $work/root; runs no maintainer scripts.
userland() {
	[ -e "$work/root/unpacked" ] && return
	private_apt -y --download-only install "$@" busybox-static libc6 >"$work/apt.log"
	rm -rf "$work/root" && mkdir -p "$work/root"
	# Since Debian 13 /usr is merged; some packages still use the old paths.
	mkdir -p "$work/root/usr"/{bin,sbin,lib,lib64}
	for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$work/root/$dir"; done
	for package in "$work/apt-$suite"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/root" --keep-directory-symlink
	done
	mkdir -p "$work/root"/{proc,sys,dev,tmp,var/tmp,lab,etc}
	chmod 1777 "$work/root/tmp" "$work/root/var/tmp"
	# initdb and pg_ctl start programs through a shell.
	[ -e "$work/root/usr/bin/sh" ] || ln -s busybox "$work/root/usr/bin/sh"
	printf 'root:x:0:0::/root:/bin/sh\npostgres:x:100:100::/var/lib/postgresql:/bin/sh\n' >"$work/root/etc/passwd"
	printf 'root:x:0:\npostgres:x:100:\n' >"$work/root/etc/group"
	touch "$work/root/unpacked"
}

# The guest's first process, once its disk is mounted: standard input, between mounting and powering off.
guest_script() {
	{
		cat <<'GUEST'
#!/bin/busybox sh
PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/lab
export PATH HOME
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev 2>/dev/null
busybox mkdir -p /dev/shm && busybox mount -t tmpfs tmpfs /dev/shm
busybox ip link set lo up
busybox uname -a >/lab/uname
GUEST
		cat
		cat <<'GUEST'
busybox sync
busybox umount /dev/shm
busybox mount -o remount,ro /
busybox poweroff -f
GUEST
	} >"$work/root/lab/init"
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
		modprobe -d "$boot/tree" -S "$version" --show-depends "$wanted" 2>/dev/null | awk '$1 == "insmod" { print $2 }' || true
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

# Boots a kernel and copies /lab back to $out/guests/NAME. boot_one FLAVOUR NAME [KERNEL-ARGUMENT [EMULATOR]]
boot_one() {
	local flavour=$1 name=$2 argument=${3:-} disk=$work/disk-$2.img runs=$out/guests/$2 machine=${4:-$emulate}
	mkdir -p "$out"
	rm -f "$disk" && truncate -s 3G "$disk"
	mke2fs -q -t ext4 -b 4096 -E root_owner=0:0 -d "$work/root" "$disk"
	echo "booting $name"
	timeout "${GUEST_SECONDS:-1800}" nice -n "${NICE:-10}" $machine -nographic -nic none -no-reboot \
		-kernel "$boot/kernel" -initrd "$boot/initramfs" -append "console=$console panic=-1 quiet $argument" \
		-drive "file=$disk,if=virtio,format=raw,cache=unsafe" </dev/null 2>&1 | tee "$out/console-$name.log" | tr -d '\r' |
		grep --line-buffered -E "guest:|error|Kernel panic" || true
	rm -rf "$runs" && mkdir -p "$runs"
	debugfs -R "rdump /lab $runs" "$disk" >/dev/null 2>&1 || true
	rm -f "$disk"
}

# Ends where the guest left neither facts nor a run.
recorded() {
	[ -s "$out/guests/$1/lab/facts.json" ] || compgen -G "$out/guests/$1/lab/runs/*/run.json" >/dev/null || {
		echo "$1 recorded nothing; see its console log $out/console-$1.log" >&2
		exit 4
	}
}

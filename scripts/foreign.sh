# shellcheck shell=bash
# Debian of another processor in a chroot, run by qemu's user emulation. Sourced, as root.
# The packages are kept below FRESH (/var/tmp/pgassay-fresh). MIRROR names another mirror than apt's own.
foreign=${FRESH:-/var/tmp/pgassay-fresh}/foreign

# Unpacks packages and what they depend on into $root: no maintainer script runs, nothing is emulated.
foreign_root() { # suite, Debian's name of the processor, root, packages…
    local suite=$1 architecture=$2 root=$3 kept=$foreign/$1-$2 mirror=${MIRROR:-} package
    shift 3
    [ "$(id -u)" = 0 ] || { echo "run this as root; it makes a chroot" >&2; exit 2; }
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | sort -u | head -1)
    mkdir -p "$kept"/{lists/partial,archives/partial,none/partial,parts}
    [ -e "$kept/status" ] || : >"$kept/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$kept/sources.list"
    local apt=(apt-get -qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
        -o "Dir::State::Lists=$kept/lists" -o "Dir::State::status=$kept/status"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o "Dir::Etc::SourceList=$kept/sources.list" -o "Dir::Etc::SourceParts=$kept/parts"
        -o "Dir::Etc::Parts=$kept/parts" -o "Dir::Etc::PreferencesParts=$kept/parts" -o APT::Install-Recommends=false
        -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    "${apt[@]}" update
    "${apt[@]}" -o "Dir::Cache::archives=$kept/archives" -y --download-only install "$@" >/dev/null
    # Not all that is kept: an older version may be among it. With an empty cache apt names all it needs.
    "${apt[@]}" -o "Dir::Cache::archives=$kept/none" -y --print-uris install "$@" |
        sed -n "s/^'[^']*' \([^ ]*\) .*/\1/p" >"$kept/wanted"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},proc,sys,dev,tmp,var/tmp,etc,root,srv,run}
    # As the installed system has them since Debian 12; in its packages some paths are still the old ones.
    for directory in bin sbin lib lib64; do ln -s "usr/$directory" "$root/$directory"; done
    while read -r package; do
        dpkg-deb --fsys-tarfile "$kept/archives/$package" | tar -x -C "$root" --keep-directory-symlink
    done <"$kept/wanted"
    chmod 1777 "$root/tmp" "$root/var/tmp"
    printf 'root:x:0:0::/root:/bin/sh\npostgres:x:100:100::/var/lib/postgresql:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\npostgres:x:100:\n' >"$root/etc/group"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
}

# Runs a command as root in $root, whose programs may be PROCESSOR's. Since Linux 6.7 a user namespace has
# registrations of its own, so the system's are left as they are; before, they have to be there (Debian:
# binfmt-support or systemd registers those of qemu-user-static).
inside_foreign() { # PROCESSOR (aarch64, ppc64le), command…
    local processor=$1 ready child result=0
    shift
    ready=$(mktemp -u)
    mkfifo "$ready"
    unshare --user --mount --pid --fork --kill-child bash -euc '
        root=$1 processor=$2
        read -r _ <"$3"
        shift 3
        mount -t proc proc "$root/proc"
        if mount -t binfmt_misc binfmt_misc "$root/proc/sys/fs/binfmt_misc" 2>/dev/null; then
            # The flag F keeps the emulator open: it is not in the chroot.
            rule=$(sed "s|:[^:]*:[^:]*$|:/usr/bin/qemu-$processor-static:F|" "/usr/lib/binfmt.d/qemu-$processor.conf")
            printf "%s" "$rule" >"$root/proc/sys/fs/binfmt_misc/register"
        fi
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        exec setpriv --clear-groups chroot "$root" env -i PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 "$@"
        ' inside_foreign "$root" "$processor" "$ready" "$@" <&0 & # or the shell gives it /dev/null
    child=$!
    # Everybody in there is who they are outside.
    while [ "$(readlink /proc/$child/ns/user)" = "$(readlink /proc/self/ns/user)" ]; do
        kill -0 $child 2>/dev/null || break
        sleep 0.02
    done
    echo '0 0 4294967295' >/proc/$child/uid_map
    echo '0 0 4294967295' >/proc/$child/gid_map
    echo go >"$ready"
    rm -f "$ready"
    wait $child || result=$?
    return $result
}

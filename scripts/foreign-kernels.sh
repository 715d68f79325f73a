#!/bin/bash
# Kernels on arm64 and POWER, without such a machine: compiles the forms for both, runs each in several
# threads under qemu's user emulator, and checks what its operations left; then counts them by pgassay.
#
#   scripts/foreign-kernels.sh [PGASSAY]
#
# Weak memory is only partly shown: the emulator's threads run on this machine, whose order is stronger.
#
# On Debian 12 the compiler with the other processors' standard libraries is Debian's rustc-web, unpacked
# below FRESH (/var/tmp/pgassay-fresh); elsewhere rustup's (rustup target add). Needs qemu-user,
# gcc-aarch64-linux-gnu and gcc-powerpc64le-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")/.."
place=${FRESH:-/var/tmp/pgassay-fresh}/foreign-rust
work=$(mktemp -d /var/tmp/pgassay-foreign-kernels.XXXXXX)
trap 'rm -rf "$work"' EXIT

# Debian's packages of a compiler for this machine and of the libraries of the others.
fetch() {
    local mirror apt
    mkdir -p "$place"/{lists/partial,archives/partial,parts,root}
    : >"$place/status"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | sort -u | head -1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$place/sources.list"
    apt=(apt-get -qq -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
        -o APT::Architectures::=ppc64el -o "Dir::State::Lists=$place/lists" -o "Dir::State::status=$place/status"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o "Dir::Etc::SourceList=$place/sources.list"
        -o "Dir::Etc::SourceParts=$place/parts" -o "Dir::Etc::Parts=$place/parts"
        -o "Dir::Etc::PreferencesParts=$place/parts" -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    "${apt[@]}" update
    (cd "$place/archives" && "${apt[@]}" download rustc-web:amd64 libstd-rust-web-dev:{amd64,arm64,ppc64el} \
        libstd-rust-web-1.85:amd64 libllvm19:amd64)
    for package in "$place"/archives/*.deb; do dpkg-deb -x "$package" "$place/root"; done
    touch "$place/complete"
}

has_libraries() { # Rust's target
    [ -d "$(rustc --print target-libdir --target "$1")" ]
}
if ! has_libraries aarch64-unknown-linux-gnu || ! has_libraries powerpc64le-unknown-linux-gnu; then
    [ -e "$place/complete" ] || fetch
    mkdir "$work/bin"
    # Rust 1.85 calls POWER's inline assembly unstable, which it is no more from 1.95 on.
    cat >"$work/bin/rustc" <<-WRAPPER
		#!/bin/bash
		export LD_LIBRARY_PATH=$place/root/usr/lib/x86_64-linux-gnu:$place/root/usr/lib/llvm-19/lib
		case "\$*" in
		*"--target powerpc64le"*"-o "*) export RUSTC_BOOTSTRAP=1; set -- -Zcrate-attr='feature(asm_experimental_arch)' "\$@" ;;
		esac
		exec $place/root/usr/bin/rustc "\$@"
	WRAPPER
    chmod 755 "$work/bin/rustc"
    PATH=$work/bin:$PATH
fi

mkdir "$work/kernels"
cp -r crates/measurement/kernels/src/{alone.rs,catalogue,forms,kernel.rs,session.rs,sync.rs} crates/foundation/sys/src/exclusive "$work/kernels"
prove() { # name, Rust's target, triplet, qemu's model
    echo "== $1"
    rustc --edition 2024 -C opt-level=3 --target "$2" -C "linker=$3-gcc" -o "$work/$1" "$work/kernels/alone.rs"
    "qemu-$1" -cpu "$4" -L "/usr/$3" "$work/$1" prove 3 2000
}
prove aarch64 aarch64-unknown-linux-gnu aarch64-linux-gnu max
prove ppc64le powerpc64le-unknown-linux-gnu powerpc64le-linux-gnu power9
[ -z "${1:-}" ] || "$1" run kernels --runs "$work/runs" --emulate aarch64,ppc64le --clients 1 --trials 3 --time 0.05

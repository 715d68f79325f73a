#!/bin/bash
# Builds what is published, into dist/: for each processor a tar.gz, a Python wheel, a .deb and an .rpm
# of one program; and once an SBOM and SHA256SUMS. For x86_64 also a tar.gz of pgassay-query, which answers SQL for
# pgassay query, in an archive of its own.
#
#   scripts/dist.sh [PROCESSOR...]      x86_64, aarch64, ppc64le; all by default
#
# Needs rustup (for the standard libraries), Python with venv, dpkg-deb, rpmbuild and readelf
# (Debian: dpkg, rpm, binutils).
# zig, which compiles the one dependency in C and links for ppc64le, and cargo-zigbuild are fetched from
# PyPI into target/dist-tools.
#
# Paths are mapped, times are the commit's and orders are sorted, so that the same commit gives the same
# files in any directory; the release workflow compares two builds.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022
[ $# -gt 0 ] || set -- x86_64 aarch64 ppc64le
own=$(uname -m)

# Rust's target; what cargo-zigbuild appends (the oldest glibc that it runs with); how it is linked; the
# wheel's tags. A static program runs with any C library, so its wheel is right for both kinds of Linux.
choose() {
    glibc='' libc=static linking='' zig=0.17.1
    case $1 in
    x86_64 | aarch64)
        target=$1-unknown-linux-musl
        linking='-Clinker=rust-lld -Clinker-flavor=ld.lld -Clink-self-contained=yes'
        tags=manylinux_2_17_$1.manylinux2014_$1.musllinux_1_1_$1
        ;;
    ppc64le)
        # The oldest that zig has the headers of. The unwinder of zig 0.17 asks for 2.32 here.
        target=powerpc64le-unknown-linux-gnu glibc=.2.19 libc=2.19 zig=0.14.1
        tags=manylinux_2_19_$1
        ;;
    *)
        echo "dist.sh: unknown processor: $1 (x86_64, aarch64, ppc64le)" >&2
        exit 2
        ;;
    esac
}
for processor; do choose "$processor"; done

path=$PATH
# zig of the version chosen, and cargo-zigbuild with it, before all else.
use_zig() {
    local tools=$root/target/dist-tools/zig-$zig
    if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
        python3 -m venv "$tools"
        "$tools/bin/pip" install --quiet "ziglang==$zig" cargo-zigbuild==0.24.0
    fi
    PATH=$tools/bin:$path
}
for tool in dpkg-deb rpmbuild readelf; do
    command -v $tool >/dev/null || { echo "dist.sh: $tool is missing (Debian: apt-get install dpkg rpm binutils)" >&2; exit 3; }
done

# Paths in messages of panics begin at the project, at a crate's name, or at /rustc.
cargo fetch --locked --quiet
compiler=$(rustc -vV | sed -n 's/^commit-hash: //p')
flags="--remap-path-prefix=$root=/pgassay"
flags+=" --remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$compiler"
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
    flags+=" --remap-path-prefix=${registry%/}=/crates"
done
export CARGO_TARGET_DIR=$root/target
declare -A built=()
build() { # processor: sets target, glibc, libc, tags, zig, program
    choose "$1"
    program=target/$target/release/pgassay
    [ -z "${built[$1]:-}" ] || return 0
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    use_zig
    RUSTFLAGS="$flags $linking" cargo zigbuild --release --locked --package pgassay --target "$target$glibc"
    built[$1]=yes
    # What the tags say has to be true.
    local needs
    needs=$(readelf --version-info "$program" | { grep -o 'GLIBC_[0-9.]*' || true; } | sort -uV | tail -1)
    [ "$(printf '%s\n' "${needs#GLIBC_}" "${libc/static/}" | sort -V | tail -1)" = "${libc/static/}" ] || {
        echo "dist.sh: the program for $1 needs $needs, not $libc" >&2
        exit 1
    }
}

# pgassay-query with its licences and SBOM, in an archive of its own.
query_engine() { # processor
    choose "$1"
    use_zig
    RUSTFLAGS="$flags $linking" cargo zigbuild --release --locked --manifest-path engines/query/Cargo.toml --target "$target$glibc"
    local name=pgassay-query-$version-$1-linux
    local tree=target/dist/$name
    mkdir -p "$tree"/{bin,share/doc/pgassay-query}
    cp "target/$target/release/pgassay-query" "$tree/bin/"
    cp LICENSE-APACHE LICENSE-MIT "$tree/"
    scripts/components.py licences engines/query >"$tree/share/doc/pgassay-query/LICENSES-OF-CRATES"
    scripts/components.py sbom engines/query >"dist/pgassay-query-$version.cdx.json"
    archive "$name" pgassay-query
}

archive() { # tree below target/dist, its program
    find "target/dist/$1" -type f -exec chmod 644 {} + && chmod 755 "target/dist/$1/bin/$2"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        -C target/dist -c "$1" | gzip -9 -n >"dist/$1.tar.gz"
}

# What is the same for every processor: manual page, completions, licences. The program that runs here
# writes them.
build "$own"
share=target/dist/share
rm -rf target/dist
mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$program" man >"$share/man/man1/pgassay.1"
"$program" completions bash >"$share/bash-completion/completions/pgassay"
"$program" completions zsh >"$share/zsh/site-functions/_pgassay"
"$program" completions fish >"$share/fish/vendor_completions.d/pgassay.fish"
mkdir -p "$share/doc/pgassay"
scripts/components.py licences >"$share/doc/pgassay/LICENSES-OF-CRATES"
mkdir -p dist
scripts/components.py sbom >"dist/pgassay-$version.cdx.json"

for processor; do
    build "$processor"
    name=pgassay-$version-$processor-linux
    tree=target/dist/$name
    mkdir -p "$tree"/{bin,share}
    cp "$program" "$tree/bin/"
    cp -R "$share/." "$tree/share/"
    cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$tree/"
    cp ext/LICENSE "$tree/LICENSE-EXTENSION"
    archive "$name" pgassay

    scripts/wheel.py "$program" "$tags" dist "$tree/share"
    scripts/system-packages.sh "$tree" "$processor" "$libc" dist
    [ "$processor" != x86_64 ] || query_engine x86_64
done
cd dist
large=$(find . -maxdepth 1 -name 'pgassay*' ! -name '*-vendored.tar.gz' -size +25M)
[ -z "$large" ] || { echo "dist.sh: larger than 25 MiB: $large" >&2; exit 1; }
# The versions that the same files need again.
{
    rustc --version
    for processor; do choose "$processor" && echo "$processor: zig $zig"; done
} >"pgassay-$version.built-with.txt"
rm -f SHA256SUMS
find . -maxdepth 1 -type f -name 'pgassay*' -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
ls -l

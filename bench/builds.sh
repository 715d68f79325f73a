#!/bin/bash
# Builds of the real PostgreSQL, checked: 15 by autoconf and 17 by meson, three
# variants each; 15 cross-built for arm64 as llsc, outline and lse, told apart
# by inspect, and for POWER; 15 linked in three orders; a second build of what is
# there, timed.
#
#   bench/builds.sh PGASSAY [autoconf] [layouts] [arm64] [power] [meson]     all by default
#
# Sources come by apt from Debian, with a private root (this machine's sources
# and lists stay as they are). Needs gcc, make, bison, flex, perl; for arm64
# gcc-aarch64-linux-gnu, for POWER gcc-powerpc64le-linux-gnu; for meson meson and ninja. On two quiet cores some
# 5 minutes a variant; 1.5 GB below /var/tmp/pgassay-UID.
set -euo pipefail
pgassay=$(readlink -f "${1:?the pgassay program}")
shift
parts=${*:-autoconf layouts arm64 power meson}
place=${PGASSAY_SOURCES:-/var/tmp/pgassay-sources-$(id -u)}
mkdir -p "$place"
cd "$place"

fetch() { # package, version, suite's repository line
    local package=$1 version=$2 line=$3 root=$place/apt tarball
    tarball=${package}_${version%%-*}.orig.tar.bz2
    if [ ! -f "$tarball" ]; then
        mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
        echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $line" > "$root/sources.list"
        local apt=(apt-get -qq -o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache"
            -o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=/dev/null)
        "${apt[@]}" update >&2
        "${apt[@]}" source --download-only --tar-only "$package=$version" >&2
    fi
    echo "$tarball"
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | sort -u | head -1)
failed=0
expect() { # what, command…
    local what=$1
    shift
    if "$@" > /dev/null; then echo "ok    $what"; else
        echo "WRONG $what"
        failed=1
    fi
}

# Twice: the second time nothing is built.
twice() {
    local start ms
    "$pgassay" build "$@" --verbose
    start=$(date +%s%N)
    "$pgassay" build "$@" > /dev/null
    ms=$((($(date +%s%N) - start) / 1000000))
    expect "the second build took less than 2 s ($ms ms)" test $ms -lt 2000
}

# What inspect says of a build's server, but for its path, name and size.
account() { # build, a key of the document
    "$pgassay" inspect "build:$1" --json 2> /dev/null | python3 -c '
import json, sys
print(json.dumps(json.load(sys.stdin)["files"][0][sys.argv[1]]))' "$2"
}

serves() { # build
    expect "build:$1 serves" "$pgassay" run select-only "build:$1" -c 1 -T 0.2 --trials 2 -s 1
}

for part in $parts; do
    case $part in
        autoconf)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --variant O2 --variant O0 --variant native
            for variant in O2 O0 native; do
                serves "15.18-$variant"
            done
            expect "O0 and O2 differ in their atomics" \
                test "$(account 15.18-O0 atomics)" != "$(account 15.18-O2 atomics)"
            ;;
        layouts)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --layouts 3 --variant O2
            for n in 1 2 3; do
                serves "15.18-O2.layout$n"
            done
            expect "three layouts are three programs" test 3 = "$(sha256sum \
                "/var/tmp/pgassay-$(id -u)/builds"/15.18-O2.layout?/bin/postgres |
                cut -c 1-64 | sort -u | wc -l)"
            ;;
        arm64)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --host aarch64-linux-gnu --variant llsc --variant outline --variant lse
            expect "outline is outline" \
                "$pgassay" inspect build:15.18-outline-aarch64 --require outline
            expect "lse is lse" "$pgassay" inspect build:15.18-lse-aarch64 --require lse
            for wanted in lse outline; do
                expect "llsc is not $wanted" \
                    bash -c "! '$pgassay' inspect build:15.18-llsc-aarch64 --require $wanted"
            done
            ;;
        power)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --host powerpc64le-linux-gnu --variant O2
            expect "it is for POWER" test '"ppc64le"' = "$(account 15.18-O2-powerpc64le machine)"
            ;;
        meson)
            source=$(fetch postgresql-17 17.11-0+deb13u1 "$mirror trixie main")
            twice "$source" --build-system meson --variant O2 --variant O0 --variant assert
            for variant in O2 O0 assert; do
                serves "17.11-$variant"
            done
            expect "O0 and O2 differ in their atomics" \
                test "$(account 17.11-O0 atomics)" != "$(account 17.11-O2 atomics)"
            ;;
        *)
            echo "no part $part: autoconf, layouts, arm64, power, meson" >&2
            exit 2
            ;;
    esac
done
exit $failed

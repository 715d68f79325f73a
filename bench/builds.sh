#!/bin/bash
# Builds the real PostgreSQL and verifies the builds: 15 with autoconf and 17 with
# meson, three variants each; 15 and 18 built in the same way, to compare the
# versions; 15 cross-built for arm64 as llsc, outline and lse, distinguished by
# inspect, and for POWER; 15 linked in three orders; a repeated build, timed.
#
#   bench/builds.sh PGASSAY [PART…]    all by default:
#                                      autoconf layouts versions arm64 power meson
#
# Sources are fetched from Debian by apt with private directories (this machine's
# sources and lists are not changed). Needs gcc, make, bison, flex, perl; for 18's
# io_uring liburing-dev and pkg-config; for arm64 gcc-aarch64-linux-gnu; for POWER
# gcc-powerpc64le-linux-gnu (and qemu-user to run it); for meson meson and ninja.
# About 5 minutes per variant on two idle cores; 1.5 GB below /var/tmp/pgassay-UID.
set -euo pipefail
pgassay=$(readlink -f "${1:?missing argument: the pgassay program}")
shift
parts=${*:-autoconf layouts versions arm64 power meson}
builds=/var/tmp/pgassay-$(id -u)/builds
place=${PGASSAY_SOURCES:-/var/tmp/pgassay-sources-$(id -u)}
mkdir -p "$place"
cd "$place"

fetch() { # package, version ("": the suite's version), repository line of the suite
    local package=$1 version=$2 line=$3 root=$place/apt tarball
    tarball() { # the newest one already fetched
        find . -maxdepth 1 -name "${package}_${version%%-*}*.orig.tar.*" ! -name '*.asc' -printf '%f\n' |
            sort -V | tail -1
    }
    if [ -z "$(tarball)" ]; then
        mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
        echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $line" > "$root/sources.list"
        local apt=(apt-get -qq -o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache"
            -o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=/dev/null)
        "${apt[@]}" update >&2
        "${apt[@]}" source --download-only --tar-only "$package${version:+=$version}" >&2
    fi
    tarball
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/\?$' | sort -u | head -1)
failed=0
expect() { # what, command…
    local what=$1
    shift
    if "$@" > /dev/null; then echo "ok    $what"; else
        echo "FAIL  $what"
        failed=1
    fi
}

# Builds twice; the second build must do nothing.
twice() {
    local start ms
    "$pgassay" build "$@" --verbose
    start=$(date +%s%N)
    "$pgassay" build "$@" > /dev/null
    ms=$((($(date +%s%N) - start) / 1000000))
    expect "the second build took less than 2 s ($ms ms)" test $ms -lt 2000
}

# A value from the inspect report of a build's server.
account() { # build, key in the document
    "$pgassay" inspect "build:$1" --json 2> /dev/null | python3 -c '
import json, sys
print(json.dumps(json.load(sys.stdin)["files"][0][sys.argv[1]]))' "$2"
}

serves() { # build, further flags of run
    expect "build:$* serves" "$pgassay" run select-only "build:$@" -c 1 -T 0.2 --trials 2 -s 1
}

# Verifies that two builds have the same compiler, flags (except warnings) and options.
alike() { # build, build
    expect "$1 and $2 are built in the same way" python3 - "$builds/$1" "$builds/$2" <<'PYTHON'
import json, sys
made = [json.load(open(where + "/pgassay-build.json")) for where in sys.argv[1:]]
how = [(m["system"], m["compiler"], m["flags_asked"],
        [f for f in m["flags_recorded"].split() if not f.startswith("-W")],
        [o for o in m["options"] if not o.startswith("--prefix=")]) for m in made]
sys.exit(how[0] != how[1])
PYTHON
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
            expect "three layouts give three different programs" test 3 = "$(sha256sum \
                "$builds"/15.18-O2.layout?/bin/postgres |
                cut -c 1-64 | sort -u | wc -l)"
            ;;
        versions)
            old=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            new=$(fetch postgresql-18 "" "$mirror sid main")
            new_version=${new#*_} new_version=${new_version%%.orig*}
            twice "$old" --build-system autoconf --variant O2
            twice "$new" --build-system autoconf --variant O2
            alike 15.18-O2 "$new_version-O2"
            serves 15.18-O2
            serves "$new_version-O2"
            if pkg-config --exists liburing; then
                twice "$new" --build-system autoconf --variant 'uring O2 options=--with-liburing'
                serves "$new_version-uring" --set io_method=io_uring
            else
                echo "skip  18 with io_uring: needs liburing-dev and pkg-config"
            fi
            ;;
        arm64)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --host aarch64-linux-gnu --variant llsc --variant outline --variant lse
            expect "the outline build uses outline helpers" \
                "$pgassay" inspect build:15.18-outline-aarch64 --require outline
            expect "the lse build uses inline LSE" "$pgassay" inspect build:15.18-lse-aarch64 --require lse
            for wanted in lse outline; do
                expect "the llsc build fails --require $wanted" \
                    bash -c "! '$pgassay' inspect build:15.18-llsc-aarch64 --require $wanted"
            done
            ;;
        power)
            source=$(fetch postgresql-15 15.18-0+deb12u1 "$mirror bookworm main")
            twice "$source" --host powerpc64le-linux-gnu --variant O2
            expect "the build is for POWER" test '"ppc64le"' = "$(account 15.18-O2-powerpc64le machine)"
            if command -v qemu-ppc64le > /dev/null; then
                expect "it runs in an emulator" qemu-ppc64le -L /usr/powerpc64le-linux-gnu \
                    "$builds/15.18-O2-powerpc64le/bin/postgres" --version
            else
                echo "skip  run it in an emulator: needs qemu-ppc64le"
            fi
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
            echo "unknown part $part: use autoconf, layouts, versions, arm64, power or meson" >&2
            exit 2
            ;;
    esac
done
exit $failed

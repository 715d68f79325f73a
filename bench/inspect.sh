#!/bin/bash
# `pgassay inspect` and `objdump -d | awk`, alternating on the same files, and inspect's memory.
#
#   bench/inspect.sh [PGASSAY] [FILE...]     default files: those fetched by scripts/corpus.sh,
#                                            otherwise the newest installed PostgreSQL
# Prints for each file the medians, the ratio of the medians, the spread of the paired ratios, and the
# peak resident memory next to the file size. Targets: 50 times as fast for Debian's amd64 postgres, 200
# times for the arm64 one, memory at most 3 times the file size.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
pgassay=${1:-$here/target/release/pgassay}
[ $# -gt 0 ] && shift
rounds=${ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    corpus=${CORPUS:-${XDG_CACHE_HOME:-$HOME/.cache}/pgassay/corpus}
    for deb in "$corpus"/packages/bookworm-{amd64,arm64}/postgresql-15_*.deb; do
        [ -f "$deb" ] || continue
        d=$work/$(basename "$(dirname "$deb")")
        mkdir -p "$d"
        dpkg-deb --fsys-tarfile "$deb" | tar xf - -C "$d" ./usr/lib/postgresql/15/bin/postgres
        files+=("$d/usr/lib/postgresql/15/bin/postgres")
    done
fi
if [ ${#files[@]} -eq 0 ]; then
    files=("$(ls -d /usr/lib/postgresql/*/bin/postgres | sort -V | tail -1)")
fi

now() { date +%s%N; }
by_objdump() {
    case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in
        62) objdump -d "$1" | awk '/lock |xchg .*\(/ { n++ } END { print n }' ;;
        183) aarch64-linux-gnu-objdump -d "$1" | awk '/\t(ldaxr|ldxr|stlxr|stxr|cas|swp|ldadd|ldclr|ldset|ldeor)/ { n++ } END { print n }' ;;
        *) echo "inspect.sh: only x86-64 and aarch64 are supported" >&2; return 1 ;;
    esac
}
for file in "${files[@]}"; do
    "$pgassay" inspect --json "$file" > /dev/null    # both then read the file from the page cache
    : > "$work/pairs"
    for ((i = 0; i < rounds; i++)); do
        a=$(now); by_objdump "$file" > /dev/null; b=$(now)
        # A single run is short: take the mean of ten.
        for _ in 1 2 3 4 5 6 7 8 9 10; do "$pgassay" inspect --json "$file" > /dev/null; done
        c=$(now)
        echo "$(((b - a) / 1000)) $(((c - b) / 10000))" >> "$work/pairs"
    done
    "$pgassay" inspect --json "$file" > "$work/out" &
    pid=$!
    peak=0
    while kill -0 $pid 2> /dev/null; do
        now_kb=$(awk '/VmHWM/ { print $2 }' /proc/$pid/status 2> /dev/null || echo 0)
        [ "${now_kb:-0}" -gt "$peak" ] && peak=$now_kb
    done
    wait $pid
    size=$(stat -c %s "$file")
    sort -n "$work/pairs" | awk -v file="$file" -v size="$size" -v peak="$peak" '
        { a[NR] = $1; b[NR] = $2; r[NR] = $1 / $2 }
        function median(x, n,  i, j, t) {
            for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (x[j] < x[i]) { t = x[i]; x[i] = x[j]; x[j] = t }
            return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2
        }
        END {
            m = median(a, NR); p = median(b, NR); q = median(r, NR)
            printf "%s\n  objdump | awk %.1f ms, pgassay inspect %.1f ms: %.0f times (pairs %.0f to %.0f, n = %d)\n", file, m / 1000, p / 1000, q, r[1], r[NR], NR
            printf "  peak memory %.1f MB, file %.1f MB: %.1f times\n", peak / 1024, size / 1048576, peak * 1024 / size
        }'
done

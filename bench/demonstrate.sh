#!/bin/bash
# Repeats the comparisons in docs/reports on this machine.
#
#	bench/demonstrate.sh PROGRAM [MINUTES [NAME…]]
#
# NAME is one of:
#   versions       15 against 18: two builds made in the same way (`bench/builds.sh PROGRAM
#                  versions`), or those named by OLD and NEW in the environment; without such
#                  builds, installed or archived servers
#   huge-pages     huge pages on against off; as root, they are reserved and released
#   optimisation   -O0 against -O2: O0 and O2 in the environment name two builds made by
#                  `pgassay build`, such as build:15.18-O0
#   layouts        one build against itself, linked with its objects in another order:
#                  LAYOUT_A and LAYOUT_B name the builds (build:15.18-O2.layout1)
#   atomics        llsc, outline and lse on arm64, by counts: NATIVE and ARM64 in the
#                  environment name the directories of the builds (bench/count-foreign.sh)
# The default is all of them. Each takes at most MINUTES (6), the last one less; in that time
# the servers are created and started up to twelve times, or LAUNCHES times. Six is the
# minimum for a statement about builds and settings, rather than about single launches.
# Writes docs/reports/NAME.md and NAME.html, and the index README.md from the reports
# found there (OUT in the environment names another directory).
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?missing argument: the pgassay program}")
minutes=${2:-6}
shift $(($# < 2 ? $# : 2))
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(optimisation huge-pages versions layouts atomics)
out=${OUT:-docs/reports}
builds=/var/tmp/pgassay-$(id -u)/builds
PGASSAY_RUNS=$(mktemp -d)
export PGASSAY_RUNS
pages=$(cat /proc/sys/vm/nr_hugepages)
give_back() {
	[ "$(cat /proc/sys/vm/nr_hugepages)" = "$pages" ] || echo "$pages" >/proc/sys/vm/nr_hugepages
	rm -rf "$PGASSAY_RUNS"
}
trap give_back EXIT
rows=target/demonstrate # the rows of the index, kept between calls
mkdir -p "$out" "$rows"

# Removes this machine's paths and host name from a report.
anonymous() {
	sed -i -e "s|$PGASSAY_RUNS|RUNS|g" -e "s|$(realpath .)|.|g" -e "s|\b$(hostname)\b|host|g" "$@"
}

show() { # NAME, QUESTION, and the arguments of compare
	local name=$1 question=$2 code=0
	shift 2
	set -- "$@" --minutes "$minutes"
	[ -z "${LAUNCHES:-}" ] || set -- "$@" --launches "$LAUNCHES"
	echo "$name: pgassay compare $*" >&2
	"$program" compare "$@" --json >"$PGASSAY_RUNS/$name.json" || code=$?
	case $code in
	0 | 1 | 5 | 6) ;;
	*) return "$code" ;;
	esac
	"$program" report last --format markdown --output "$out/$name.md"
	"$program" report last --format html --output "$out/$name.html"
	anonymous "$out/$name.md" "$out/$name.html"
	python3 - "$PGASSAY_RUNS/$name.json" "$question" "pgassay compare $*" "$code" \
		>"$rows/$name.row" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1]))
answer = " ".join(document["headline"][:3]).replace("|", "/")
print("| %s | `%s` | %s | %s |" % (sys.argv[2], sys.argv[3], answer, sys.argv[4]), end="")
PYTHON
	local size
	size=$(stat -c %s "$out/$name.html")
	[ "$size" -le 300000 ] || echo "$name.html has $size bytes; the limit is 300,000" >&2
}

for name in "${names[@]}"; do
	case $name in
	versions)
		newest=$(find "$builds" -maxdepth 1 -name '18.*-O2' -printf '%f\n' 2>/dev/null | sort -V | tail -1)
		if [ -n "${OLD:-}${NEW:-}" ] || { [ -d "$builds/15.18-O2" ] && [ -n "$newest" ]; }; then
			show versions "Is 18 faster than 15, built in the same way?" \
				"${OLD:-build:15.18-O2}" "${NEW:-build:$newest}" --clients 4
		else
			show versions "Is 18 faster than 15? (an archived 18 if none is installed)" \
				temp:15 temp:18 --stand-in --clients 4
		fi
		;;
	huge-pages)
		# three servers of 512 MiB with huge pages, and their other shared memory
		if ! echo 1100 >/proc/sys/vm/nr_hugepages 2>/dev/null; then
			echo "huge pages can't be reserved: skipped" >&2
			continue
		fi
		show huge-pages "Do huge pages matter with 512 MiB of shared buffers?" temp temp \
			--set shared_buffers=512MB --set-a huge_pages=off --set-b huge_pages=on \
			--clients 4 --scale 25
		echo "$pages" >/proc/sys/vm/nr_hugepages
		;;
	optimisation)
		show optimisation "What is the effect of compiler optimisation?" \
			"${O0:-build:15.18-O0}" "${O2:-build:15.18-O2}" --clients 4 --delta 2%
		;;
	layouts)
		show layouts "What is the effect of the order of object files alone?" \
			"${LAYOUT_A:-build:15.18-O2.layout1}" "${LAYOUT_B:-build:15.18-O2.layout2}" --clients 4
		;;
	atomics)
		echo "atomics: bench/count-foreign.sh" >&2
		arm64=${ARM64:-$builds/15.18-llsc-aarch64 $builds/15.18-outline-aarch64 $builds/15.18-lse-aarch64}
		{
			echo "# Flags for atomics on arm64, by counts"
			echo
			echo "Counts per point select of PostgreSQL 15 in single-user mode, in qemu's user"
			echo "emulator, by \`bench/count-foreign.sh\`: the difference between runs of 100 and"
			echo "1,100 statements. Each exclusive load is one iteration of a load-exclusive,"
			echo "store-exclusive loop; with LSE, one instruction replaces the loop. The counts"
			echo "include the C library, which chooses at run time. Counts are not time, and a"
			echo "single process shows no contention, which is what LSE is for. The last column is"
			echo "the difference of a second count of the same build."
			for cpu in max cortex-a53; do
				echo
				echo "## A processor $([ $cpu = max ] && echo with || echo without) LSE ($cpu)"
				echo
				# A build for LSE only can't run without it.
				if [ $cpu = max ]; then run=$arm64; else run=$(tr ' ' '\n' <<<"$arm64" | grep -v -- -lse-); fi
				# shellcheck disable=SC2086
				CPU=$cpu bench/count-foreign.sh "${NATIVE:-$builds/15.18-O2}" $run
			done
		} >"$out/atomics.md"
		printf '| %s | `%s` | %s | %s |' "What is the effect of the flags for atomics on arm64?" \
			"bench/count-foreign.sh" "See the table: counts, not time." 0 >"$rows/atomics.row"
		;;
	*)
		echo "unknown demonstration: $name" >&2
		exit 2
		;;
	esac
done

{
	echo "# Comparisons made with pgassay"
	echo
	echo "Made by \`bench/demonstrate.sh\` on $(date -u +%Y-%m-%d); $(nproc) CPUs ($(sed -n \
		's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r | cut -d- -f1). Servers"
	echo "were created and started as often as the time allowed, up to twelve times; each report"
	echo "states how often. A verdict from one launch applies to those server instances; one from"
	echo "six or more launches applies to the builds and settings on this machine."
	echo
	echo "| question | command | answer | exit code | report |"
	echo "|---|---|---|---|---|"
	for row in "$rows"/*.row; do
		name=$(basename "$row" .row)
		page=""
		[ ! -f "$out/$name.html" ] || page=", [page]($name.html)"
		echo "$(cat "$row") [text]($name.md)$page |"
	done
} >"$out/README.md"
anonymous "$out/README.md"
if grep -l -e "$(realpath .)" -e "\b$(hostname)\b" "$out"/*; then
	echo "the files above contain this machine's name or paths" >&2
	exit 1
fi
du -sk "$out" >&2

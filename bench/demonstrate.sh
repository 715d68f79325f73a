#!/bin/bash
# The comparisons that docs/compare.md shows, made anew on this machine.
#
#	bench/demonstrate.sh PROGRAM [MINUTES [NAME…]]
#
# NAME is one of: versions (15 against 18, the archived builds), huge-pages,
# shared-buffers, optimisation (two variants that `pgassay build` made: O0 and O2 in
# the environment name them, such as build:15.18-O0). Each takes at most so many minutes (5). The reports go to
# docs/reports/NAME.md, with a picture beside it where there is a browser.
# As root, huge pages are reserved for their comparison and given back.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?the program}")
minutes=${2:-5}
shift $(($# < 2 ? $# : 2))
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(versions huge-pages shared-buffers optimisation)
PGASSAY_RUNS=$(mktemp -d)
export PGASSAY_RUNS
pages=$(cat /proc/sys/vm/nr_hugepages)
give_back() {
	[ "$(cat /proc/sys/vm/nr_hugepages)" = "$pages" ] || echo "$pages" >/proc/sys/vm/nr_hugepages
	rm -rf "$PGASSAY_RUNS"
}
trap give_back EXIT
mkdir -p docs/reports

show() { # NAME, and the arguments of compare
	local name=$1 code=0
	shift
	echo "$name: pgassay compare $* --minutes $minutes" >&2
	"$program" compare "$@" --minutes "$minutes" >/dev/null || code=$?
	case $code in
	0 | 1 | 5 | 6) ;;
	*) return "$code" ;;
	esac
	"$program" report last --format markdown --output "docs/reports/$name.md"
	"$program" report last --format html --output "$PGASSAY_RUNS/$name.html"
	if command -v chromium >/dev/null; then
		HEIGHT=2600 scripts/screenshot.sh "$PGASSAY_RUNS/$name.html" "$PGASSAY_RUNS/shots" "$name" >/dev/null 2>&1
		cp "$PGASSAY_RUNS/shots/$name-light.png" "docs/reports/$name.png"
	fi
}

for name in "${names[@]}"; do
	case $name in
	versions) show versions temp:15 temp:18 --stand-in --clients 1,4 ;;
	huge-pages)
		# two servers of 1 GiB with huge pages, and what they need besides
		if ! echo 1400 >/proc/sys/vm/nr_hugepages 2>/dev/null; then
			echo "huge pages can't be reserved: not shown" >&2
			continue
		fi
		show huge-pages temp temp --set shared_buffers=1GB --set-a huge_pages=on \
			--set-b huge_pages=off --clients 4 --scale 40
		echo "$pages" >/proc/sys/vm/nr_hugepages
		;;
	shared-buffers)
		show shared-buffers temp temp --set-a shared_buffers=1GB --set-b shared_buffers=16MB \
			--clients 4 --scale 20
		;;
	optimisation) show optimisation "${O0:-build:O0}" "${O2:-build:O2}" --clients 4 --delta 2% ;;
	*)
		echo "there is no demonstration $name" >&2
		exit 2
		;;
	esac
done

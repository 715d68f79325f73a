#!/bin/bash
# The tables of recorded runs: exported by pgassay, asked by DuckDB, and by pgassay query on each engine that is
# there; all must answer alike. What is written for other tools is read by their own parsers. With "spark" also
# Spark, on a local cluster of two workers, and Apache Otava.
#
#   scripts/test-records.sh PROGRAM [spark]
#
# Python's packages come from PyPI, in these versions, into target/tools/records.
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
tools=$here/../target/tools
packages=(duckdb==1.4.1 prometheus-client==0.26.0)
if [ "${2:-}" = spark ]; then
    packages+=(pyspark==4.0.1 apache-otava==0.8.0)
    command -v java >/dev/null || {
        echo "test-records.sh: Spark needs Java 17 or 21: apt-get install openjdk-17-jre-headless" >&2
        exit 3
    }
fi

python=$tools/records/bin/python
# One that was left half made, or by another Python, is made anew.
packages_of=("$(python3 --version)" "${packages[@]}")
if ! "$python" -m pip --version >/dev/null 2>&1; then
    python3 -m venv --clear "$tools/records" || {
        echo "test-records.sh: Python can't make an environment: apt-get install python3-venv" >&2
        exit 3
    }
fi
stamp=$tools/records/installed-${2:-}
if [ "$(cat "$stamp" 2>/dev/null)" != "${packages_of[*]}" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" || {
        echo "test-records.sh: not installed from PyPI: ${packages[*]}" >&2
        exit 3
    }
    echo "${packages_of[*]}" >"$stamp"
fi
PATH=$(cd "$tools/records/bin" && pwd):$PATH
export PATH
python "$here/../bench/records.py" test "$program" "${2:-}"
python "$here/test-formats.py" "$program" "${2:-}"

#!/bin/bash
# The ten questions on Trino, one process of it, held against DuckDB's answers.
#
#   scripts/test-trino.sh PROGRAM
#
# Needs Maven, which brings Trino's server and its Hive connector, and a Java that this Trino takes (24 or newer) in
# JAVA_HOME. What is brought lies in target/tools: VERSION names another Trino.
set -euo pipefail
program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
tools=$here/../target/tools
version=${VERSION:-476}
for tool in mvn unzip python3; do
    command -v $tool >/dev/null || { echo "test-trino.sh: $tool is missing" >&2; exit 3; }
done
[ -x "${JAVA_HOME:-}/bin/java" ] || { echo "test-trino.sh: JAVA_HOME names no Java" >&2; exit 3; }

TRINO_HOME=$tools/trino-$version
if ! [ -d "$TRINO_HOME" ]; then
    new=$TRINO_HOME.new
    rm -rf "$new"
    mkdir -p "$new/plugin"
    bring() { mvn --batch-mode --quiet dependency:copy -Dartifact="io.trino:$1:$version:$2" -DoutputDirectory="$new"; }
    bring trino-server-core tar.gz
    bring trino-hive zip
    tar -xzf "$new/trino-server-core-$version.tar.gz" -C "$new" --strip-components 1
    unzip -q "$new/trino-hive-$version.zip" -d "$new/plugin"
    mv "$new/plugin/trino-hive-$version" "$new/plugin/hive"
    rm "$new"/*.tar.gz "$new"/*.zip
    mv "$new" "$TRINO_HOME"
fi
TRINO_HOME=$(realpath "$TRINO_HOME")
export TRINO_HOME JAVA_HOME

python=$tools/trino-python/bin/python
packages=(duckdb==1.4.1 trino==0.340.0)
if [ "$(cat "$tools/trino-python/installed" 2>/dev/null)" != "${packages[*]}" ]; then
    python3 -m venv --clear "$tools/trino-python"
    "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" >"$tools/trino-python/installed"
fi
PATH=$(dirname "$python"):$PATH "$python" "$here/../bench/records.py" test "$program" trino

#!/bin/sh
# How often the statistical rules err, simulated with fixed seeds: prints the table
# that docs/statistics.md shows, and exits 1 where a bound is broken. Under two
# minutes of CPU once compiled; needs no server.
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --release -p pgassay-analysis --example calibrate

#!/bin/sh
# Error rates of the statistical rules, simulated with fixed seeds: prints the
# tables in docs/statistics.md, and exits 1 if a bound is violated. Less than two
# minutes of CPU time after compilation; needs no server.
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --release -p pgassay-analysis --example calibrate

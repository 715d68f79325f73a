#!/bin/sh
# How often the search for the causes of a change errs, simulated with fixed seeds: prints the table in
# docs/statistics.md, and exits 1 if a bound is violated. Half a minute of CPU time after compilation;
# needs no server.
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --release -p pgassay-analysis --example search_rates

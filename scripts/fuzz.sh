#!/bin/bash
# Fuzzes the parsers of untrusted input.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     seconds for each target (60); all targets
#
# Targets that are named are built alone, each with the crates that it needs; all are built together.
#
# Needs cargo-fuzz, and rustup's nightly or else any Rust that builds the project, which
# is then told to accept the sanitizer's flags (RUSTC_BOOTSTRAP). It prints how to install
# what is missing. It stops at the first finding, which is kept in fuzz/artifacts/.
#
# What a target reads to begin with is in fuzz/seeds/ and in the tests' fixtures; what it
# finds in addition goes to fuzz/corpus/, which is not committed.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
[ $# -eq 0 ] || shift
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
if rustup run nightly cargo --version >/dev/null 2>&1; then
    fuzz() { rustup run nightly cargo fuzz "$@"; }
else
    export RUSTC_BOOTSTRAP=1
    fuzz() { ../scripts/cargo.sh --with sh -c 'cd fuzz && exec cargo fuzz "$@"' sh "$@"; }
fi
if ! fuzz --version >/dev/null 2>&1; then
    echo "fuzzing needs cargo-fuzz: cargo install --locked cargo-fuzz" >&2
    exit 3
fi
[ $# -gt 0 ] || mapfile -t targets < <(fuzz list)
[ $# -eq 0 ] || targets=("$@")
named=$#
# Where targets write files, in memory if there is such a place.
PGASSAY_FUZZ_FILES=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/pgassay-fuzz-XXXXXX")
export PGASSAY_FUZZ_FILES
trap 'rm -rf "$PGASSAY_FUZZ_FILES"' EXIT
for target in "${targets[@]}"; do
    echo "fuzzing $target for $seconds s"
    # What is found is added to the first directory; the others are only read.
    corpora=("corpus/$target")
    mkdir -p "${corpora[0]}"
    [ ! -d "seeds/$target" ] || corpora+=("seeds/$target")
    case $target in
    archive | elf) corpora+=(../crates/foundation/inspect/tests/fixtures) ;;
    facts) corpora+=(../crates/results/analysis/tests/check/recorded) ;;
    lab_plan) corpora+=(../labs) ;;
    perf_text) corpora+=(../crates/results/analysis/tests/profiles) ;;
    port) corpora+=(../crates/results/port/tests/port/planted ../crates/results/port/tests/port/clean) ;;
    script) corpora+=(../crates/measurement/engine/workloads) ;;
    esac
    features=()
    [ "$named" -eq 0 ] || features=(--no-default-features --features "$target")
    fuzz run "${features[@]}" "$target" "${corpora[@]}" -- -max_total_time="$seconds" -timeout=25
done

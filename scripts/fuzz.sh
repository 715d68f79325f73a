#!/bin/bash
# Fuzzes each parser of untrusted input.
#
#   scripts/fuzz.sh [SECONDS]     per target (60)
#
# Needs a nightly Rust from rustup and cargo-fuzz; it prints how to install them
# but installs neither. It stops at the first finding, kept in fuzz/artifacts/.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
rustup run nightly cargo fuzz --version >/dev/null 2>&1 || {
    echo "fuzzing needs nightly Rust and cargo-fuzz: rustup toolchain install nightly && cargo install cargo-fuzz" >&2
    exit 3
}
for target in $(rustup run nightly cargo fuzz list); do
    echo "fuzzing $target for $seconds s"
    # What is found is added to the first directory; the others are only read.
    corpora=("corpus/$target")
    mkdir -p "${corpora[0]}"
    [ ! -d "seeds/$target" ] || corpora+=("seeds/$target")
    [ "$target" != facts ] || corpora+=(../crates/analysis/tests/check/recorded)
    rustup run nightly cargo fuzz run "$target" "${corpora[@]}" -- -max_total_time="$seconds"
done

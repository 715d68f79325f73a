#!/bin/bash
# Fuzzes each parser of foreign bytes for a while.
#
#   scripts/fuzz.sh [SECONDS]     of each target, 60
#
# Needs a nightly Rust from rustup and cargo-fuzz; it says how to get them and
# installs neither. A finding is kept in fuzz/artifacts/, and ends it.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
rustup run nightly cargo fuzz --version >/dev/null 2>&1 || {
    echo "fuzzing needs: rustup toolchain install nightly && cargo install cargo-fuzz" >&2
    exit 3
}
for target in $(rustup run nightly cargo fuzz list); do
    echo "fuzzing $target for $seconds s"
    rustup run nightly cargo fuzz run "$target" -- -max_total_time="$seconds"
done

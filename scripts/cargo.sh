#!/bin/bash
# Runs a cargo that is new enough for this project, from a distribution's
# package, rustup's proxies, or rustup's `stable`.
#
#   scripts/cargo.sh ARGS...     exit code 3 if there is none
#   scripts/cargo.sh --which     print its path and version
#   scripts/cargo.sh --with COMMAND ARGS...
#                                run a command that itself calls cargo
#
# The required version is `rust-version` in Cargo.toml. No toolchain is pinned,
# because a distribution's Rust works as well as rustup's.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)

# Prints the version of `cargo` in the current environment, if both it and its
# rustc are new enough.
usable() {
    local cargo rustc
    cargo=$(cargo --version 2>/dev/null | awk '{print $2}') || return 1
    rustc=$(rustc --version 2>/dev/null | awk '{print $2}') || return 1
    [ -n "$cargo" ] && [ -n "$rustc" ] || return 1
    for version in "$cargo" "$rustc"; do
        [ "$(printf '%s\n' "$wanted" "${version%%-*}" | sort -V | head -n 1)" = "$wanted" ] || return 1
    done
    echo "$cargo"
}

own_path=$PATH
for attempt in path home stable; do
    case $attempt in
    path) ;;
    home) export PATH="${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin:$own_path" ;;
    stable) export RUSTUP_TOOLCHAIN=stable ;;
    esac
    if version=$(usable); then
        if [ "${1:-}" = --which ]; then
            echo "$(command -v cargo) $version"
            exit 0
        fi
        if [ "${1:-}" = --with ]; then
            shift
            exec "$@"
        fi
        exec cargo "$@"
    fi
done
if [ "${1:-}" != --which ]; then
    echo "Rust $wanted or newer not found; install it with \`make assay\` or \`make test\`" >&2
fi
exit 3

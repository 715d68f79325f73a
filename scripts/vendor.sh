#!/bin/bash
# Writes dist/pgassay-VERSION-vendored.tar.gz: the committed sources with those of all crates, and the
# configuration that makes cargo use them. It builds without a network: cargo build --release --locked.
# The same commit gives the same file.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
name=pgassay-$version
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git archive --prefix="$name/" HEAD | tar -x -C "$work"
cd "$work/$name"
mkdir -p .cargo
# With the version in each name, so that paths in programs do not depend on how many there are.
scripts/cargo.sh vendor --locked --versioned-dirs --quiet vendor >/dev/null
cat >.cargo/config.toml <<'CONFIG'
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"

[net]
offline = true
CONFIG
# It resolves from what is in it alone.
CARGO_HOME=$work/empty scripts/cargo.sh tree --locked --package pgassay >/dev/null
cd "$work"
mkdir -p "$root/dist"
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX -c "$name" |
    gzip -9 -n >"$root/dist/$name-vendored.tar.gz"
ls -l "$root/dist/$name-vendored.tar.gz"

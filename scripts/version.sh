#!/bin/bash
# Sets the version everywhere it is written: Cargo.toml, Cargo.lock, the heading in CHANGELOG.md, the Ansible
# collection.
#
#   scripts/version.sh 0.2.0
set -euo pipefail
cd "$(dirname "$0")/.."
new=${1:?missing argument: the new version}
[[ $new =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$ ]] || { echo "not a version: $new" >&2; exit 2; }
old=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
sed -i -E "/^\[workspace.package\]/,/^\[/s/^version *= *\".*\"/version = \"$new\"/
    /^pgassay-[a-z]+ = /s/version = \"[^\"]*\"/version = \"$new\"/" Cargo.toml
sed -i "s/^version: .*/version: $new/" deploy/ansible/pgassay/lab/galaxy.yml
if ! grep -q "^## $new" CHANGELOG.md; then
    # Released sections keep their date; the unreleased one gets its number, or a new one is begun.
    if grep -q '(unreleased)$' CHANGELOG.md; then
        sed -i "s/^## .* (unreleased)\$/## $new (unreleased)/" CHANGELOG.md
    else
        sed -i "0,/^## /s/^## /## $new (unreleased)\n\n&/" CHANGELOG.md
    fi
fi
scripts/cargo.sh update --workspace --offline --quiet
echo "$old -> $new"

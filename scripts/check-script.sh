#!/bin/bash
# Checks the types of the pages' scripts by their comments. The pieces of a report's are one module, and one
# scope; that of the pages of `serve` is another.
#
# Needs tsc (scripts/bootstrap.sh test).
set -euo pipefail
cd "$(dirname "$0")/../crates/results/report/src/html"
check() { tsc --noEmit --strict --allowJs --checkJs --target es2021 --lib es2021,dom,dom.iterable "$@"; }
check script/*.js
check site/*.js

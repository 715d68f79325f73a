#!/bin/bash
# Checks the types of the pages' script by its comments. Its pieces are one module, and one scope.
#
# Needs tsc (scripts/bootstrap.sh test).
set -euo pipefail
cd "$(dirname "$0")/../crates/report/src/html/script"
exec tsc --noEmit --strict --allowJs --checkJs --target es2021 --lib es2021,dom,dom.iterable ./*.js

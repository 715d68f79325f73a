about='PostgreSQL 18, well set'
expects=
needs() { archived_bin 18 >/dev/null || { echo "no PostgreSQL 18 at hand"; return 1; }; }
provoke() { collect "$(archived_bin 18)" "${good[@]}"; }

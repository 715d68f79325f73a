about='PostgreSQL 18, well configured'
expects=
needs() { archived_bin 18 >/dev/null || { echo "PostgreSQL 18 is not available"; return 1; }; }
provoke() { collect "$(archived_bin 18)" "${good[@]}"; }

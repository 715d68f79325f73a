about='a server compiled with assertions'
expects=assertions
# PGASSAY_ASSERT: the prefix of such a server; otherwise a recorded build.
built() {
	if [ -n "${PGASSAY_ASSERT:-}" ]; then echo "$PGASSAY_ASSERT"; return; fi
	ls -d /var/tmp/pgassay-"$(id -u)"/builds/*assert* 2>/dev/null | head -1
}
needs() { [ -n "$(built)" ] || { echo "no build with assertions; create one with pgassay build SOURCE --preset assert, or set PGASSAY_ASSERT to its prefix"; return 1; }; }
provoke() { collect "$(built)" "${good[@]}"; }

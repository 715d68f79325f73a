about='a server compiled with assertions, under load'
kind=diagnose
expects='assertions'
built() {
	if [ -n "${PGASSAY_ASSERT:-}" ]; then echo "$PGASSAY_ASSERT"; return; fi
	ls -d /var/tmp/pgassay-"$(id -u)"/builds/*assert* 2>/dev/null | head -1
}
needs() { [ -n "$(built)" ] || { echo "no build with assertions; create one with pgassay build SOURCE --preset assert, or set PGASSAY_ASSERT to its prefix"; return 1; }; }
provoke() { diagnosed select-only "$(built)" --clients 2 --observe all; }

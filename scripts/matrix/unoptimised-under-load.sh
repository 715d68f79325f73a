about='a server compiled with -O0, under load'
kind=diagnose
expects=unoptimised-server
built() { ls -d /var/tmp/pgassay-"$(id -u)"/builds/*-O0 2>/dev/null | head -1; }
needs() { [ -n "$(built)" ] || { echo "no build ending in -O0; create one with pgassay build SOURCE --preset O0"; return 1; }; }
provoke() { diagnosed select-only "build:$(basename "$(built)")" --clients 2 --observe all; }

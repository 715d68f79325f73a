# A throw-away server for the scripts in this directory (to be sourced).
#
#	start_server "-c NAME=VALUE …"   sets bin, work, sockets and PGHOST, PGUSER, PGDATABASE
#	server_cpu                       CPU seconds of the server and all its processes so far
#	sorted_ratio                     awk functions: median [min .. max]
#
# BIN names the server's bin directory (default: the newest installed server); PLACE the directory for
# the cluster (/var/tmp; /dev/shm shows the cost without a device).  As root, the server runs as the
# user postgres.  Everything is removed at exit.

set -euo pipefail
export LC_ALL=C
bin=${BIN:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)}

stop_server() {
	"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$work" "$sockets"
}

start_server() {
	work=$(mktemp -d "${PLACE:-/var/tmp}/pgassay-bench.XXXXXX")
	sockets=$(mktemp -d /tmp/pga-XXXXXX)
	as_server=(env)
	if [ "$(id -u)" = 0 ]; then
		as_server=(setpriv --reuid postgres --regid postgres --clear-groups)
		chown postgres "$work" "$sockets"
	fi
	trap stop_server EXIT
	cd "$work"
	"${as_server[@]}" "$bin/initdb" -D "$work/data" --locale=C --encoding=UTF8 -U postgres -A trust >/dev/null
	"${as_server[@]}" "$bin/pg_ctl" -D "$work/data" -l "$work/server.log" -w -o \
		"-c listen_addresses= -c unix_socket_directories=$sockets $* ${SERVER_SET:-}" start >/dev/null
	export PGHOST=$sockets PGUSER=postgres PGDATABASE=postgres
}

# Live processes from schedstat, in nanoseconds; ended ones from the postmaster's CPU time of its children.
server_cpu() {
	local pid ticks
	pid=$(head -1 "$work/data/postmaster.pid")
	ticks=$(getconf CLK_TCK)
	{
		sed 's/^.*) //' "/proc/$pid/stat" | awk -v t="$ticks" '{ printf "%.2f\n", ($14 + $15) / t }'
		for child in "$pid" $(pgrep -P "$pid"); do
			awk '{ printf "%.6f\n", $1 / 1e9 }' "/proc/$child/schedstat" 2>/dev/null || true
		done
	} | awk '{ sum += $1 } END { printf "%.3f\n", sum }'
}

# For awk programs: the median of a[1..k] with minimum and maximum.
sorted_ratio='
	function sorted(a, k,   i, j, t) { for (i = 2; i <= k; i++) { t = a[i]; for (j = i - 1; j > 0 && a[j] > t; j--) a[j + 1] = a[j]; a[j + 1] = t } }
	function median(a, k) { return k % 2 ? a[(k + 1) / 2] : (a[k / 2] + a[k / 2 + 1]) / 2 }
	function shown(a, k) { sorted(a, k); return sprintf("%.2f [%.2f .. %.2f]", median(a, k), a[1], a[k]) }'

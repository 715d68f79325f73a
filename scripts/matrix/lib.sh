# Shared by the cases: servers that a case starts itself, so that it can put load or
# sessions on them while pgassay observes them (to be sourced).
#
#	start_server BIN [SETTING=VALUE…]   sets $sockets; stopped at the end
#	collect TARGET [ARGS…]              pgassay collect into $facts
#	at_server                           its connection string
#
# As root, servers run as the user postgres.

# Settings that keep every finding silent except the one that a case provokes.
good=(--set shared_buffers=256MB --set effective_cache_size=2GB --set effective_io_concurrency=16)

data=
sockets=
as_server=(env)
if [ "$(id -u)" = 0 ]; then
	as_server=(setpriv --reuid postgres --regid postgres --clear-groups)
fi

start_server() {
	local bin=$1
	shift
	server_bin=$bin
	data=$(mktemp -d "$work/data.XXXXXX")
	sockets=$(mktemp -d /tmp/pga-XXXXXX)
	[ "$(id -u)" = 0 ] && chown postgres "$data" "$sockets"
	"${as_server[@]}" "$bin/initdb" -D "$data" --locale=C --encoding=UTF8 -U postgres -A trust >/dev/null || return 1
	{
		echo "unix_socket_directories = '$sockets'"
		echo "listen_addresses = ''"
		echo "logging_collector = off"
		printf '%s\n' "$@"
	} >>"$data/postgresql.conf"
	"${as_server[@]}" "$bin/pg_ctl" -D "$data" -l "$data/log" -w start >/dev/null
}

stop_server() {
	if [ -n "$data" ] && [ -f "$data/postmaster.pid" ]; then
		"${as_server[@]}" "$server_bin/pg_ctl" -D "$data" -m immediate stop >/dev/null || true
	fi
	[ -z "$data" ] || rm -rf "$data" "$sockets"
	data=
}

at_server() { echo "host=$sockets user=postgres dbname=postgres"; }

collect() {
	"$pgassay" --quiet collect "$@" --output "$facts"
}

# The program directory of the newest installed PostgreSQL that includes pgbench.
newest_bin() {
	dirname "$(ls -d /usr/lib/postgresql/*/bin/pgbench /usr/pgsql-*/bin/pgbench 2>/dev/null | sort -V | tail -1)"
}

# The program directory of an archived release; pgassay fetches it if it is missing.
archived_bin() { # major
	local found
	found=$(ls -d /var/tmp/pgassay-"$(id -u)"/archives/"$1".*/bin 2>/dev/null | tail -1)
	if [ -z "$found" ]; then
		"$pgassay" --quiet collect "temp:$1" --stand-in --output /dev/null >/dev/null 2>&1
		found=$(ls -d /var/tmp/pgassay-"$(id -u)"/archives/"$1".*/bin 2>/dev/null | tail -1)
	fi
	[ -n "$found" ] && echo "$found"
}

must_be_root() {
	[ "$(id -u)" = 0 ] || { echo "needs root"; return 1; }
}

# Creates a control group for a controller: version 2 if the controller is available
# there, otherwise version 1.
new_group() { # controller
	if grep -qw "$1" /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
		group=/sys/fs/cgroup/pgassay-matrix
		group_version=2
	elif [ -d "/sys/fs/cgroup/$1" ]; then
		group=/sys/fs/cgroup/$1/pgassay-matrix
		group_version=1
	else
		echo "can't create a control group with the controller $1 on this machine"
		return 1
	fi
	mkdir -p "$group"
}

# Limits the group's writes to the device under /var/tmp.
limit_writes() { # writes per second
	local device
	device=$(stat -c %Hd:%Ld /var/tmp)
	# the limit of a partition is set on its disk
	[ -e "/sys/dev/block/$device/partition" ] && device=$(cat "/sys/dev/block/$device/../dev")
	if [ $group_version = 2 ]; then
		echo "$device wiops=$1" >"$group/io.max"
	else
		echo "$device $1" >"$group/blkio.throttle.write_iops_device"
	fi
}

# Everything that this shell starts from here on runs in the group.
enter_group() { echo "$BASHPID" >"$group/cgroup.procs"; }

leave_group() {
	local parent
	parent=$(dirname "$group")
	while read -r pid; do echo "$pid" >"$parent/cgroup.procs"; done <"$group/cgroup.procs" 2>/dev/null
	rmdir "$group" 2>/dev/null || true
}

# The IDs that `pgassay diagnose` finds in a load of its own, one per line.
diagnosed() { # workload, further arguments of pgassay run
	local result=$work/$name.result
	"$pgassay" --quiet run "$@" --runs "$work/runs" --json --trials 3 --time 2 >"$result" || return 1
	jq -r '.stages[0].diagnosis.findings[].id' "$result"
}

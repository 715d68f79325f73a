about='commits that wait for a standby to replay them'
kind=diagnose
expects=synchronous-standbys
undo() {
	[ -z "${standby:-}" ] || "${as_server[@]}" "$server_bin/pg_ctl" -D "$standby" -m immediate stop >/dev/null || true
	stop_server
}
provoke() {
	local bin
	bin=$(newest_bin)
	start_server "$bin" 'shared_buffers = 256MB' 'fsync = off' || return 1
	standby=$(mktemp -d "$work/standby.XXXXXX")
	[ "$(id -u)" = 0 ] && chown postgres "$standby"
	"${as_server[@]}" "$bin/pg_basebackup" -h "$sockets" -U postgres -D "$standby" -R -c fast || return 1
	mkdir "$sockets/standby"
	[ "$(id -u)" = 0 ] && chown postgres "$sockets/standby"
	echo "unix_socket_directories = '$sockets/standby'" >>"$standby/postgresql.conf"
	"${as_server[@]}" "$bin/pg_ctl" -D "$standby" -l "$standby/log" -w start >/dev/null || return 1
	"$bin/psql" -qX "$(at_server)" -c "ALTER SYSTEM SET synchronous_standby_names = '*'" \
		-c 'ALTER SYSTEM SET synchronous_commit = remote_apply' -c 'SELECT pg_reload_conf()' >/dev/null
	sleep 1
	diagnosed simple-update "$(at_server)" --load --clients 4
}

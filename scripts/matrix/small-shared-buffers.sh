about='16 MB of shared_buffers for 300 MB of data, read at random'
expects=shared-buffers-small
provoke() {
	local bin
	bin=$(newest_bin)
	start_server "$bin" 'shared_buffers = 16MB' 'effective_cache_size = 4GB' 'max_wal_size = 4GB' || return 1
	"$bin/pgbench" -h "$sockets" -U postgres -i -q -s 20 postgres >/dev/null 2>&1
	"$bin/pgbench" -h "$sockets" -U postgres -S -M prepared -c 2 -T 6 postgres >/dev/null 2>&1
	sleep 1
	collect "$(at_server)"
}

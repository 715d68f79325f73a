about='an archive_command slower than WAL generation'
expects=archiving-behind
provoke() {
	local bin
	bin=$(newest_bin)
	start_server "$bin" 'shared_buffers = 256MB' 'effective_cache_size = 4GB' 'effective_io_concurrency = 16' \
		'archive_mode = on' "archive_command = 'sleep 100'" || return 1
	for _ in 1 2 3 4 5 6 7; do
		"$bin/psql" -qXAt "$(at_server)" -c 'CREATE TABLE filled AS SELECT 1 AS i' -c 'DROP TABLE filled' \
			-c 'SELECT pg_switch_wal()' >/dev/null
	done
	collect "$(at_server)"
}

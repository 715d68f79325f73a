about='a limit of 100 writes a second on the device under the data'
expects=io-limit
needs() { must_be_root; }
undo() { stop_server; leave_group; }
provoke() {
	new_group blkio || new_group io || return 1
	limit_writes 100
	local bin
	bin=$(newest_bin)
	(enter_group && start_server "$bin" 'shared_buffers = 256MB' 'effective_cache_size = 4GB' &&
		echo "$data $sockets" >"$work/where")
	read -r data sockets <"$work/where"
	server_bin=$bin
	collect "$(at_server)"
}

about='a quota of a tenth of a CPU, and a load that reaches it'
expects='cpu-quota cpu-throttled'
needs() { must_be_root; }
undo() { stop_server; leave_group; }
provoke() {
	new_group cpu || return 1
	if [ $group_version = 2 ]; then
		echo '10000 100000' >"$group/cpu.max"
	else
		echo 100000 >"$group/cpu.cfs_period_us"
		echo 10000 >"$group/cpu.cfs_quota_us"
	fi
	local bin
	bin=$(newest_bin)
	(enter_group && start_server "$bin" 'shared_buffers = 256MB' 'effective_cache_size = 4GB' &&
		echo "$data $sockets" >"$work/where")
	read -r data sockets <"$work/where"
	server_bin=$bin
	"$bin/pgbench" -h "$sockets" -U postgres -i -q -s 2 postgres >/dev/null 2>&1
	"$bin/pgbench" -h "$sockets" -U postgres -S -c 4 -T 8 postgres >/dev/null 2>&1
	collect "$(at_server)"
}

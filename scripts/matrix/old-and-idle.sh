about='PostgreSQL 9.6 with 1,000 idle connections'
expects='snapshot-scalability idle-sessions lwlock-wait-list version-supported'
needs() { archived_bin 9.6 >/dev/null || { echo "PostgreSQL 9.6 is not available"; return 1; }; }
provoke() {
	start_server "$(archived_bin 9.6)" 'max_connections = 1100' 'shared_buffers = 256MB' \
		'effective_cache_size = 4GB' 'checkpoint_completion_target = 0.9' || return 1
	ulimit -n 4096
	echo '\sleep 60 s' >"$work/sleep.sql"
	"$(newest_bin)/pgbench" -h "$sockets" -U postgres -n -f "$work/sleep.sql" -c 1000 -j 1 -T 60 postgres >/dev/null 2>&1 &
	local load=$! n=0
	until [ $n -ge 1000 ]; do
		sleep 1
		n=$(ls "/proc/$(head -1 "$data/postmaster.pid")/task/"*/children >/dev/null && wc -w <"/proc/$(head -1 "$data/postmaster.pid")/task/$(head -1 "$data/postmaster.pid")/children")
		kill -0 $load 2>/dev/null || return 1
	done
	collect "$(at_server)"
	local ended=$?
	kill $load
	wait $load 2>/dev/null
	return $ended
}

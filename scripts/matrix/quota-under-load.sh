about='a quota of half a CPU for server and load together'
kind=diagnose
expects=cpu-quota
needs() { must_be_root; }
undo() { leave_group; }
provoke() {
	new_group cpu || return 1
	if [ $group_version = 2 ]; then
		echo '50000 100000' >"$group/cpu.max"
	else
		echo 100000 >"$group/cpu.cfs_period_us"
		echo 50000 >"$group/cpu.cfs_quota_us"
	fi
	(enter_group && diagnosed select-only --clients 4 --observe all)
}

#!/bin/busybox sh
# In the guest: records into a file, sample by sample, what the kernel says of every server's
# processes, and now and then PostgreSQL's own view of its memory; beside it, more often, the CPUs
# of pgassay's threads.
out=$1
count=0
(
	while :; do
		for pid in $(busybox pidof pgassay); do busybox grep -h Cpus_allowed_list /proc/$pid/task/*/status; done
		busybox usleep 200000
	done >"$out.threads" 2>/dev/null
) &
trap "kill $!; exit" TERM
while :; do
	count=$((count + 1))
	{
		echo "== $count"
		busybox grep -aH . $(busybox grep -lx postgres /proc/[0-9]*/comm | busybox sed 's,comm$,stat,')
		busybox grep -H Cpus_allowed_list /proc/[0-9]*/status
		busybox grep -HE 'dev/zero|/SYSV|anon_hugepage' /proc/[0-9]*/numa_maps
		busybox ls -l $(busybox grep -lx postgres /proc/[0-9]*/comm | busybox sed 's,comm$,cwd,')
		busybox grep -aH . $(busybox grep -lx postgres /proc/[0-9]*/comm | busybox sed 's,comm$,cmdline,') | busybox tr '\0' ' '
		echo
		if [ $((count % 8)) = 0 ]; then
			for data in $(busybox find /var/tmp /tmp -name postmaster.pid 2>/dev/null); do
				socket=$(busybox sed -n 5p "$data")
				[ -n "$socket" ] || continue
				psql -XAtq -h "$socket" -U postgres -d postgres -c "select '## ' || current_setting('data_directory') || ' ' || numa_node || ' ' || sum(size) from pg_shmem_allocations_numa group by numa_node"
			done
		fi
	} >>"$out" 2>/dev/null
	busybox usleep 300000
done

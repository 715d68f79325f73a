about='a well-configured server: huge pages reserved and used'
expects=
needs() { must_be_root; }
before=$(cat /proc/sys/vm/nr_hugepages)
undo() { echo "$before" >/proc/sys/vm/nr_hugepages; }
provoke() {
	echo 1 >/proc/sys/vm/compact_memory
	echo $((before + 700)) >/proc/sys/vm/nr_hugepages
	local free
	free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
	[ "$free" -ge 600 ] || { echo "only $free huge pages can be reserved on this machine" >&2; return 1; }
	collect temp --set shared_buffers=1GB --set huge_pages=on --set effective_cache_size=8GB
}

about='sixteen clients read 600 MB at random through 4 MB of shared_buffers'
kind=diagnose
expects='shared-buffers-small'
provoke() {
	# On many CPUs the same bottleneck shows in its locks, and has their name.
	diagnosed select-only --clients 16 --scale 50 --observe all --set shared_buffers=4MB |
		sed 's/^buffer-mapping-locks$/shared-buffers-small/'
}

about='fsync off, as in many published benchmarks'
expects='fsync-off full-page-writes-off'
provoke() { collect temp "${good[@]}" --set fsync=off --set full_page_writes=off; }

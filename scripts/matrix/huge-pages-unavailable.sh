about='1 GB of shared_buffers, huge_pages = try, none reserved'
expects=huge-pages
needs() { [ "$(cat /proc/sys/vm/nr_hugepages)" = 0 ] || { echo "huge pages are already reserved on this machine"; return 1; }; }
provoke() { collect temp --set shared_buffers=1GB --set huge_pages=try; }

about='commits of eight clients, each WAL flush delayed by 20 ms (commit_delay)'
kind=diagnose
expects=wal-flush
provoke() { diagnosed insert-queue --clients 8 --observe all --set commit_delay=20000 --set commit_siblings=1; }

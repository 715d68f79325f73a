about='commits of eight clients on a disk limited to 60 writes a second'
kind=diagnose
expects=wal-flush
needs() { must_be_root; }
undo() { leave_group; }
provoke() {
	new_group blkio || new_group io || return 1
	limit_writes 60
	(enter_group && diagnosed insert-queue --clients 8 --observe all)
}

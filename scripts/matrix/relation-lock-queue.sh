about='six clients lock a table exclusively in turn'
kind=diagnose
expects=relation-lock-queue
provoke() {
	cat >"$work/queue.sql" <<-'SCRIPT'
		-- @writes
		-- @without-pgbench-tables
		-- @setup CREATE TABLE queue_here (i int)
		BEGIN;
		LOCK TABLE queue_here IN ACCESS EXCLUSIVE MODE;
		SELECT pg_sleep(0.01);
		COMMIT;
	SCRIPT
	diagnosed "$work/queue.sql" --clients 6 --observe all
}

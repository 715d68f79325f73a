about='a prepared transaction that was never committed or rolled back'
expects=horizon-held
provoke() {
	local bin
	bin=$(newest_bin)
	start_server "$bin" 'shared_buffers = 256MB' 'effective_cache_size = 4GB' 'effective_io_concurrency = 16' \
		'max_prepared_transactions = 4' || return 1
	"$bin/psql" -qX "$(at_server)" -c 'CREATE TABLE paid (i int)' \
		-c "BEGIN; INSERT INTO paid VALUES (1); PREPARE TRANSACTION 'paid_1'"
	sleep 2
	collect "$(at_server)"
}

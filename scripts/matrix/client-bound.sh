about='one load thread that computes 3,000 expressions per transaction for 16 clients'
kind=diagnose
expects=client-bound
needs() {
	local pressure
	pressure=$(sed -n 's/^some avg10=\([0-9]*\).*/\1/p' /proc/pressure/cpu 2>/dev/null || echo 0)
	[ "${pressure:-0}" -lt 40 ] || { echo "CPUs busy with other work: CPU pressure was $pressure % over the last ten seconds"; return 1; }
}
provoke() {
	for i in $(seq 3000); do
		echo "\\set v$((i % 50)) random(1, 1000000) * 7 / 3"
	done >"$work/computes.sql"
	echo 'SELECT :v0;' >>"$work/computes.sql"
	diagnosed "$work/computes.sql" --clients 16 --threads 1 --observe all
}

about='PostgreSQL 13 with 1,000 idle connections and eight active clients'
kind=diagnose
expects=snapshot-scalability
old() { "$project/scripts/postgres-of-debian.sh" 13 2>/dev/null; }
needs() { [ -n "$(old)" ] || { echo "PostgreSQL 13 is not available"; return 1; }; }
provoke() {
	sed 's/@idle 500/@idle 1000/' "$project/crates/measurement/engine/workloads/idle-beside.sql" >"$work/idle.sql"
	diagnosed "$work/idle.sql" "$(dirname "$(old)")" --clients 8 --set max_connections=1200 --observe all
}

#!/bin/bash
# How much of a primitive's time is the primitive?  CPU samples of the backend
# while each runs, by function: the part of the server that the primitive
# measures, the measurement itself, and the rest.
#
#	bench/purity.sh [PG_CONFIG [SECONDS]]
#
# Without PG_CONFIG, it fetches a PostgreSQL 18 with symbols.  A server given by
# PG_CONFIG needs symbols too (`nm` shows PinBuffer), and perf must be allowed to
# sample.  Exits 1 if a primitive has less than 85 % of its samples in its own code
# or the measurement takes more than 10 %.
source "$(dirname "$0")/cluster.sh"
pg_config=${1:-$("$project/scripts/postgres-with-symbols.sh")}
seconds=${2:-4}

nm "$("$pg_config" --bindir)/postgres" 2>/dev/null | grep ' [tT] PinBuffer' >/dev/null ||
	{ echo "purity.sh: this server has no symbols; use one that is not stripped" >&2; exit 2; }
# Spinlocks and atomics are inlined into the extension: their samples are
# distinguished from the loop's by address.  The primitive's are those on an atomic
# instruction, on the one after it (where the interrupt is taken when it
# completes), and, for a compare-and-swap, on the read before it.
atomic_addresses() { # library -> one hexadecimal address per line
	objdump -d --no-show-raw-insn "$1" | awk '
		after { print $1; after = 0 }
		/\t(lock |xchg .*\()/ { print $1; after = 1; if (/cmpxchg/) { print last; print before } }
		{ before = last; last = $1 }' | tr -d ': '
}

start_cluster "$pg_config" "shared_buffers = 512MB" "max_wal_size = 8GB" "fsync = off" \
	"wal_buffers = 2000MB" "wal_writer_delay = 10ms"
make_table hits 32768
run_sql -c "SELECT pgassay.warm('hits')" -c "SELECT pgassay.warm('hits')" >/dev/null

# The functions of each primitive, as an extended regular expression for whole
# function names.  `[k]` marks samples in the kernel.
buffers='ReadBuffer.*|ReadRecentBuffer|ReleaseBuffer|UnlockReleaseBuffer|LockBuffer|StartReadBuffer.*|PinBuffer.*|UnpinBuffer.*|BufTable.*|BufferAlloc|BufferGetBlockNumber|BufferIs.*|BufferDescriptor.*|.*PrivateRefCount.*|ResourceOwner.*|ResOwner.*|hash_search_with_hash_value|hash_search|get_hash_value|tag_hash|hash_bytes.*|hash_any|LWLock.*|InitBufferTag|TrackNewBufferPin|LockBufHdr|UnlockBufHdr|finish_spin_delay|WaitReadBuffers|AsyncReadBuffers|smgropen|RelationGetSmgr|GetPrivateRefCount|memcmp.*|__memcmp.*|IOContextForStrategy'
declare -A own=(
	[buffer_hit]=$buffers
	[buffer_hot]=$buffers
	[buffer_recent]=$buffers
	[lwlock]='LWLock.*|s_lock|perform_spin_delay|PGSemaphore.*|proclist.*|__new_sem.*|sem_.*|__futex.*|do_futex.*'
	[spinlock]='inlined_atomic|s_lock|perform_spin_delay|finish_spin_delay|init_spin_delay|tas'
	[snapshot]='GetSnapshotData.*|GetSnapshot.*|LWLock.*|XidIn.*|GetMaxSnapshot.*|FullTransaction.*|FullXid.*|TransactionId.*|Transaction.*|RecoveryInProgress|GetCurrentCommandId|MaintainLatest.*|GetXLogInsertRecPtr|GetSnapshotCurrentTimestamp|pg_qsort|memcpy.*|__memcpy.*|__memmove.*|GlobalVis.*'
	[wal_insert]='LogLogicalMessage|XLog.*|CopyXLog.*|WAL.*|ReserveXLog.*|GetXLogBuffer|LWLock.*|AdvanceXLInsertBuffer|pg_comp_crc32c.*|__mem.*|mem.*|UpdateRedo.*|GetFullPage.*|RecoveryInProgress|s_lock|perform_spin_delay|StartCritical.*|pg_atomic.*|GetRedoRecPtr|GetTopTransactionIdIfAny|IsSubxact.*|IsSubTransaction.*|SubTransaction.*|MarkSubTransaction.*|.*issing_fsync.*|TransactionId.*|HasSub.*|issue_xlog_fsync|GetCurrentTransactionNestLevel|MarkCurrentTransactionIdLoggedIfAny|GetInstall.*'
	[atomics]='inlined_atomic'
	# A query uses all of the server: everything except the measurement is its own.
	[query_loop]='server'
	[plpgsql_loop]='server'
)
# Loop, random numbers, clock.
measurement='pgassay_.*|compete|visit_.*|walk_on|loop_.*|rng_.*|meter_.*|clock_.*|\[vdso\].*|clock_gettime.*|__vdso_clock_gettime|__clock_gettime.*|read_page|read_tsc|execute_once|drandom|setseed|pg_prng.*|float8_.*|dfloor|dtoi8|i8tod|pvclock.*|.*@plt|compat_.*'

declare -A call=(
	[buffer_hit]="buffer_hit(rel => 'hits')"
	[buffer_hot]="buffer_hit(rel => 'hits', pattern => 'hot')"
	[buffer_recent]="buffer_hit(rel => 'hits', pattern => 'hot', recent => true)"
	[lwlock]="lwlock(ARENA)"
	[spinlock]="spinlock(ARENA)"
	[snapshot]="snapshot(rebuild => true)"
	[wal_insert]="wal_insert()"
	[atomics]="atomics(ARENA)"
	[query_loop]="query_loop(query => 'SELECT abalance FROM accounts WHERE aid = \$1', types => '{int}', lows => '{1}', highs => '{100000}')"
	[plpgsql_loop]="plpgsql_loop(1, NULL, 0, 1, NULL, NULL, '{1}', '{100000}')"
)
run_sql -c 'CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))' \
	-c "INSERT INTO accounts SELECT g, 1, 0, '' FROM generate_series(1, 100000) g" \
	-c 'VACUUM (FREEZE, ANALYZE) accounts' \
	-c "SELECT pgassay.plpgsql_loop_create('SELECT abalance FROM accounts WHERE aid = \$1', '{int}')" >/dev/null
server_major=$(run_sql -c "SELECT current_setting('server_version_num')::int / 10000")
failed=0
printf '%-14s %9s %8s %12s %8s  %s\n' primitive samples own measurement other 'largest of other'
for primitive in buffer_hit buffer_hot buffer_recent lwlock spinlock snapshot wal_insert atomics query_loop plpgsql_loop; do
	if [ "$primitive" = buffer_recent ] && [ "$server_major" -lt 14 ]; then continue; fi
	window=$seconds
	[ "$primitive" != wal_insert ] || window=1
	# One session: creates the arena, prints its PID, runs calls of one second.
	{
		echo "SELECT pgassay.arena_create(1) AS arena \\gset"
		# Touch and write out all WAL buffers first, so that insertion finds
		# them free: writing WAL is not part of this primitive. They last a
		# little more than a second, so this one is sampled for a second only.
		if [ "$primitive" = wal_insert ]; then
			for _ in 1 2 3 4 5 6; do echo "SELECT operations FROM pgassay.wal_insert(count => 50000, bytes => 8192) \\g /dev/null"; done
			echo "SELECT operations FROM pgassay.wal_insert(count => 1, flush => true) \\g /dev/null"
		fi
		echo "SELECT pg_backend_pid();"
		for _ in $(seq $((seconds + 5))); do
			echo "SELECT operations FROM pgassay.${call[$primitive]/ARENA/:arena};"
		done
	} >"$work/calls.sql"
	rm -f "$work/calls.out"
	"$bin/psql" -XAtq -v ON_ERROR_STOP=1 -f "$work/calls.sql" >"$work/calls.out" &
	client=$!
	until [ -s "$work/calls.out" ]; do sleep 0.01; done
	pid=$(head -1 "$work/calls.out")
	perf record -q -e cpu-clock -F 1999 -p "$pid" -o "$work/perf.data" -- sleep "$window" >/dev/null 2>"$work/perf.err" ||
		{ cat "$work/perf.err" >&2; exit 2; }
	kill "$client" 2>/dev/null || true
	wait "$client" || true
	perf script -i "$work/perf.data" -F ip,sym,symoff,dso 2>/dev/null >"$work/samples"
	if [ -n "${PURITY_DETAIL:-}" ]; then
		awk '{sub(/\+0x.*/, "", $2); print $2, $NF}' "$work/samples" | sort | uniq -c | sort -rn | head -25
	fi
	# Functions of the library, then its atomic instructions, then the samples.
	{
		nm "$work/ext/pgassay.so" | awk '$2 ~ /[tT]/ { print "function", $3, $1 }'
		atomic_addresses "$work/ext/pgassay.so" | sed 's/^/atomic /'
		cat "$work/samples"
	} |
		awk -v own="^(${own[$primitive]})\$" -v measurement="^($measurement)\$" -v name="$primitive" '
			function number(text,   i, value) {
				value = 0
				text = tolower(text)
				for (i = 1; i <= length(text); i++)
					value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
				return value
			}
			$1 == "function" { start[$2] = number($3); next }
			$1 == "atomic" { atomic[number($2)] = 1; next }
			NF >= 2 {
				symbol = $2; dso = $NF; total++
				offset = 0
				if (symbol ~ /\+0x/) {
					offset = number(substr(symbol, index(symbol, "+0x") + 3))
					sub(/\+0x.*/, "", symbol)
				}
				if (dso ~ /vdso/) symbol = "[vdso]"
				if (dso ~ /pgassay\.so/ && (start[symbol] + offset) in atomic) symbol = "inlined_atomic"
				sub(/\.(constprop|isra|part|cold).*$/, "", symbol)
				if (own == "^(server)$" && symbol !~ measurement) o++
				else if (symbol ~ own) o++
				else if (symbol ~ measurement) m++
				else { other++; by[symbol " " dso]++ }
			}
			END {
				if (total == 0) { print "no samples" > "/dev/stderr"; exit 2 }
				largest = ""
				for (s in by) if (largest == "" || by[s] > by[largest]) largest = s
				printf "%-14s %9d %7.1f%% %11.1f%% %7.1f%%  %s\n", name, total, 100 * o / total,
					100 * m / total, 100 * other / total, largest == "" ? "" : largest " " by[largest]
				exit !(100 * o / total >= 85 && 100 * m / total <= 10)
			}' || failed=1
done
exit $failed

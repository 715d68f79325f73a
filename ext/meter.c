/*
 * meter.c
 *	  Start and stop of a measurement: time, CPU, and the session's own
 *	  counters of buffers and WAL.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include <sys/resource.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "storage/proc.h"
#include "utils/array.h"

/* Columns of the SQL type `outcome`, in order. */
enum
{
	OPERATIONS,
	ELAPSED_NS,
	CPU_NS,
	LATE_NS,
	CONTENDED,
	DELAYS,
	REUSED,
	BLOCKS_HIT,
	BLOCKS_READ,
	WAL_BYTES,
	VOLUNTARY_SWITCHES,
	INVOLUNTARY_SWITCHES,
	OVER_TIME,
	OUTCOME_COLUMNS
};

/*
 * CPU time of this process in nanoseconds.  A backend has one thread, and
 * getrusage counts in ticks on some kernels.
 */
static int64
cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (int64) used.tv_sec * NS_PER_SECOND + used.tv_nsec;
}

/* Show those that look on that this session measures, until then. */
static void
show_presence(const Call *call, int64 until_ns)
{
	Presence   *presence;

	if (call->view.arena == NULL)
		return;
	presence = &call->view.present[call->slot].presence;
	presence->wait_event_info = &MyProc->wait_event_info;
	pg_write_barrier();
	pg_atomic_write_u64(&presence->until_ns, (uint64) until_ns);
}

void
meter_start(Meter *meter, const Call *call)
{
	struct rusage usage;

	memset(meter, 0, sizeof(*meter));
	meter->count = call->count;
	meter->contended = -1;
	meter->delays = -1;
	meter->reused = -1;

	if (call->view.arena != NULL)
		meter->planned_ns = gate_pass(call->view.arena,
									  call->entered_ns + CALL_LIMIT_NS -
									  call->duration_ns);

	getrusage(RUSAGE_SELF, &usage);
	meter->voluntary = usage.ru_nvcsw;
	meter->involuntary = usage.ru_nivcsw;
	meter->buffers = pgBufferUsage;
	meter->wal = pgWalUsage;

	/*
	 * All end at the same instant too: a session that came late has less
	 * time, not the others less company.
	 */
	meter->cpu_ns = cpu_ns();
	meter->started_ns = clock_ns();
	if (call->view.arena == NULL)
		meter->planned_ns = meter->started_ns;
	meter->deadline_ns = meter->planned_ns + call->duration_ns;
	meter->batch_ns = meter->started_ns;
	meter->part_ns = call->duration_ns / PARTS + 1;
	meter->part_ends_ns = meter->planned_ns + meter->part_ns;
	show_presence(call, meter->deadline_ns);
}

/*
 * Operations done in each tenth of the time, from the counts at the ends of
 * all but the last.  A batch counts where it ended.
 */
static Datum
over_time(const Meter *meter)
{
	Datum		parts[PARTS];
	int64		before = 0;
	int			i;

	for (i = 0; i < PARTS; i++)
	{
		int64		by = i < meter->parts && i < PARTS - 1 ?
			meter->done_by[i] : meter->operations;

		parts[i] = Int64GetDatum(by - before);
		before = by;
	}
	return PointerGetDatum(construct_array(parts, PARTS, INT8OID, 8,
										   FLOAT8PASSBYVAL, 'd'));
}

Datum
meter_finish(Meter *meter, Call *call, FunctionCallInfo fcinfo)
{
	int64		ended_ns = clock_ns();
	int64		cpu_ended_ns = cpu_ns();
	struct rusage usage;
	TupleDesc	row;
	Datum		values[OUTCOME_COLUMNS];
	bool		nulls[OUTCOME_COLUMNS] = {false};

	getrusage(RUSAGE_SELF, &usage);
	show_presence(call, 0);
	arena_detach(&call->view);
	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE ||
		row->natts != OUTCOME_COLUMNS)
		elog(ERROR, "pgassay's SQL definitions do not belong to this library");

	values[OPERATIONS] = Int64GetDatum(meter->operations);
	values[ELAPSED_NS] = Int64GetDatum(ended_ns - meter->started_ns);
	values[CPU_NS] = Int64GetDatum(cpu_ended_ns - meter->cpu_ns);
	values[LATE_NS] = Int64GetDatum(meter->started_ns - meter->planned_ns);
	values[CONTENDED] = Int64GetDatum(meter->contended);
	nulls[CONTENDED] = meter->contended < 0;
	values[DELAYS] = Int64GetDatum(meter->delays);
	nulls[DELAYS] = meter->delays < 0;
	values[REUSED] = Int64GetDatum(meter->reused);
	nulls[REUSED] = meter->reused < 0;
	values[BLOCKS_HIT] = Int64GetDatum(pgBufferUsage.shared_blks_hit -
									   meter->buffers.shared_blks_hit);
	values[BLOCKS_READ] = Int64GetDatum(pgBufferUsage.shared_blks_read -
										meter->buffers.shared_blks_read);
	values[WAL_BYTES] = Int64GetDatum((int64) (pgWalUsage.wal_bytes -
											   meter->wal.wal_bytes));
	values[VOLUNTARY_SWITCHES] = Int64GetDatum(usage.ru_nvcsw - meter->voluntary);
	values[INVOLUNTARY_SWITCHES] = Int64GetDatum(usage.ru_nivcsw -
												 meter->involuntary);
	values[OVER_TIME] = over_time(meter);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls));
}

/*
 * snapshot.c
 *	  Take snapshots, as every query of a READ COMMITTED transaction does.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "storage/procarray.h"

PG_FUNCTION_INFO_V1(pgassay_snapshot);

/*
 * snapshot(…, rebuild boolean) returns outcome
 *
 * An operation is one snapshot taken.  From 14 on the server reuses the last
 * one while no transaction has completed: `reused` counts those.  `rebuild`
 * makes it forget the last one, so that each is built anew, which up to 13 is
 * always so.
 */
Datum
pgassay_snapshot(PG_FUNCTION_ARGS)
{
	/* Its arrays are allocated once for each process, as the server's are. */
	static SnapshotData snapshot = {SNAPSHOT_MVCC};
	Call		call = call_begin(fcinfo, false);
	bool		rebuild = !PG_ARGISNULL(COMMON_ARGS) &&
		PG_GETARG_BOOL(COMMON_ARGS);
	Meter		meter;
	int64		n;
	int64		i;

	meter_start(&meter, &call);
	if (PGASSAY_SNAPSHOTS_REUSED)
		meter.reused = 0;
	while ((n = meter_next(&meter)) > 0)
		for (i = 0; i < n; i++)
		{
			uint64		before;

			if (rebuild)
				compat_forget_snapshot(&snapshot);
			before = compat_completion_count(&snapshot);
			GetSnapshotData(&snapshot);
			if (PGASSAY_SNAPSHOTS_REUSED && before != 0 &&
				before == compat_completion_count(&snapshot))
				meter.reused++;
		}
	return meter_finish(&meter, &call, fcinfo);
}

/*
 * spinlock.c
 *	  Acquire and release one spinlock: the test-and-set that the server's
 *	  headers inline, and the server's own s_lock with its back-off.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

PG_FUNCTION_INFO_V1(pgassay_spinlock);

/* The server panics when a spinlock can't be had for a minute or so. */
#define HOLD_LIMIT_NS INT64CONST(1000)

/*
 * spinlock(…, hold_ns integer) returns outcome
 *
 * An operation is the lock acquired and released.  `contended` counts those
 * that found it taken and went to s_lock, `delays` the sleeps that they took
 * there.
 */
Datum
pgassay_spinlock(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, true);
	volatile slock_t *lock = call.view.spinlock;
	int32		hold_ns = PG_ARGISNULL(COMMON_ARGS) ? 0 :
		PG_GETARG_INT32(COMMON_ARGS);
	Meter		meter;
	int64		n;
	int64		i;

	if (hold_ns < 0 || hold_ns > HOLD_LIMIT_NS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold_ns of a spinlock must be between 0 and %lld, not %d",
						(long long) HOLD_LIMIT_NS, hold_ns)));

	meter_start(&meter, &call);
	meter.contended = 0;
	meter.delays = 0;
	while ((n = meter_next(&meter)) > 0)
		for (i = 0; i < n; i++)
		{
			/* What S_LOCK does, with a count of the way taken. */
			if (TAS(lock))
			{
				meter.contended++;
				meter.delays += s_lock(lock, __FILE__, __LINE__, __func__);
			}
			clock_spin(hold_ns);
			S_UNLOCK(lock);
		}
	return meter_finish(&meter, &call, fcinfo);
}

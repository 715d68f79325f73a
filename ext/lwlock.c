/*
 * lwlock.c
 *	  Acquire and release lightweight locks of an own tranche.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

PG_FUNCTION_INFO_V1(pgassay_lwlock);

#define HOLD_LIMIT_NS INT64CONST(1000000)

/*
 * A session that waits for a lightweight lock can't be cancelled.  It may have
 * to wait until all others had their turn, so what they hold together stays
 * below the time within which a cancel is served.
 */
#define WAIT_LIMIT_NS INT64CONST(10000000)

/* What each operation does with which locks. */
typedef struct Contest
{
	LWLockPadded *locks;
	uint32		nlocks;
	uint32		exclusive_percent;
	int64		hold_ns;
} Contest;

/*
 * Do n operations, and return how many had to wait.  The usual case, one lock
 * and one mode and no hold time, is apart: a lock that nobody else wants costs
 * so little that choosing among the cases would be a good part of it.
 */
static int64
compete(const Contest *contest, Rng *rng, int64 n)
{
	int64		waits = 0;
	uint32		exclusive = contest->exclusive_percent;
	int64		i;

	if (contest->nlocks == 1 && contest->hold_ns == 0 &&
		(exclusive == 0 || exclusive == 100))
	{
		LWLock	   *lock = &contest->locks[0].lock;
		LWLockMode	mode = exclusive == 0 ? LW_SHARED : LW_EXCLUSIVE;

		for (i = 0; i < n; i++)
		{
			waits += !LWLockAcquire(lock, mode);
			LWLockRelease(lock);
		}
		return waits;
	}
	for (i = 0; i < n; i++)
	{
		LWLock	   *lock = &contest->locks[rng_below(rng, contest->nlocks)].lock;
		LWLockMode	mode = rng_below(rng, 100) < exclusive ?
			LW_EXCLUSIVE : LW_SHARED;

		waits += !LWLockAcquire(lock, mode);
		clock_spin(contest->hold_ns);
		LWLockRelease(lock);
	}
	return waits;
}

/*
 * lwlock(…, locks integer, exclusive_percent integer, hold_ns integer)
 *	returns outcome
 *
 * An operation is one lock acquired and released: one of the first `locks` of
 * the arena, at random.  `contended` counts those that had to wait.
 */
Datum
pgassay_lwlock(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, true);
	Arena	   *arena = call.view.arena;
	int32		nlocks = PG_ARGISNULL(COMMON_ARGS) ? arena->nlocks :
		PG_GETARG_INT32(COMMON_ARGS);
	int32		exclusive = PG_ARGISNULL(COMMON_ARGS + 1) ? 100 :
		PG_GETARG_INT32(COMMON_ARGS + 1);
	int32		hold_ns = PG_ARGISNULL(COMMON_ARGS + 2) ? 0 :
		PG_GETARG_INT32(COMMON_ARGS + 2);
	Rng			rng = rng_for(call.seed, call.slot);
	Contest		contest;
	Meter		meter;
	int64		n;

	if (nlocks < 1 || nlocks > arena->nlocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("locks must be between 1 and the arena's %d, not %d",
						arena->nlocks, nlocks)));
	if (exclusive < 0 || exclusive > 100)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("exclusive_percent must be between 0 and 100, not %d",
						exclusive)));
	if (hold_ns < 0 || hold_ns > HOLD_LIMIT_NS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold_ns of a lightweight lock must be between 0 and %lld, not %d",
						(long long) HOLD_LIMIT_NS, hold_ns)));
	if ((int64) hold_ns * arena->sessions > WAIT_LIMIT_NS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%d sessions holding a lock for %d ns each would make one wait longer than %lld ms",
						arena->sessions, hold_ns,
						(long long) (WAIT_LIMIT_NS / 1000000)),
				 errhint("Hold it for a shorter time, or use fewer sessions.")));

	contest.locks = call.view.locks;
	contest.nlocks = nlocks;
	contest.exclusive_percent = exclusive;
	contest.hold_ns = hold_ns;

	meter_start(&meter, &call);
	meter.contended = 0;
	while ((n = meter_next(&meter)) > 0)
		meter.contended += compete(&contest, &rng, n);
	return meter_finish(&meter, &call, fcinfo);
}

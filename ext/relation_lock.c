/*
 * relation_lock.c
 *	  Lock relations for reading, as every query does with each table and index
 *	  that it uses.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "storage/lock.h"

PG_FUNCTION_INFO_V1(pgassay_relation_lock);

/* Below what a lock table of the default size has room for, sessions apart. */
#define RELATIONS_LIMIT 64

/*
 * Numbers that no relation of a database has that is not about to run out of
 * them.  A lock's tag is a name only: nothing is looked up by it here.
 */
#define FIRST_RELATION ((Oid) 4294900000U)

static void
lock_all(uint32 relations)
{
	uint32		i;

	for (i = 0; i < relations; i++)
	{
		LOCKTAG		tag;

		SET_LOCKTAG_RELATION(tag, MyDatabaseId, FIRST_RELATION + i);
		(void) LockAcquire(&tag, AccessShareLock, false, false);
	}
}

static void
unlock_all(uint32 relations)
{
	uint32		i;

	for (i = 0; i < relations; i++)
	{
		LOCKTAG		tag;

		SET_LOCKTAG_RELATION(tag, MyDatabaseId, FIRST_RELATION + i);
		(void) LockRelease(&tag, AccessShareLock, false);
	}
}

/*
 * relation_lock(…, relations integer) returns outcome
 *
 * An operation is one lock taken and given back.  `relations` of them are held
 * at once, the same by all sessions: up to 17 a session keeps the first 16 in
 * its own entry and puts the others into the shared lock table.  What is left
 * of a count that they do not divide is done with fewer.
 */
Datum
pgassay_relation_lock(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, false);
	int32		relations = PG_ARGISNULL(COMMON_ARGS) ? 1 :
		PG_GETARG_INT32(COMMON_ARGS);
	Meter		meter;
	int64		n;

	if (relations < 1 || relations > RELATIONS_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("relations must be between 1 and %d, not %d",
						RELATIONS_LIMIT, relations)));

	meter_start(&meter, &call);
	while ((n = meter_next(&meter)) > 0)
		while (n > 0)
		{
			uint32		together = (uint32) Min(n, (int64) relations);

			lock_all(together);
			unlock_all(together);
			n -= together;
		}
	return meter_finish(&meter, &call, fcinfo);
}

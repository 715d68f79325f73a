/*
 * onlook.c
 *	  What can be seen of a measurement from beside it: how many sessions are
 *	  in their loops, and what they wait for.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pgassay_arena_running);
PG_FUNCTION_INFO_V1(pgassay_waits);

/* Between two looks: a few hundred looks a second disturb nobody. */
#define LOOK_US 2000

/* More kinds of waits than one primitive can have; the rest is not told apart. */
#define KINDS_MAX 32

/* One kind of wait; 0 is none: running, or ready to run. */
typedef struct Kind
{
	uint32		event;
	int64		seen;
} Kind;

int
arena_running(const ArenaView *view, int64 now_ns)
{
	int			running = 0;
	int			i;

	for (i = 0; i < view->arena->sessions; i++)
		if ((int64) pg_atomic_read_u64(&view->present[i].presence.until_ns) > now_ns)
			running++;
	return running;
}

/*
 * arena_running(arena bigint) returns integer: sessions in their loops now.
 * One that ended by an error counts until its time would have been over.
 */
Datum
pgassay_arena_running(PG_FUNCTION_ARGS)
{
	ArenaView	view = arena_attach(PG_GETARG_INT64(0));
	int			running = arena_running(&view, clock_ns());

	arena_detach(&view);
	PG_RETURN_INT32(running);
}

static void
count_kind(Kind *kinds, int *nkinds, uint32 event)
{
	int			i;

	for (i = 0; i < *nkinds; i++)
		if (kinds[i].event == event)
			break;
	if (i == *nkinds)
	{
		if (*nkinds == KINDS_MAX)
			return;
		kinds[i].event = event;
		kinds[i].seen = 0;
		(*nkinds)++;
	}
	kinds[i].seen++;
}

/* One look at all sessions that are in their loops. */
static int
look(const ArenaView *view, Kind *kinds, int *nkinds)
{
	int64		now_ns = clock_ns();
	int			running = 0;
	int			i;

	for (i = 0; i < view->arena->sessions; i++)
	{
		Presence   *presence = &view->present[i].presence;

		if ((int64) pg_atomic_read_u64(&presence->until_ns) <= now_ns)
			continue;
		pg_read_barrier();
		count_kind(kinds, nkinds, *presence->wait_event_info);
		running++;
	}
	return running;
}

/* `LWLock:pgassay`, or NULL for no wait. */
static char *
kind_name(uint32 event)
{
	const char *type = pgstat_get_wait_event_type(event);
	const char *name = pgstat_get_wait_event(event);

	if (event == 0 || type == NULL || name == NULL)
		return NULL;
	return psprintf("%s:%s", type, name);
}

/*
 * waits(arena bigint, OUT looks, OUT events text[], OUT seen bigint[]): what
 * the sessions waited for, looked at every 2 ms from when the first begins to
 * when the last has ended.  The event '' is none.  Nothing is seen if nobody
 * begins within a call's time.
 */
Datum
pgassay_waits(PG_FUNCTION_ARGS)
{
	ArenaView	view = arena_attach(PG_GETARG_INT64(0));
	int64		give_up_ns = clock_ns() + CALL_LIMIT_NS;
	Kind		kinds[KINDS_MAX];
	int			nkinds = 0;
	int64		looks = 0;
	TupleDesc	row;
	Datum		values[3];
	bool		nulls[3] = {false};
	Datum		events[KINDS_MAX];
	Datum		seen[KINDS_MAX];
	int			i;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE ||
		row->natts != lengthof(values))
		elog(ERROR, "pgassay's SQL definitions do not belong to this library");
	while (clock_ns() < give_up_ns)
	{
		CHECK_FOR_INTERRUPTS();
		if (look(&view, kinds, &nkinds) > 0)
			looks++;
		else if (looks > 0)
			break;
		pg_usleep(LOOK_US);
	}

	for (i = 0; i < nkinds; i++)
	{
		char	   *name = kind_name(kinds[i].event);

		events[i] = CStringGetTextDatum(name != NULL ? name : "");
		seen[i] = Int64GetDatum(kinds[i].seen);
	}
	arena_detach(&view);
	values[0] = Int64GetDatum(looks);
	values[1] = PointerGetDatum(construct_array(events, nkinds, TEXTOID, -1,
												false, 'i'));
	values[2] = PointerGetDatum(construct_array(seen, nkinds, INT8OID, 8,
												FLOAT8PASSBYVAL, 'd'));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls));
}

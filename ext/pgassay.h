/*
 * pgassay.h
 *	  What the primitives have in common: who may run where, how long a call
 *	  lasts, and what it reports.
 *
 * Every function is called again and again by its client; a call lasts at
 * most a second, so that a client that was killed leaves nothing running.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#ifndef PGASSAY_H
#define PGASSAY_H

#include "postgres.h"

#include "executor/instrument.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "arena.h"
#include "clock.h"
#include "compat.h"

#define CALL_LIMIT_NS NS_PER_SECOND

/*
 * The arguments that all primitives begin with, in this order:
 *
 *	arena bigint		handle, or NULL to run alone
 *	slot integer		this session's number in the arena, from 0
 *	seed bigint			of the random numbers
 *	count bigint		operations, or NULL for as many as the time allows
 *	microseconds integer	time, at most a second; what ends first ends it
 */
#define COMMON_ARGS 5

typedef struct Call
{
	ArenaView	view;			/* view.arena is NULL if alone */
	int32		slot;
	int64		seed;
	int64		count;			/* PG_INT64_MAX: no limit */
	int64		duration_ns;
	int64		entered_ns;
} Call;

/* Read and check them; `needs_arena` if the primitive is about shared state. */
extern Call call_begin(FunctionCallInfo fcinfo, bool needs_arena);

/* Refuse to run on a standby or in a parallel worker. */
extern void refuse_unfit_server(void);

/*
 * A measurement under way.  Nothing in it costs anything while the loop runs;
 * the loop itself keeps `contended`, `delays` and `reused` where it can.
 */
#define PARTS 10				/* of a call's time, to see how steady it is */

typedef struct Meter
{
	int64		planned_ns;		/* the instant at which all begin */
	int64		started_ns;
	int64		deadline_ns;
	int64		cpu_ns;			/* of this process, at the start */
	int64		voluntary;		/* context switches, at the start */
	int64		involuntary;
	BufferUsage buffers;		/* counters of this session, at the start */
	WalUsage	wal;

	int64		count;			/* operations asked for */
	int64		operations;		/* done so far */
	int64		batch;			/* size of the last batch */
	int64		batch_ns;		/* its start */

	int64		part_ns;		/* length of a tenth of the time */
	int64		part_ends_ns;
	int			parts;			/* ended so far */
	int64		done_by[PARTS];	/* operations done when each ended */

	int64		contended;		/* -1: this primitive can't tell */
	int64		delays;
	int64		reused;
} Meter;

/* Pass the gate, if there is one, and start to measure. */
extern void meter_start(Meter *meter, const Call *call);

/* Stop, leave the arena, and return a row of the SQL type `outcome`. */
extern Datum meter_finish(Meter *meter, Call *call, FunctionCallInfo fcinfo);

/*
 * The pace of a loop: how many operations to do before asking again, 0 when
 * it is over.  Interrupts are served here.  Batches grow until one lasts a
 * quarter of a millisecond, so the clock costs next to nothing and a cancel
 * is served far sooner than after 10 ms.
 */
#define BATCH_NS INT64CONST(250000)
#define BATCH_MAX 65536

static inline int64
meter_next(Meter *meter)
{
	int64		now = clock_ns();
	int64		left;

	CHECK_FOR_INTERRUPTS();
	meter->operations += meter->batch;
	while (now >= meter->part_ends_ns && meter->parts < PARTS)
	{
		meter->done_by[meter->parts++] = meter->operations;
		meter->part_ends_ns += meter->part_ns;
	}
	left = meter->count - meter->operations;
	if (left <= 0 || now >= meter->deadline_ns)
	{
		meter->batch = 0;
		return 0;
	}
	if (meter->batch == 0)
		meter->batch = 1;
	else if (now - meter->batch_ns < BATCH_NS / 2 && meter->batch < BATCH_MAX)
		meter->batch *= 2;
	else if (now - meter->batch_ns > BATCH_NS * 2 && meter->batch > 1)
		meter->batch /= 2;
	if (meter->batch > left)
		meter->batch = left;
	meter->batch_ns = now;
	return meter->batch;
}

#endif							/* PGASSAY_H */

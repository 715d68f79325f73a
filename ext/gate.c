/*
 * gate.c
 *	  All sessions begin at the same instant, agreed upon inside the server.
 *
 * The server's own Barrier has no time limit: one session that failed to come
 * would leave the others waiting for good.  This one lets a session leave, by
 * time-out, cancel or termination, and says how many were missing.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "storage/ipc.h"

/*
 * How far ahead the last to arrive sets the start: time for the others to be
 * woken, one after the other.
 */
#define LEAD_NS(sessions) (INT64CONST(50000) + INT64CONST(10000) * (sessions))

/* Below this much, waiting is by spinning: the kernel's timers slack by 50 us. */
#define SPIN_NS INT64CONST(100000)

typedef struct Waiting
{
	Gate	   *gate;
	uint64		round;
} Waiting;

/*
 * Step back from the gate, unless it opened meanwhile.  Called for errors and
 * at the end of the process alike.
 */
static void
gate_leave(int code, Datum arg)
{
	Waiting    *waiting = (Waiting *) DatumGetPointer(arg);

	(void) code;
	ConditionVariableCancelSleep();
	SpinLockAcquire(&waiting->gate->mutex);
	if (waiting->gate->round == waiting->round)
		waiting->gate->arrived--;
	SpinLockRelease(&waiting->gate->mutex);
}

/* Has the round that we waited for begun?  And how many wait with us? */
static bool
gate_is_open(const Waiting *waiting, int *arrived, int64 *release_ns)
{
	bool		open;

	SpinLockAcquire(&waiting->gate->mutex);
	open = waiting->gate->round != waiting->round;
	*arrived = waiting->gate->arrived;
	*release_ns = waiting->gate->release_ns;
	SpinLockRelease(&waiting->gate->mutex);
	return open;
}

/* Sleep until the gate is open; an error if that is too late. */
static int64
gate_wait(Waiting *waiting, int sessions, int64 give_up_ns)
{
	int64		release_ns;
	int			arrived;

	ConditionVariablePrepareToSleep(&waiting->gate->opened);
	while (!gate_is_open(waiting, &arrived, &release_ns))
	{
		int64		left_ns = give_up_ns - clock_ns();

		if (left_ns <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("only %d of %d sessions came to the gate in time",
							arrived, sessions),
					 errhint("The others failed or could not connect; see their errors.")));
		ConditionVariableTimedSleep(&waiting->gate->opened,
									(long) (left_ns / 1000000 + 1),
									PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return release_ns;
}

int64
gate_pass(Arena *arena, int64 give_up_ns)
{
	Gate	   *gate = &arena->gate;
	Waiting		waiting;
	int64		release_ns = 0;
	bool		last;

	waiting.gate = gate;
	SpinLockAcquire(&gate->mutex);
	waiting.round = gate->round;
	last = ++gate->arrived == arena->sessions;
	if (last)
	{
		release_ns = clock_ns() + LEAD_NS(arena->sessions);
		gate->arrived = 0;
		gate->round++;
		gate->release_ns = release_ns;
	}
	SpinLockRelease(&gate->mutex);

	if (last)
		ConditionVariableBroadcast(&gate->opened);
	else
	{
		PG_ENSURE_ERROR_CLEANUP(gate_leave, PointerGetDatum(&waiting));
		{
			release_ns = gate_wait(&waiting, arena->sessions, give_up_ns);
		}
		PG_END_ENSURE_ERROR_CLEANUP(gate_leave, PointerGetDatum(&waiting));
	}

	for (;;)
	{
		int64		left_ns = release_ns - clock_ns();

		if (left_ns <= 0)
			return release_ns;
		if (left_ns > SPIN_NS)
			pg_usleep((long) ((left_ns - SPIN_NS) / NS_PER_US));
	}
}

/*
 * call.c
 *	  The arguments that all primitives share, and who may call where.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/parallel.h"
#include "access/xlog.h"

PG_MODULE_MAGIC;

/* With an arena, what a call needs besides its loop: waiting at the gate. */
#define GATE_SHARE_NS (CALL_LIMIT_NS / 10)

/*
 * A primitive takes locks and writes WAL like a user's query: it has no
 * business on a standby, nor in a worker of somebody's parallel plan.
 */
void
refuse_unfit_server(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pgassay does not run on a standby server"),
				 errhint("Measure a primary server that pgassay launched.")));
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("pgassay does not run in a parallel worker")));
}

Call
call_begin(FunctionCallInfo fcinfo, bool needs_arena)
{
	Call		call;
	int64		limit_ns;

	refuse_unfit_server();
	memset(&call, 0, sizeof(call));
	call.entered_ns = clock_ns();

	if (!PG_ARGISNULL(0))
		call.view = arena_attach(PG_GETARG_INT64(0));
	else if (needs_arena)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("this primitive needs an arena"),
				 errhint("Make one by arena_create, and keep that session connected.")));

	call.slot = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT32(1);
	if (call.slot < 0 ||
		(call.view.arena != NULL && call.slot >= call.view.arena->sessions))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no slot %d in an arena of %d sessions",
						call.slot,
						call.view.arena != NULL ? call.view.arena->sessions : 1)));

	call.seed = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2);

	call.count = PG_ARGISNULL(3) ? PG_INT64_MAX : PG_GETARG_INT64(3);
	if (call.count < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be at least 1, not %lld",
						(long long) call.count)));

	limit_ns = CALL_LIMIT_NS - (call.view.arena != NULL ? GATE_SHARE_NS : 0);
	call.duration_ns = limit_ns;
	if (!PG_ARGISNULL(4))
	{
		int32		microseconds = PG_GETARG_INT32(4);

		if (microseconds < 1 || microseconds * NS_PER_US > limit_ns)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("microseconds must be between 1 and %lld, not %d",
							(long long) (limit_ns / NS_PER_US), microseconds),
					 errhint("Call the function repeatedly to measure for longer.")));
		call.duration_ns = microseconds * NS_PER_US;
	}
	return call;
}

/*
 * query_loop.c
 *	  A prepared statement executed again and again inside the server, with no
 *	  client between; and the frame of the same loop in PL/pgSQL.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pgassay_query_loop);
PG_FUNCTION_INFO_V1(pgassay_loop_begin);
PG_FUNCTION_INFO_V1(pgassay_loop_next);
PG_FUNCTION_INFO_V1(pgassay_loop_end);

#define MAX_PARAMETERS 16

/* The statement's parameters: each drawn uniformly, both ends included. */
typedef struct Parameters
{
	int			n;
	Oid			types[MAX_PARAMETERS];
	int64		lows[MAX_PARAMETERS];
	int64		highs[MAX_PARAMETERS];
} Parameters;

/* The elements of a one-dimensional array argument without NULLs. */
static int
array_argument(FunctionCallInfo fcinfo, int arg, Oid type, Datum **elements)
{
	ArrayType  *array;
	int			n;

	*elements = NULL;
	if (PG_ARGISNULL(arg))
		return 0;
	array = PG_GETARG_ARRAYTYPE_P(arg);
	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("types, lows and highs must be lists without NULL")));
	if (type == INT8OID)
		deconstruct_array(array, type, 8, FLOAT8PASSBYVAL, 'd', elements, NULL, &n);
	else
		deconstruct_array(array, type, 4, true, 'i', elements, NULL, &n);
	return n;
}

static Parameters
parameters_from(FunctionCallInfo fcinfo, int types_arg)
{
	Parameters	parameters;
	Datum	   *types;
	Datum	   *lows;
	Datum	   *highs;
	int			i;

	parameters.n = array_argument(fcinfo, types_arg, REGTYPEOID, &types);
	if (array_argument(fcinfo, types_arg + 1, INT8OID, &lows) != parameters.n ||
		array_argument(fcinfo, types_arg + 2, INT8OID, &highs) != parameters.n)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("types, lows and highs must be of one length")));
	if (parameters.n > MAX_PARAMETERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a statement takes at most %d parameters, not %d",
						MAX_PARAMETERS, parameters.n)));
	for (i = 0; i < parameters.n; i++)
	{
		int64		low = DatumGetInt64(lows[i]);
		int64		high = DatumGetInt64(highs[i]);

		parameters.types[i] = DatumGetObjectId(types[i]);
		parameters.lows[i] = low;
		parameters.highs[i] = high;
		if (parameters.types[i] != INT4OID && parameters.types[i] != INT8OID)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("parameter $%d must be integer or bigint", i + 1)));
		if (low > high ||
			(parameters.types[i] == INT4OID &&
			 (low < PG_INT32_MIN || high > PG_INT32_MAX)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("parameter $%d has no range from %lld to %lld",
							i + 1, (long long) low, (long long) high)));
	}
	return parameters;
}

/* One execution; the result is fetched and thrown away. */
static void
execute_once(SPIPlanPtr plan, const Parameters *parameters, Rng *rng)
{
	Datum		values[MAX_PARAMETERS] = {0};
	int			rc;
	int			i;

	for (i = 0; i < parameters->n; i++)
	{
		int64		value = rng_between(rng, parameters->lows[i],
										parameters->highs[i]);

		values[i] = parameters->types[i] == INT4OID ?
			Int32GetDatum((int32) value) : Int64GetDatum(value);
	}

	/* Not read-only: that would reuse the caller's snapshot. */
	rc = SPI_execute_plan(plan, values, NULL, false, 0);
	if (rc < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the statement can't run inside a function: %s",
						SPI_result_code_string(rc))));
	SPI_freetuptable(SPI_tuptable);
}

/*
 * query_loop(…, query text, types regtype[], lows bigint[], highs bigint[])
 *	returns outcome
 *
 * An operation is one execution, with a fresh snapshot, as a query sent by a
 * client has.
 */
Datum
pgassay_query_loop(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, false);
	Parameters	parameters;
	Rng			rng = rng_for(call.seed, call.slot);
	SPIPlanPtr	plan;
	Meter		meter;
	int64		n;
	int64		i;

	if (PG_ARGISNULL(COMMON_ARGS))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("query_loop needs a query")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("query_loop needs a READ COMMITTED transaction"),
				 errhint("Others take one snapshot for all queries.")));
	parameters = parameters_from(fcinfo, COMMON_ARGS + 1);

	SPI_connect();
	plan = SPI_prepare(text_to_cstring(PG_GETARG_TEXT_PP(COMMON_ARGS)),
					   parameters.n, parameters.types);
	if (plan == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the statement can't be prepared: %s",
						SPI_result_code_string(SPI_result))));
	execute_once(plan, &parameters, &rng);	/* what is planned once */

	meter_start(&meter, &call);
	while ((n = meter_next(&meter)) > 0)
		for (i = 0; i < n; i++)
		{
			/* A query may last long: serve interrupts and look at the clock. */
			CHECK_FOR_INTERRUPTS();
			if (clock_ns() >= meter.deadline_ns)
			{
				meter.batch = i;
				break;
			}
			execute_once(plan, &parameters, &rng);
		}
	SPI_finish();
	return meter_finish(&meter, &call, fcinfo);
}

/*
 * The frame of a loop written in another language, one at a time for each
 * session:
 *
 *	loop_begin(arena, slot, seed, count, microseconds) returns void
 *	loop_next() returns bigint: iterations to do before asking again, or 0
 *	loop_end() returns outcome
 */
static Meter frame;
static bool frame_open = false;

Datum
pgassay_loop_begin(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, false);

	frame_open = false;
	meter_start(&frame, &call);
	arena_detach(&call.view);	/* it was for the gate only */
	frame_open = true;
	PG_RETURN_VOID();
}

static void
require_frame(void)
{
	if (!frame_open)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no loop has begun in this session"),
				 errhint("Call loop_begin first.")));
}

Datum
pgassay_loop_next(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	require_frame();
	PG_RETURN_INT64(meter_next(&frame));
}

Datum
pgassay_loop_end(PG_FUNCTION_ARGS)
{
	Call		call;

	require_frame();
	frame_open = false;
	memset(&call, 0, sizeof(call));
	return meter_finish(&frame, &call, fcinfo);
}

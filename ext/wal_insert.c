/*
 * wal_insert.c
 *	  Small records through the WAL insertion locks, with or without flush.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/xlog.h"

PG_FUNCTION_INFO_V1(pgassay_wal_insert);

#define SIZE_LIMIT 8192

/*
 * wal_insert(…, bytes integer, flush boolean) returns outcome
 *
 * An operation is one logical message of `bytes` bytes inserted, and flushed
 * if asked for; nothing replays or decodes it unless somebody subscribes to
 * the prefix.
 */
Datum
pgassay_wal_insert(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, false);
	int32		bytes = PG_ARGISNULL(COMMON_ARGS) ? 64 :
		PG_GETARG_INT32(COMMON_ARGS);
	bool		flush = !PG_ARGISNULL(COMMON_ARGS + 1) &&
		PG_GETARG_BOOL(COMMON_ARGS + 1);
	static char message[SIZE_LIMIT];
	Meter		meter;
	int64		n;
	int64		i;

	if (bytes < 1 || bytes > SIZE_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bytes of a WAL record must be between 1 and %d, not %d",
						SIZE_LIMIT, bytes)));

	meter_start(&meter, &call);
	while ((n = meter_next(&meter)) > 0)
		for (i = 0; i < n; i++)
		{
			XLogRecPtr	end = compat_log_message("pgassay", message, bytes);

			if (flush)
				XLogFlush(end);
		}
	return meter_finish(&meter, &call, fcinfo);
}

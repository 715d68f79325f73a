/*
 * atomics.c
 *	  The server's own inlined compare-and-swap and fetch-and-add, on a word
 *	  that all sessions share or on words of their own.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(pgassay_atomics);

/*
 * Where a session's word lies: `shared` is one for all, `padded` one each on
 * its own cache line, `packed` one each in adjoining bytes (false sharing).
 */
static Word *
choose_word(const Call *call, const char *placement)
{
	if (strcmp(placement, "shared") == 0)
		return &call->view.words[call->view.arena->sessions].word;
	if (strcmp(placement, "padded") == 0)
		return &call->view.words[call->slot].word;
	if (strcmp(placement, "packed") == 0)
		return &call->view.packed[call->slot];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no placement \"%s\"", placement),
			 errhint("Placements are shared, padded and packed.")));
	return NULL;				/* not reached */
}

/*
 * Compare-and-swap as the server uses it on a buffer's state: read, change,
 * swap, and again if somebody was faster.  Returns the failed attempts.
 */
static inline int64
swap_narrow(pg_atomic_uint32 *word)
{
	int64		failures = 0;
	uint32		seen = pg_atomic_read_u32(word);

	while (!pg_atomic_compare_exchange_u32(word, &seen, seen + 1))
		failures++;
	return failures;
}

static inline int64
swap_wide(pg_atomic_uint64 *word)
{
	int64		failures = 0;
	uint64		seen = pg_atomic_read_u64(word);

	while (!pg_atomic_compare_exchange_u64(word, &seen, seen + 1))
		failures++;
	return failures;
}

static inline int64
add_narrow(pg_atomic_uint32 *word)
{
	pg_atomic_fetch_add_u32(word, 1);
	return 0;
}

static inline int64
add_wide(pg_atomic_uint64 *word)
{
	pg_atomic_fetch_add_u64(word, 1);
	return 0;
}

/*
 * A loop over n operations, four to a turn: an atomic on a word of one's own
 * takes so few cycles that counting each would be a tenth of them.
 */
#define DEFINE_LOOP(name, once, type) \
static int64 \
name(type *word, int64 n) \
{ \
	int64		failures = 0; \
	int64		turns; \
\
	for (turns = n / 4; turns > 0; turns--) \
	{ \
		failures += once(word); \
		failures += once(word); \
		failures += once(word); \
		failures += once(word); \
	} \
	for (turns = n % 4; turns > 0; turns--) \
		failures += once(word); \
	return failures; \
}

DEFINE_LOOP(loop_swap_narrow, swap_narrow, pg_atomic_uint32)
DEFINE_LOOP(loop_swap_wide, swap_wide, pg_atomic_uint64)
DEFINE_LOOP(loop_add_narrow, add_narrow, pg_atomic_uint32)
DEFINE_LOOP(loop_add_wide, add_wide, pg_atomic_uint64)

/*
 * atomics(…, operation text, placement text) returns outcome
 *
 * An operation is one word changed.  `contended` counts the attempts to swap
 * that failed; an addition can't fail.
 */
Datum
pgassay_atomics(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, true);
	char	   *operation = PG_ARGISNULL(COMMON_ARGS) ? pstrdup("swap32") :
		text_to_cstring(PG_GETARG_TEXT_PP(COMMON_ARGS));
	char	   *placement = PG_ARGISNULL(COMMON_ARGS + 1) ? pstrdup("shared") :
		text_to_cstring(PG_GETARG_TEXT_PP(COMMON_ARGS + 1));
	Word	   *word = choose_word(&call, placement);
	bool		wide;
	bool		add;
	Meter		meter;
	int64		failures = 0;
	int64		n;

	if (strcmp(operation, "swap32") != 0 && strcmp(operation, "swap64") != 0 &&
		strcmp(operation, "add32") != 0 && strcmp(operation, "add64") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no atomic operation \"%s\"", operation),
				 errhint("Operations are swap32, swap64, add32 and add64.")));
	wide = strstr(operation, "64") != NULL;
	add = strncmp(operation, "add", 3) == 0;

	meter_start(&meter, &call);
	while ((n = meter_next(&meter)) > 0)
	{
		if (add)
			(void) (wide ? loop_add_wide(&word->wide, n) :
					loop_add_narrow(&word->narrow, n));
		else
			failures += wide ? loop_swap_wide(&word->wide, n) :
				loop_swap_narrow(&word->narrow, n);
	}
	if (!add)
		meter.contended = failures;
	return meter_finish(&meter, &call, fcinfo);
}

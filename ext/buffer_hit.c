/*
 * buffer_hit.c
 *	  Find, pin and unpin blocks of a relation, and nothing else: the price of
 *	  a block that is in shared buffers already.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(pgassay_buffer_hit);
PG_FUNCTION_INFO_V1(pgassay_warm);
PG_FUNCTION_INFO_V1(pgassay_pins);

/* What is done with each block, and in which order they come. */
typedef struct Visit
{
	Relation	rel;
	BlockNumber first;			/* of the blocks that this session visits */
	BlockNumber nblocks;		/* their number */
	bool		sequential;		/* else uniformly at random */
	bool		lock;			/* take the content lock, shared */
	bool		read;			/* read the whole page */
	Buffer	   *recent;			/* buffer numbers, or NULL to look up */
} Visit;

/*
 * Open a relation whose blocks live in shared buffers, and which the user may
 * read.  The lock keeps it from being dropped or truncated during the call.
 */
static Relation
open_relation(Oid relid, BlockNumber *nblocks)
{
	Relation	rel;
	AclResult	allowed;

	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("there is no relation with OID %u", relid),
				 errhint("It may have been dropped since the last call.")));
	if (rel->rd_rel->relkind != RELKIND_RELATION &&
		rel->rd_rel->relkind != RELKIND_MATVIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view",
						RelationGetRelationName(rel)),
				 errhint("Indexes, views, foreign and partitioned tables can't be measured; name a table with blocks of its own.")));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a temporary table",
						RelationGetRelationName(rel)),
				 errhint("Its blocks are in local buffers, which need no pin protocol; name a permanent table.")));
	allowed = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_TABLE, RelationGetRelationName(rel));

	*nblocks = RelationGetNumberOfBlocks(rel);
	if (*nblocks == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" has no blocks", RelationGetRelationName(rel)),
				 errhint("Fill it first.")));
	return rel;
}

/*
 * Which blocks this session visits, and in which order:
 *
 *	hot			the first `blocks` of the relation (1 if not said), at random
 *	uniform		all, at random
 *	sequential	all, one after the other, each session from a place of its own
 *	partition	this session's own share of all, at random
 */
static void
choose_blocks(Visit *visit, const Call *call, const char *pattern,
			  bool blocks_given, int64 blocks, BlockNumber total)
{
	int			sessions = call->view.arena ? call->view.arena->sessions : 1;

	if (blocks_given && (blocks < 1 || blocks > total))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("blocks must be between 1 and %u, the size of \"%s\", not %lld",
						total, RelationGetRelationName(visit->rel),
						(long long) blocks)));

	visit->first = 0;
	visit->nblocks = blocks_given ? (BlockNumber) blocks : total;
	visit->sequential = false;
	if (strcmp(pattern, "hot") == 0)
		visit->nblocks = blocks_given ? (BlockNumber) blocks : 1;
	else if (strcmp(pattern, "sequential") == 0)
		visit->sequential = true;
	else if (strcmp(pattern, "partition") == 0)
	{
		BlockNumber share = visit->nblocks / sessions;

		if (share == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%u blocks can't be divided among %d sessions",
							visit->nblocks, sessions)));
		visit->first = share * call->slot;
		visit->nblocks = share;
	}
	else if (strcmp(pattern, "uniform") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no pattern \"%s\"", pattern),
				 errhint("Patterns are hot, uniform, sequential and partition.")));
}

/*
 * For the bare pin: the buffer numbers of all blocks to visit, found before
 * the time starts.
 */
static Buffer *
find_buffers(const Visit *visit, int64 give_up_ns)
{
	Buffer	   *found;
	BlockNumber i;

	if (!PGASSAY_HAS_RECENT_BUFFER)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a pin without lookup needs PostgreSQL 14 or later")));
	found = MemoryContextAllocHuge(CurrentMemoryContext,
								   sizeof(Buffer) * (Size) visit->nblocks);
	for (i = 0; i < visit->nblocks; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (clock_ns() > give_up_ns)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("finding the buffers of %u blocks takes longer than a call may",
							visit->nblocks),
					 errhint("Name fewer blocks, or warm the relation first.")));
		found[i] = ReadBuffer(visit->rel, visit->first + i);
		ReleaseBuffer(found[i]);
	}
	return found;
}

/* Touch every word of a page; the sum keeps the compiler from leaving it out. */
static inline uint64
read_page(Buffer buffer)
{
	const uint64 *words = (const uint64 *) BufferGetPage(buffer);
	uint64		sum = 0;
	int			i;

	for (i = 0; i < (int) (BLCKSZ / sizeof(uint64)); i++)
		sum += words[i];
	return sum;
}

/* One block pinned through the mapping table, and unpinned. */
static inline void
visit_block(const Visit *visit, BlockNumber offset, volatile uint64 *sink)
{
	Buffer		buffer = ReadBuffer(visit->rel, visit->first + offset);

	if (visit->lock)
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (visit->read)
		*sink += read_page(buffer);
	if (visit->lock)
		UnlockReleaseBuffer(buffer);
	else
		ReleaseBuffer(buffer);
}

/*
 * One block pinned by its known buffer number; if it is elsewhere now, by
 * lookup.  Returns whether the number was still good.
 */
static inline bool
visit_recent(const Visit *visit, BlockNumber offset, volatile uint64 *sink)
{
	Buffer		buffer = visit->recent[offset];

	if (!compat_pin_recent(visit->rel, visit->first + offset, buffer))
	{
		buffer = ReadBuffer(visit->rel, visit->first + offset);
		visit->recent[offset] = buffer;
		ReleaseBuffer(buffer);
		return false;
	}
	if (visit->lock)
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (visit->read)
		*sink += read_page(buffer);
	if (visit->lock)
		UnlockReleaseBuffer(buffer);
	else
		ReleaseBuffer(buffer);
	return true;
}

/* The blocks of a session, in its order. */
typedef struct Walk
{
	Rng			rng;
	BlockNumber nblocks;
	bool		sequential;
	BlockNumber next;
} Walk;

static inline BlockNumber
walk_on(Walk *walk)
{
	if (walk->nblocks == 1)
		return 0;				/* no random number for one hot block */
	if (!walk->sequential)
		return rng_below(&walk->rng, walk->nblocks);
	walk->next = walk->next + 1 == walk->nblocks ? 0 : walk->next + 1;
	return walk->next;
}

/* Visit n blocks; return how many needed no lookup. */
static int64
visit_blocks(const Visit *visit, Walk *walk_state, int64 n, volatile uint64 *sink)
{
	Walk		walk = *walk_state; /* in registers while we loop */
	int64		reused = 0;
	int64		i;

	if (visit->recent != NULL)
		for (i = 0; i < n; i++)
			reused += visit_recent(visit, walk_on(&walk), sink);
	else
		for (i = 0; i < n; i++)
			visit_block(visit, walk_on(&walk), sink);
	*walk_state = walk;
	return reused;
}

/*
 * buffer_hit(…, rel regclass, pattern text, blocks bigint, recent boolean,
 *			  content_lock boolean, read_page boolean) returns outcome
 *
 * An operation is one block found, pinned and unpinned.  `reused` counts the
 * pins that needed no lookup.
 */
Datum
pgassay_buffer_hit(PG_FUNCTION_ARGS)
{
	Call		call = call_begin(fcinfo, false);
	Visit		visit;
	Meter		meter;
	Walk		walk;
	BlockNumber total;
	volatile uint64 sink = 0;
	int64		reused = 0;
	char	   *pattern;
	int64		n;

	if (PG_ARGISNULL(COMMON_ARGS))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("buffer_hit needs a relation")));
	visit.rel = open_relation(PG_GETARG_OID(COMMON_ARGS), &total);
	pattern = PG_ARGISNULL(COMMON_ARGS + 1) ? pstrdup("uniform") :
		text_to_cstring(PG_GETARG_TEXT_PP(COMMON_ARGS + 1));
	choose_blocks(&visit, &call, pattern, !PG_ARGISNULL(COMMON_ARGS + 2),
				  PG_ARGISNULL(COMMON_ARGS + 2) ? 0 : PG_GETARG_INT64(COMMON_ARGS + 2),
				  total);
	visit.recent = NULL;
	if (!PG_ARGISNULL(COMMON_ARGS + 3) && PG_GETARG_BOOL(COMMON_ARGS + 3))
		visit.recent = find_buffers(&visit, call.entered_ns + CALL_LIMIT_NS);
	visit.lock = !PG_ARGISNULL(COMMON_ARGS + 4) && PG_GETARG_BOOL(COMMON_ARGS + 4);
	visit.read = !PG_ARGISNULL(COMMON_ARGS + 5) && PG_GETARG_BOOL(COMMON_ARGS + 5);
	walk.rng = rng_for(call.seed, call.slot);
	walk.nblocks = visit.nblocks;
	walk.sequential = visit.sequential;
	walk.next = rng_below(&walk.rng, visit.nblocks);

	meter_start(&meter, &call);
	while ((n = meter_next(&meter)) > 0)
		reused += visit_blocks(&visit, &walk, n, &sink);
	if (visit.recent != NULL)
		meter.reused = reused;
	relation_close(visit.rel, AccessShareLock);
	return meter_finish(&meter, &call, fcinfo);
}

/*
 * warm(rel regclass, first bigint) returns (next_block, blocks_hit,
 * blocks_read): bring blocks into shared buffers, from `first` on, for at most
 * half a second.  next_block is NULL at the end of the relation.
 */
Datum
pgassay_warm(PG_FUNCTION_ARGS)
{
	int64		first = PG_GETARG_INT64(1);
	int64		deadline_ns = clock_ns() + CALL_LIMIT_NS / 2;
	int64		hit = pgBufferUsage.shared_blks_hit;
	int64		read = pgBufferUsage.shared_blks_read;
	Relation	rel;
	BlockNumber total;
	BlockNumber block;
	TupleDesc	row;
	Datum		values[3];
	bool		nulls[3] = {false};

	refuse_unfit_server();
	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE ||
		row->natts != lengthof(values))
		elog(ERROR, "pgassay's SQL definitions do not belong to this library");
	rel = open_relation(PG_GETARG_OID(0), &total);
	if (first < 0 || first >= total)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" has blocks 0 to %u, not %lld",
						RelationGetRelationName(rel), total - 1,
						(long long) first)));
	for (block = (BlockNumber) first;
		 block < total && clock_ns() < deadline_ns; block++)
	{
		CHECK_FOR_INTERRUPTS();
		ReleaseBuffer(ReadBuffer(rel, block));
	}
	relation_close(rel, AccessShareLock);

	values[0] = Int64GetDatum((int64) block);
	nulls[0] = block >= total;
	values[1] = Int64GetDatum(pgBufferUsage.shared_blks_hit - hit);
	values[2] = Int64GetDatum(pgBufferUsage.shared_blks_read - read);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls));
}

/*
 * pins(rel regclass) returns bigint: sessions' pins on buffers of a relation,
 * over the whole server.  After a measurement, and after any error in one, it
 * must be back at 0.
 */
Datum
pgassay_pins(PG_FUNCTION_ARGS)
{
	Relation	rel;
	BlockNumber total;
	int64		pins = 0;
	int			i;

	rel = open_relation(PG_GETARG_OID(0), &total);
	for (i = 0; i < NBuffers; i++)
	{
		BufferDesc *desc = GetBufferDescriptor(i);
		BufferState state;

		CHECK_FOR_INTERRUPTS();
		state = LockBufHdr(desc);
		if ((state & BM_TAG_VALID) && compat_tag_is_of(&desc->tag, rel))
			pins += BUF_STATE_GET_REFCOUNT(state);
		compat_unlock_header(desc, state);
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64(pins);
}

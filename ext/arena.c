/*
 * arena.c
 *	  Making, finding and inspecting the shared memory of a measurement.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#include "pgassay.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "storage/dsm.h"

PG_FUNCTION_INFO_V1(pgassay_arena_create);
PG_FUNCTION_INFO_V1(pgassay_arena_drop);
PG_FUNCTION_INFO_V1(pgassay_arena_state);

/* "pgassay" and the layout's version. */
#define ARENA_MAGIC UINT64CONST(0x7067617373617901)
#define TRANCHE_NAME "pgassay"
#define MAX_SESSIONS 100000
#define MAX_LOCKS 65536

/* Offsets of the parts, each on a cache line of its own. */
static Size
part_after(Size offset, Size size)
{
	return TYPEALIGN(PG_CACHE_LINE_SIZE, offset + size);
}

static Size
spinlock_offset(void)
{
	return part_after(0, sizeof(Arena));
}

static Size
locks_offset(void)
{
	return part_after(spinlock_offset(), sizeof(PaddedSpinlock));
}

static Size
words_offset(int nlocks)
{
	return part_after(locks_offset(), sizeof(LWLockPadded) * nlocks);
}

static Size
packed_offset(int sessions, int nlocks)
{
	return part_after(words_offset(nlocks), sizeof(PaddedWord) * (sessions + 1));
}

static Size
present_offset(int sessions, int nlocks)
{
	return part_after(packed_offset(sessions, nlocks), sizeof(Word) * sessions);
}

static Size
arena_size(int sessions, int nlocks)
{
	return part_after(present_offset(sessions, nlocks),
					  sizeof(PaddedPresence) * sessions);
}

static ArenaView
view_of(Arena *arena)
{
	ArenaView	view;
	char	   *base = (char *) arena;

	view.arena = arena;
	view.spinlock = &((PaddedSpinlock *) (base + spinlock_offset()))->lock;
	view.locks = (LWLockPadded *) (base + locks_offset());
	view.words = (PaddedWord *) (base + words_offset(arena->nlocks));
	view.packed = (Word *) (base + packed_offset(arena->sessions, arena->nlocks));
	view.present = (PaddedPresence *)
		(base + present_offset(arena->sessions, arena->nlocks));
	view.attached = NULL;
	return view;
}

/*
 * arena_create(sessions integer, locks integer) returns bigint
 */
Datum
pgassay_arena_create(PG_FUNCTION_ARGS)
{
	int32		sessions = PG_GETARG_INT32(0);
	int32		nlocks = PG_GETARG_INT32(1);
	dsm_segment *segment;
	Arena	   *arena;
	ArenaView	view;
	int			i;

	/* One for all arenas that this session makes: the server has few. */
	static int	tranche = 0;

	refuse_unfit_server();
	if (sessions < 1 || sessions > MAX_SESSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sessions must be between 1 and %d, not %d",
						MAX_SESSIONS, sessions)));
	if (sessions > MaxConnections)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("%d sessions do not fit into max_connections = %d",
						sessions, MaxConnections),
				 errhint("Raise max_connections, or measure with fewer sessions.")));
	if (nlocks < 1 || nlocks > MAX_LOCKS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("locks must be between 1 and %d, not %d",
						MAX_LOCKS, nlocks)));

	segment = dsm_create(arena_size(sessions, nlocks), 0);
	arena = dsm_segment_address(segment);
	memset(arena, 0, arena_size(sessions, nlocks));
	arena->sessions = sessions;
	arena->nlocks = nlocks;
	if (tranche == 0)
		tranche = compat_new_tranche(TRANCHE_NAME);
	arena->tranche = tranche;
	SpinLockInit(&arena->gate.mutex);
	ConditionVariableInit(&arena->gate.opened);

	view = view_of(arena);
	SpinLockInit(view.spinlock);
	for (i = 0; i < nlocks; i++)
		LWLockInitialize(&view.locks[i].lock, arena->tranche);
	for (i = 0; i <= sessions; i++)
		pg_atomic_init_u64(&view.words[i].word.wide, 0);
	for (i = 0; i < sessions; i++)
	{
		pg_atomic_init_u64(&view.packed[i].wide, 0);
		pg_atomic_init_u64(&view.present[i].presence.until_ns, 0);
	}
	compat_name_tranche(arena->tranche, TRANCHE_NAME);

	/* Last, so that nobody attaches to half an arena. */
	pg_write_barrier();
	arena->magic = ARENA_MAGIC;
	dsm_pin_mapping(segment);
	PG_RETURN_INT64((int64) dsm_segment_handle(segment));
}

/* The segment of a handle, with an error for what is no arena of ours. */
static dsm_segment *
find_segment(int64 handle, bool *was_mapped)
{
	dsm_segment *segment = NULL;

	if (handle > 0 && handle <= PG_UINT32_MAX)
	{
		segment = dsm_find_mapping((dsm_handle) handle);
		*was_mapped = segment != NULL;
		if (segment == NULL)
			segment = dsm_attach((dsm_handle) handle);
	}
	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no arena %lld", (long long) handle),
				 errhint("An arena lives as long as the session that made it.")));
	if (dsm_segment_map_length(segment) < sizeof(Arena) ||
		((Arena *) dsm_segment_address(segment))->magic != ARENA_MAGIC)
	{
		if (!*was_mapped)
			dsm_detach(segment);
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("shared memory segment %lld is not an arena of pgassay",
						(long long) handle)));
	}
	return segment;
}

ArenaView
arena_attach(int64 handle)
{
	bool		was_mapped = false;
	dsm_segment *segment = find_segment(handle, &was_mapped);
	Arena	   *arena = dsm_segment_address(segment);
	ArenaView	view = view_of(arena);

	compat_name_tranche(arena->tranche, TRANCHE_NAME);
	if (!was_mapped)
		view.attached = segment;
	return view;
}

void
arena_detach(ArenaView *view)
{
	if (view->attached != NULL)
		dsm_detach(view->attached);
	memset(view, 0, sizeof(*view));
}

/*
 * arena_drop(arena bigint) returns void: in the session that made it.
 */
Datum
pgassay_arena_drop(PG_FUNCTION_ARGS)
{
	int64		handle = PG_GETARG_INT64(0);
	bool		was_mapped = false;
	dsm_segment *segment = find_segment(handle, &was_mapped);

	dsm_detach(segment);
	if (!was_mapped)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("arena %lld was made by another session",
						(long long) handle),
				 errhint("Drop it there, or end that session.")));
	PG_RETURN_VOID();
}

/*
 * arena_state(arena bigint) returns (sessions, waiting, locks, locks_held,
 * spinlock_held): after a measurement, and after any error in one, nobody may
 * wait and nothing may be held.
 */
Datum
pgassay_arena_state(PG_FUNCTION_ARGS)
{
	ArenaView	view = arena_attach(PG_GETARG_INT64(0));
	TupleDesc	row;
	Datum		values[5];
	bool		nulls[5] = {false};
	int			waiting;
	int			held = 0;
	bool		spinning;
	int			i;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE ||
		row->natts != lengthof(values))
		elog(ERROR, "pgassay's SQL definitions do not belong to this library");

	SpinLockAcquire(&view.arena->gate.mutex);
	waiting = view.arena->gate.arrived;
	SpinLockRelease(&view.arena->gate.mutex);

	for (i = 0; i < view.arena->nlocks; i++)
	{
		LWLock	   *lock = &view.locks[i].lock;

		if (LWLockConditionalAcquire(lock, LW_EXCLUSIVE))
			LWLockRelease(lock);
		else
			held++;
	}

	spinning = TAS(view.spinlock) != 0;
	if (!spinning)
		S_UNLOCK(view.spinlock);

	values[0] = Int32GetDatum(view.arena->sessions);
	values[1] = Int32GetDatum(waiting);
	values[2] = Int32GetDatum(view.arena->nlocks);
	values[3] = Int32GetDatum(held);
	values[4] = BoolGetDatum(spinning);
	arena_detach(&view);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls));
}

/*
 * arena.h
 *	  The memory that the sessions of one measurement share: the gate they
 *	  start from together, and the locks and words they contend for.
 *
 * It is a dynamic shared memory segment, so nothing has to be preloaded.  The
 * session that made it keeps it mapped; its handle is given to the others as
 * an argument.  When that session ends, the segment goes with the last call
 * that is using it.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#ifndef PGASSAY_ARENA_H
#define PGASSAY_ARENA_H

#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

/*
 * A padded atomic word, one to a cache line (the server pads by 128 bytes:
 * PG_CACHE_LINE_SIZE).
 */
typedef union Word
{
	pg_atomic_uint32 narrow;
	pg_atomic_uint64 wide;
} Word;

typedef union PaddedWord
{
	Word		word;
	char		pad[PG_CACHE_LINE_SIZE];
} PaddedWord;

typedef union PaddedSpinlock
{
	slock_t		lock;
	char		pad[PG_CACHE_LINE_SIZE];
} PaddedSpinlock;

/*
 * The gate opens when `sessions` sessions stand before it.  The last to come
 * names an instant a little ahead, at which all begin.
 */
typedef struct Gate
{
	slock_t		mutex;			/* for what follows */
	int			arrived;		/* sessions waiting in this round */
	uint64		round;			/* rounds let through so far */
	int64		release_ns;		/* the instant of the last round */
	ConditionVariable opened;
} Gate;

/*
 * What a session shows of itself while it measures, for those that look on:
 * the end of its loop by the clock (0: it is over), and where the server keeps
 * what it waits for, which is in the main shared memory and so at the same
 * address in each process.
 */
typedef struct Presence
{
	pg_atomic_uint64 until_ns;
	volatile uint32 *wait_event_info;
} Presence;

typedef union PaddedPresence
{
	Presence	presence;
	char		pad[PG_CACHE_LINE_SIZE];
} PaddedPresence;

typedef struct Arena
{
	uint64		magic;
	int			sessions;
	int			nlocks;
	int			tranche;
	Gate		gate;
} Arena;

/* Where the parts lie: computed in each process, as addresses differ. */
typedef struct ArenaView
{
	Arena	   *arena;
	slock_t    *spinlock;
	LWLockPadded *locks;		/* nlocks of them */
	PaddedWord *words;			/* one for each session, then a shared one */
	Word	   *packed;			/* one for each session, in adjoining bytes */
	PaddedPresence *present;	/* one for each session */
	struct dsm_segment *attached;	/* NULL if this session had it mapped */
} ArenaView;

/*
 * The arena of a handle given by the user.  Raises an error for a handle that
 * isn't one.  After an error later on the server unmaps it; otherwise
 * arena_detach must.
 */
extern ArenaView arena_attach(int64 handle);
extern void arena_detach(ArenaView *view);

/* How many sessions are in their loops now. */
extern int	arena_running(const ArenaView *view, int64 now_ns);

/*
 * Wait until all sessions of the arena are here, at most until give_up_ns, and
 * return the instant (clock_ns) at which all begin.
 */
extern int64 gate_pass(Arena *arena, int64 give_up_ns);

#endif							/* PGASSAY_ARENA_H */

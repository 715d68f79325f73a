/*
 * compat.h
 *	  Everything in which the PostgreSQL versions differ; no other file of the
 *	  extension looks at PG_VERSION_NUM.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#ifndef PGASSAY_COMPAT_H
#define PGASSAY_COMPAT_H

#if PG_VERSION_NUM < 130000
#error "pgassay needs PostgreSQL 13 or later"
#endif

#include "replication/message.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#if PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#else
#include "pgstat.h"
#endif

/*
 * The physical name of a relation was renamed in 16, and the pin of a buffer
 * whose number is known already (ReadRecentBuffer) came in 14.
 */
#if PG_VERSION_NUM >= 140000
#define PGASSAY_HAS_RECENT_BUFFER 1
#else
#define PGASSAY_HAS_RECENT_BUFFER 0
#endif

/* Pin `buffer` if it still holds `block` of `rel`; no lookup, no I/O. */
static inline bool
compat_pin_recent(Relation rel, BlockNumber block, Buffer buffer)
{
#if PG_VERSION_NUM >= 160000
	return ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, buffer);
#elif PG_VERSION_NUM >= 140000
	return ReadRecentBuffer(rel->rd_node, MAIN_FORKNUM, block, buffer);
#else
	(void) rel;
	(void) block;
	(void) buffer;
	return false;
#endif
}

/*
 * From 14 on GetSnapshotData returns at once what it built before if no
 * transaction has completed since; a count of 0 says "never built".
 */
#if PG_VERSION_NUM >= 140000
#define PGASSAY_SNAPSHOTS_REUSED 1
#define compat_completion_count(snapshot) ((snapshot)->snapXactCompletionCount)
#define compat_forget_snapshot(snapshot) \
	((snapshot)->snapXactCompletionCount = 0)
#else
#define PGASSAY_SNAPSHOTS_REUSED 0
#define compat_completion_count(snapshot) ((void) (snapshot), UINT64CONST(0))
#define compat_forget_snapshot(snapshot) ((void) (snapshot))
#endif

/* A non-transactional logical message; 17 took over the flush. */
static inline XLogRecPtr
compat_log_message(const char *prefix, const char *message, size_t size)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(prefix, message, size, false, false);
#else
	return LogLogicalMessage(prefix, message, size, false);
#endif
}

/* The physical name in a buffer's tag changed its type in 16. */
#if PG_VERSION_NUM >= 160000
#define compat_tag_is_of(tag, rel) \
	BufTagMatchesRelFileLocator((tag), &(rel)->rd_locator)
#else
#define compat_tag_is_of(tag, rel) \
	RelFileNodeEquals((tag)->rnode, (rel)->rd_node)
#endif

/*
 * From 19 on a tranche gets its name when it is made, for all processes, and
 * there are 256 at most; before, each process tells itself the name.
 */
#if PG_VERSION_NUM >= 190000
#define compat_new_tranche(name) LWLockNewTrancheId(name)
#define compat_name_tranche(tranche, name) ((void) (tranche))
#else
#define compat_new_tranche(name) LWLockNewTrancheId()
#define compat_name_tranche(tranche, name) LWLockRegisterTranche(tranche, name)
#endif

/* A buffer's state word was widened, and its unlocking changed, in 19. */
#if PG_VERSION_NUM >= 190000
typedef uint64 BufferState;
#define compat_unlock_header(desc, state) \
	((void) (state), UnlockBufHdr(desc))
#else
typedef uint32 BufferState;
#define compat_unlock_header(desc, state) UnlockBufHdr(desc, state)
#endif

#endif							/* PGASSAY_COMPAT_H */

/*
 * A known slowdown: each execution of a plan does extra work, as many iterations of
 * an empty loop as the setting slower.work specifies. Preloaded by
 * bench/calibrate-real.sh, to give real comparisons a real difference to detect.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

void _PG_init(void);

static int work = 0;
static ExecutorStart_hook_type before = NULL;

static void
slower_start(QueryDesc *query, int flags)
{
    for (int turn = 0; turn < work; turn++)
        __asm__ __volatile__("" : : : "memory");
    if (before)
        before(query, flags);
    else
        standard_ExecutorStart(query, flags);
}

void
_PG_init(void)
{
    DefineCustomIntVariable("slower.work", "Turns of an empty loop before each execution.", NULL,
                            &work, 0, 0, INT_MAX, PGC_POSTMASTER, 0, NULL, NULL, NULL);
    before = ExecutorStart_hook;
    ExecutorStart_hook = slower_start;
}

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define PG_CACHE_LINE_SIZE 128
#define XLOG_PAGE_SIZE 4096

static volatile sig_atomic_t got_sigterm = 0;

typedef struct Shared
{
	LWLock *lock;
	int value;
	int filled;
} Shared;

static Shared *shared;
static int lock;

void handler(int signal)
{
	got_sigterm = 1;
}

void startup(void)
{
	int found;

	shared = ShmemInitStruct("clean", sizeof(Shared), &found);
	shared->value = 0;
	shared->filled = 0;
}

static void set(int value)
{
	shared->value = value;
	shared->filled = 1;
}

void publish(int value)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	set(value);
	LWLockRelease(shared->lock);
}

int take(void)
{
	int value;

	LWLockAcquire(shared->lock, LW_SHARED);
	value = shared->filled ? shared->value : -1;
	LWLockRelease(shared->lock);
	return value;
}

void enter(void)
{
	while (__sync_lock_test_and_set(&lock, 1))
		;
}

void leave(void)
{
	__sync_lock_release(&lock);
}

uint32_t field(const char *record, int offset)
{
	uint32_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

void *map(size_t n)
{
	long page = sysconf(_SC_PAGESIZE);

	return mmap(NULL, (n + page - 1) / page * page, PROT_READ, MAP_PRIVATE, -1, 0);
}

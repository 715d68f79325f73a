#include <pthread.h>
#include <unistd.h>
#include "storage/shmem.h"

static volatile int ready; /* PLANTED volatile-sync */
static int lock;
static int stop_now;

typedef struct Shared
{
	volatile int generation; /* PLANTED volatile-sync */
	int value;
	int filled;
} Shared;

static Shared *shared;

void startup(void)
{
	int found;

	shared = (Shared *) ShmemInitStruct("planted", sizeof(Shared), &found);
	shared->value = 0;
	shared->filled = 0;
}

void enter(void)
{
	while (__sync_lock_test_and_set(&lock, 1))
		;
}

void leave(void)
{
	lock = 0; /* PLANTED spinlock-release */
}

void wait_for_it(void)
{
	while (!stop_now) /* PLANTED busy-wait */
		usleep(10);
}

void publish(int value)
{
	shared->value = value; /* PLANTED shared-plain */
	shared->filled = 1;
	shared->generation++;
	ready = 1;
}

int take(void)
{
	return shared->filled ? shared->value : -1;
}

/*
 * A wall clock that steps, for a test: put before a program by LD_PRELOAD, it adds the seconds
 * that stand in the file named by STEPPED_CLOCK to what CLOCK_REALTIME says.  The file is mapped,
 * so that whoever writes to it steps the clock of all such programs at once.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;

__attribute__((constructor)) static void
begin(void)
{
	const char *path = getenv("STEPPED_CLOCK");
	int			file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void	   *map;

	if (file < 0)
		return;
	map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
	if (map != MAP_FAILED)
		seconds = map;
	close(file);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int			result = (int) syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *seconds;
	return result;
}

int
gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;

	(void) zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *now)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	if (now)
		*now = exact.tv_sec;
	return exact.tv_sec;
}

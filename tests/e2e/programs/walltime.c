/*
 * Preloaded into a program (LD_PRELOAD), this lets a test move its wall clock while it runs: the file named by
 * MCPD_TEST_WALLTIME holds an int64 of seconds that are added to CLOCK_REALTIME, in whatever way it is asked for. The
 * monotonic clock is left alone, as it is by the system when somebody sets the time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

static void __attribute__((constructor)) open_shift(void)
{
	const char *path = getenv("MCPD_TEST_WALLTIME");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd >= 0 ? mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (fd >= 0)
		close(fd);
	shift = at == MAP_FAILED ? NULL : at;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);
	if (r == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *shift;
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec;
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}

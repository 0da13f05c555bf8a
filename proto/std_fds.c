#include "proto/std_fds.h"

#include <fcntl.h>
#include <unistd.h>

void std_fds_reserve(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* The lowest free number is this one. The wrong direction: EBADF for whoever uses it. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
	}
}

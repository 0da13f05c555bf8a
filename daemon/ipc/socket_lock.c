#include "ipc/socket_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "xalloc.h"

int socket_lock_open(const char *socket_path, char **ret_lock_path)
{
	*ret_lock_path = xasprintf("%s.lock", socket_path);
	int fd = open(*ret_lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

int socket_lock_take(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	char text[32];
	int len = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	/* Only a courtesy to people: the lock holds without it. */
	if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)len, 0) != len)
		return 0;
	return 0;
}

/* What the last holder wrote into the file. */
static long written_pid(int fd)
{
	char text[32] = "";
	return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

/* A line of /proc/locks: "1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF". Some file systems show another device there
 * than stat() does: then the file's own word is needed to believe it. */
static pid_t holder_in_line(const char *line, const struct stat *st, long written)
{
	long pid;
	unsigned major_number, minor_number;
	unsigned long inode;
	if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major_number, &minor_number, &inode) != 4)
		return 0;
	bool same_device = major_number == major(st->st_dev) && minor_number == minor(st->st_dev);
	bool same = inode == st->st_ino && (same_device || pid == written);
	return same && pid > 0 ? (pid_t)pid : 0;
}

pid_t socket_lock_holder(int fd)
{
	struct stat st;
	FILE *locks = fopen("/proc/locks", "re");
	pid_t holder = 0;
	char line[256];
	if (!locks)
		return 0;
	if (fstat(fd, &st) == 0)
		while (!holder && fgets(line, sizeof line, locks))
			holder = holder_in_line(line, &st, written_pid(fd));
	fclose(locks);
	return holder;
}

/*
 * Makes calls of the system fail, for tests of what mcpd does then. Preloaded into mcpd (and, with it, its guard and
 * keepers; servers are other programs, and left alone).
 *
 * The file that MCPD_TEST_FAULT names says what fails, a line for each: `FUNCTION ERRNO [TEXT]`, such as `fork 11` or
 * `openat 28 /cache/`; with a text only where that is in the path, or in the path of the descriptor. It is read at each
 * call, so that a test turns faults on and off while mcpd runs. A file that is not there makes nothing fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Found out at the start: guard and keeper write over the name. */
static bool is_mcpd;

__attribute__((constructor)) static void find_out(void)
{
	is_mcpd = strcmp(program_invocation_short_name, "mcpd") == 0;
}

static bool line_says(const char *line, const char *function, const char *path, int *ret_errno)
{
	char name[32], text[256] = "";
	int number;
	if (sscanf(line, "%31s %d %255s", name, &number, text) < 2 || strcmp(name, function) != 0)
		return false;
	if (*text && (!path || !strstr(path, text)))
		return false;
	*ret_errno = number;
	return true;
}

/* True with errno set, if this call is to fail. */
static bool fails(const char *function, const char *path)
{
	const char *file = getenv("MCPD_TEST_FAULT");
	if (!file || !is_mcpd)
		return false;
	int saved = errno, number = 0;
	int fd = REAL(open)(file, O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = '\0';
	bool found = false;
	for (char *at = text, *line; !found && (line = strsep(&at, "\n"));)
		found = line_says(line, function, path, &number);
	errno = found ? number : saved;
	return found;
}

static bool fails_on(const char *function, int fd)
{
	char link[32], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof path - 1);
	path[len > 0 ? len : 0] = '\0';
	return fails(function, path);
}

pid_t fork(void)
{
	return fails("fork", NULL) ? -1 : REAL(fork)();
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	return fails("socketpair", NULL) ? -1 : REAL(socketpair)(domain, type, protocol, fds);
}

int pipe2(int fds[2], int flags)
{
	return fails("pipe2", NULL) ? -1 : REAL(pipe2)(fds, flags);
}

int memfd_create(const char *name, unsigned flags)
{
	return fails("memfd_create", NULL) ? -1 : REAL(memfd_create)(name, flags);
}

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
	return fails("accept4", NULL) ? -1 : REAL(accept4)(fd, address, len, flags);
}

int mkdir(const char *path, mode_t mode)
{
	return fails("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}

int renameat(int from, const char *old, int to, const char *new)
{
	return fails("renameat", new) ? -1 : REAL(renameat)(from, old, to, new);
}

int fsync(int fd)
{
	return fails_on("fsync", fd) ? -1 : REAL(fsync)(fd);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	/* Only files: a message to a peer is another thing. */
	struct stat st;
	bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	return is_file && fails_on("write", fd) ? -1 : REAL(write)(fd, bytes, len);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return fails("openat", path) ? -1 : REAL(openat)(dir, path, flags, mode);
}

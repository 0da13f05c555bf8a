#include "reach.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MS 10 /* the daemon's backlog is full, or it is leaving: the cases that give no event to wait for */
#define MAX_STARTS 2
#define START_LOG_MAX 4096

int64_t reach_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int reach_fail(struct reach *reach, int error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(reach->problem, sizeof reach->problem, format, args);
	va_end(args);
	return error;
}

void reach_begin(struct reach *reach, const char *socket_path, const char *program)
{
	reach_done(reach);
	reach->socket_path = socket_path;
	reach->program = program;
	reach->starts = 0;
	reach->retry_at_ms = reach_now_ms();
	reach->state = REACH_SOCKET;
	reach->problem[0] = '\0';
}

static int begin_start(struct reach *reach)
{
	reach->starts++;
	buf_done(&reach->start_log);
	buf_init(&reach->start_log, START_LOG_MAX);
	int r = spawn_daemon(reach);
	if (r == 0)
		reach->state = REACH_STARTING;
	return r;
}

/* What can be said when nothing listens: the path, and what the daemon itself gave as its reason. */
static int refused(struct reach *reach, int error)
{
	struct span said = buf_span(&reach->start_log);
	while (said.len && said.ptr[said.len - 1] == '\n')
		said.len--;
	if (reach->starts && said.len)
		return reach_fail(reach, error, "the daemon did not start: %.*s", (int)said.len, said.ptr);
	if (reach->starts)
		return reach_fail(reach, error, "the daemon was started but does not listen on %s", reach->socket_path);
	return reach_fail(reach, error, "no daemon listens on %s (%s); start it with: mcpd", reach->socket_path,
			  strerror(-error));
}

static int try_socket(struct reach *reach)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return reach_fail(reach, -errno, "cannot make a socket: %s", strerror(errno));
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strncpy(address.sun_path, reach->socket_path, sizeof address.sun_path - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		reach->fd = fd;
		reach->state = REACH_CONNECTED;
		return 0;
	}
	int error = -errno;
	close(fd);
	if (error == -EAGAIN || error == -EINTR) {
		reach->retry_at_ms = reach_now_ms() + RETRY_MS;
		return 0;
	}
	bool nobody = error == -ENOENT || error == -ECONNREFUSED;
	bool may_start = !reach->program || reach->program[0];
	if (nobody && may_start && reach->starts < MAX_STARTS)
		return begin_start(reach);
	if (nobody)
		return refused(reach, error);
	return reach_fail(reach, error, "cannot connect to %s: %s", reach->socket_path, strerror(-error));
}

/* Closes what is open and reaps the starter. */
static void let_go(struct reach *reach)
{
	if (reach->state == REACH_STARTING || reach->state == REACH_CONNECTED)
		close(reach->fd);
	reach->fd = -1;
	spawn_reap(reach->starter);
	reach->starter = 0;
}

/* Reads the started daemon's messages; its end sends us back to connect(2). */
static int read_start_log(struct reach *reach)
{
	for (;;) {
		char bytes[512];
		ssize_t n = read(reach->fd, bytes, sizeof bytes);
		if (n > 0) {
			if (reach->start_log.len + (size_t)n <= START_LOG_MAX)
				buf_add(&reach->start_log, bytes, (size_t)n);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		let_go(reach);
		reach->state = REACH_SOCKET;
		return try_socket(reach);
	}
}

int reach_step(struct reach *reach)
{
	if (reach->state == REACH_SOCKET && reach_now_ms() >= reach->retry_at_ms)
		return try_socket(reach);
	if (reach->state == REACH_STARTING)
		return read_start_log(reach);
	return 0;
}

int reach_fd(const struct reach *reach)
{
	return reach->state == REACH_STARTING ? reach->fd : -1;
}

int64_t reach_at_ms(const struct reach *reach)
{
	return reach->state == REACH_SOCKET ? reach->retry_at_ms : 0;
}

int reach_take(struct reach *reach)
{
	int fd = reach->fd;
	reach->fd = -1;
	reach->state = REACH_NONE;
	return fd;
}

void reach_again(struct reach *reach)
{
	let_go(reach);
	reach->state = REACH_SOCKET;
	reach->retry_at_ms = reach_now_ms() + RETRY_MS;
}

void reach_done(struct reach *reach)
{
	let_go(reach);
	reach->state = REACH_NONE;
	buf_done(&reach->start_log);
}

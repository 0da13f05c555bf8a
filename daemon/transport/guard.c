#include "transport/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "transport/proctree.h"

/* After keeper_keep_only(). */
#define SOCKET_FD 3

/* Milliseconds: between two looks at strays, from the first to the last; how long keepers may take once the daemon
 * is gone; how long their remains may. */
#define SWEEP_PAUSE_MIN 2
#define SWEEP_PAUSE_MAX 500
#define KEEPERS_MAY_TAKE 5000
#define REST_MAY_TAKE 5000
#define STOP_MAY_TAKE (KEEPERS_MAY_TAKE + REST_MAY_TAKE + 1000)

struct kept {
	pid_t pid; /* 0: the keeper was killed, its strays are being swept */
	/* Our copy of its end of the control socket. The daemon sees the end of a keeper's tree by the end of that
	 * socket, so it is held until no stray is left. */
	int control;
};

struct guarding {
	int children_fd;
	struct kept *kept;
	size_t n_kept, cap;
	bool strays; /* a keeper was killed */
	int pause;   /* until the next sweep */
	bool daemon_gone;
};

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_keeper(void *arg, pid_t pid)
{
	const struct guarding *g = arg;
	for (size_t i = 0; i < g->n_kept; i++)
		if (g->kept[i].pid == pid)
			return true;
	return false;
}

static void forget(struct guarding *g, size_t i)
{
	close(g->kept[i].control);
	g->kept[i] = g->kept[--g->n_kept];
}

static void expect_strays(struct guarding *g)
{
	g->strays = true;
	g->pause = SWEEP_PAUSE_MIN;
}

static void keeper_ended(struct guarding *g, pid_t pid, bool by_itself)
{
	for (size_t i = 0; i < g->n_kept; i++) {
		if (g->kept[i].pid != pid)
			continue;
		/* By itself, it left nothing. */
		g->kept[i].pid = 0;
		if (by_itself)
			forget(g, i);
		else
			expect_strays(g);
		return;
	}
}

/* False when there are no children at all. */
static bool reap(struct guarding *g)
{
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0)
			return errno != ECHILD;
		if (info.si_pid == 0)
			return true;
		keeper_ended(g, info.si_pid, info.si_code == CLD_EXITED && info.si_status == 0);
	}
}

/* Kills what is below us but not below a living keeper. */
static void sweep(struct guarding *g)
{
	struct proctree_result result;
	g->pause = g->pause * 2 > SWEEP_PAUSE_MAX ? SWEEP_PAUSE_MAX : g->pause * 2;
	if (proctree_signal(getpid(), SIGKILL, is_keeper, g, &result) == 0 && result.signalled > 0)
		return;
	g->strays = false;
	for (size_t i = g->n_kept; i-- > 0;)
		if (g->kept[i].pid == 0)
			forget(g, i);
}

/* --- orders --- */

/* The descriptors of the next order; 1, 0 at the end of the socket, or -1 for nothing usable. */
static int receive_order(int fds[KEEPER_FDS])
{
	char byte;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * KEEPER_FDS)];
	} control;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	ssize_t got = recvmsg(SOCKET_FD, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? -1 : 0;
	if (got == 0)
		return 0;
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
		return -1;
	int n = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	int received[KEEPER_FDS + 1]; /* alignment leaves room for one more */
	memcpy(received, CMSG_DATA(head), (size_t)n * sizeof(int));
	if (n == KEEPER_FDS) {
		memcpy(fds, received, sizeof(int) * KEEPER_FDS);
		return 1;
	}
	/* Out of descriptors: some were lost. The daemon sees the control socket end. */
	for (int i = 0; i < n; i++)
		close(received[i]);
	return -1;
}

static bool make_room(struct guarding *g)
{
	if (g->n_kept < g->cap)
		return true;
	size_t cap = g->cap ? g->cap * 2 : 16;
	struct kept *grown = realloc(g->kept, cap * sizeof *grown);
	if (!grown)
		return false;
	g->kept = grown;
	g->cap = cap;
	return true;
}

static void start_keeper(struct guarding *g, const int fds[KEEPER_FDS])
{
	int control = fds[KEEPER_FD_CONTROL];
	pid_t pid = -1;
	errno = ENOMEM;
	if (make_room(g))
		pid = fork();
	if (pid == 0)
		keeper_run(fds);
	if (pid < 0) {
		struct keeper_event event = { .type = KEEPER_FAILED, .a = errno, .b = KEEPER_STAGE_FORK };
		(void)!send(control, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else {
		g->kept[g->n_kept++] = (struct kept){ pid, control };
	}
	for (int i = 0; i < KEEPER_FDS; i++)
		if (pid < 0 || fds[i] != control)
			close(fds[i]);
}

static void take_orders(struct guarding *g)
{
	int fds[KEEPER_FDS];
	int got;
	while ((got = receive_order(fds)) > 0)
		start_keeper(g, fds);
	g->daemon_gone = got == 0;
}

/* --- the guard's life --- */

static void wait_for_news(struct guarding *g, int timeout)
{
	struct pollfd fds[] = { { .fd = g->children_fd, .events = POLLIN },
				{ .fd = g->daemon_gone ? -1 : SOCKET_FD, .events = POLLIN } };
	if (poll(fds, 2, timeout) <= 0)
		return;
	struct signalfd_siginfo info;
	while (fds[0].revents && read(g->children_fd, &info, sizeof info) > 0)
		;
	if (fds[1].revents)
		take_orders(g);
}

/* The daemon is gone: every keeper has seen that as well. Who takes too long, or was stopped, is killed. */
static void wind_up(struct guarding *g)
{
	int64_t patience = now_ms() + KEEPERS_MAY_TAKE;
	int64_t end = patience + REST_MAY_TAKE;
	for (size_t i = 0; i < g->n_kept; i++)
		if (g->kept[i].pid > 0)
			kill(g->kept[i].pid, SIGCONT); /* it would not see it, were it stopped */
	while (reap(g) && now_ms() < end) {
		struct proctree_result result;
		if (now_ms() > patience)
			proctree_signal(getpid(), SIGKILL, NULL, NULL, &result);
		else if (g->strays)
			sweep(g);
		wait_for_news(g, g->strays ? g->pause : 50);
	}
}

static _Noreturn void guard_run(int fd)
{
	setsid();
	keeper_keep_only(&fd, 1);
	keeper_set_title("mcpd-guard", "mcpd-guard");
	prctl(PR_SET_PDEATHSIG, SIGCONT); /* should we have been stopped, when the daemon goes */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	struct guarding g = { .children_fd = keeper_watch_children() };
	while (!g.daemon_gone) {
		reap(&g);
		if (g.strays)
			sweep(&g);
		wait_for_news(&g, g.strays ? g.pause : -1);
	}
	wind_up(&g);
	_exit(0);
}

/* --- the daemon's side --- */

int guard_start(struct guard *g)
{
	*g = (struct guard){ .pid = -1, .fd = -1 };
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	/* All signals stay blocked in the guard and the keepers: nothing but SIGKILL and SIGSTOP reaches them. */
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	int error = pid < 0 ? -errno : 0;
	if (pid == 0)
		guard_run(pair[1]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	if (error) {
		close(pair[0]);
		return error;
	}
	g->pid = pid;
	g->fd = pair[0];
	return 0;
}

int guard_order(struct guard *g, const int fds[KEEPER_FDS])
{
	char byte = 0;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * KEEPER_FDS)];
	} control = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int) * KEEPER_FDS);
	memcpy(CMSG_DATA(head), fds, sizeof(int) * KEEPER_FDS);
	if (sendmsg(g->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	/* Descriptors on their way are limited too. */
	return errno == ETOOMANYREFS || errno == EINTR ? -EAGAIN : -errno;
}

void guard_stop(struct guard *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
	if (g->pid < 0)
		return;
	kill(g->pid, SIGCONT);
	int pidfd = (int)syscall(SYS_pidfd_open, g->pid, 0);
	struct pollfd fds = { .fd = pidfd, .events = POLLIN };
	int64_t end = now_ms() + STOP_MAY_TAKE;
	while (pidfd >= 0 && poll(&fds, 1, 100) <= 0 && now_ms() < end)
		;
	if (pidfd >= 0)
		close(pidfd);
	kill(g->pid, SIGKILL); /* a zombie, if all went well */
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	g->pid = -1;
}

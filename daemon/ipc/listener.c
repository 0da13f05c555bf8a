#include "ipc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "ipc/socket_lock.h"
#include "log.h"
#include "xalloc.h"

#define BACKLOG 512
/* How long another daemon may take to begin listening, or to end; with a socket from the service manager nobody else can
 * serve the clients that wait there, so it is waited for as long as a stop may take. The lock is tried this often. */
#define OTHER_WAIT_MS 15000
#define HANDOVER_WAIT_MS 75000
#define LOCK_RETRY_MS 20
/* Connections taken per pass, so that a crowd does not starve those that are served. */
#define ACCEPTS_PER_PASS 64
/* Out of descriptors: no use in trying again before (PITFALLS "libevent"). */
#define PAUSE_MS 1000

struct listener {
	char *path;
	int lock_fd, fd, reserve_fd;
	bool inherited;
	dev_t dev; /* of our socket file: another's is not ours to unlink */
	ino_t ino;
	struct loop *loop;
	struct event *event;
	struct timer *pause;
	void (*on_accept)(void *arg, int fd);
	void *arg;
};

/* Where a failure is told. */
struct telling {
	enum listener_failure *failure;
	char **message;
};

__attribute__((format(printf, 3, 4))) static bool fail(const struct telling *t, enum listener_failure failure,
						       const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (vasprintf(t->message, format, args) < 0)
		*t->message = xstrdup("out of memory");
	va_end(args);
	*t->failure = failure;
	return false;
}

/* --- the directory --- */

/* Everybody's risk: a directory where others may replace the socket. The standard one is ours alone, besides. */
static bool check_directory(const char *dir, bool standard, const struct telling *t)
{
	struct stat st;
	if ((standard ? lstat(dir, &st) : stat(dir, &st)) < 0)
		return fail(t, LISTENER_ERROR, "cannot look at the socket's directory %s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(t, LISTENER_ERROR, "the socket's directory %s is not a directory", dir);
	if (st.st_uid != geteuid() && (standard || st.st_uid != 0))
		return fail(t, LISTENER_ERROR, "the socket's directory %s belongs to another user (uid %u)", dir,
			    (unsigned)st.st_uid);
	bool open = standard ? st.st_mode & 077 : (st.st_mode & 022) && !(st.st_mode & S_ISVTX);
	if (open)
		return fail(
			t, LISTENER_ERROR,
			"the socket's directory %s is open to others (mode %03o); make it yours alone: chmod 700 %s",
			dir, (unsigned)(st.st_mode & 0777), dir);
	return true;
}

/* The directory that we make is the last one; those above belong to the system or the user. */
static bool prepare_directory(const char *path, bool standard, const struct telling *t)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
	bool good;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		good = fail(t, LISTENER_ERROR, "cannot make the socket's directory %s: %s", dir, strerror(errno));
	else
		good = check_directory(dir, standard, t);
	free(dir);
	return good;
}

/* --- the lock --- */

static bool make_address(const char *path, struct sockaddr_un *ret, const struct telling *t)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof ret->sun_path)
		return fail(t, LISTENER_ERROR, "the socket path is %zu bytes long, and the system allows %zu: %s",
			    strlen(path), sizeof ret->sun_path - 1, path);
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return true;
}

/* Whether somebody listens there. A full backlog is somebody, too. */
static bool somebody_listens(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	bool connected = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
	close(fd);
	return connected;
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static bool fail_other(const struct listener *l, const struct telling *t)
{
	pid_t holder = socket_lock_holder(l->lock_fd);
	if (holder)
		return fail(t, LISTENER_OTHER, "another mcpd (process %ld) is running on %s", (long)holder, l->path);
	return fail(t, LISTENER_OTHER, "another mcpd is running on %s", l->path);
}

/* The holder's socket file is no longer there: it can only be told by a signal, which it takes as an order to drain. */
static void ask_to_leave(const struct listener *l)
{
	pid_t holder = socket_lock_holder(l->lock_fd);
	int pidfd = holder > 0 ? (int)syscall(SYS_pidfd_open, holder, 0) : -1;
	/* Looked at again with the handle in hand: now it is the same process that holds the lock. */
	if (pidfd >= 0 && socket_lock_holder(l->lock_fd) == holder) {
		log_info(
			"asking the mcpd that was running (process %ld) to end: its socket now belongs to the service manager",
			(long)holder);
		syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
	}
	if (pidfd >= 0)
		close(pidfd);
}

/* Waits for the lock as long as its holder neither listens nor is known to stay. */
static bool take_lock(struct listener *l, const struct sockaddr_un *address, const struct telling *t)
{
	bool asked = false;
	int64_t deadline = loop_now_ms() + (l->inherited ? HANDOVER_WAIT_MS : OTHER_WAIT_MS);
	for (;;) {
		int r = socket_lock_take(l->lock_fd);
		if (r == 0)
			return true;
		if (r != -EWOULDBLOCK && r != -EINTR)
			return fail(t, LISTENER_ERROR, "cannot lock %s.lock: %s", l->path, strerror(-r));
		if (!l->inherited && somebody_listens(address))
			return fail_other(l, t);
		if (l->inherited && !asked) {
			ask_to_leave(l);
			asked = true;
		}
		if (loop_now_ms() > deadline)
			return fail_other(l, t);
		sleep_ms(LOCK_RETRY_MS);
	}
}

/* --- the socket --- */

static bool remove_stale(const struct listener *l, const struct sockaddr_un *address, const struct telling *t)
{
	struct stat st;
	if (lstat(l->path, &st) < 0) {
		if (errno == ENOENT)
			return true;
		return fail(t, LISTENER_ERROR, "cannot look at %s: %s", l->path, strerror(errno));
	}
	if (!S_ISSOCK(st.st_mode))
		return fail(t, LISTENER_ERROR, "%s is there and is no socket; move it away or choose another path",
			    l->path);
	if (somebody_listens(address))
		return fail(
			t, LISTENER_OTHER,
			"another program is listening on %s; if that is systemd (mcpd.socket), it starts mcpd when a "
			"program connects",
			l->path);
	if (unlink(l->path) < 0 && errno != ENOENT)
		return fail(t, LISTENER_ERROR, "cannot remove the stale socket %s: %s", l->path, strerror(errno));
	return true;
}

static bool bind_own(struct listener *l, const struct sockaddr_un *address, const struct telling *t)
{
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0)
		return fail(t, LISTENER_ERROR, "cannot make a socket: %s", strerror(errno));
	mode_t before = umask(0077);
	int r = bind(l->fd, (const struct sockaddr *)address, sizeof *address);
	int error = errno;
	umask(before);
	if (r < 0)
		return fail(t, LISTENER_ERROR, "cannot make the socket %s: %s", l->path, strerror(error));
	struct stat st;
	if (lstat(l->path, &st) == 0) {
		l->dev = st.st_dev;
		l->ino = st.st_ino;
		if (st.st_mode & 077)
			return fail(
				t, LISTENER_ERROR,
				"the socket %s is open to others (mode %03o): this file system keeps no modes; choose "
				"another path with --socket or MCPD_SOCKET",
				l->path, (unsigned)(st.st_mode & 0777));
	}
	if (listen(l->fd, BACKLOG) < 0)
		return fail(t, LISTENER_ERROR, "cannot listen on %s: %s", l->path, strerror(errno));
	return true;
}

/* Others are refused by their uid in any case; that they can try is the unit's doing. */
static void warn_of_mode(const struct listener *l)
{
	struct stat st;
	if (lstat(l->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_mode & 077)
		log_warning("the socket %s can be reached by others (mode %03o): set SocketMode=0600 in its unit",
			    l->path, (unsigned)(st.st_mode & 0777));
}

static bool open_all(struct listener *l, const struct listener_options *options, const struct telling *t)
{
	struct sockaddr_un address;
	char *lock_path = NULL;
	if (!make_address(l->path, &address, t) || !prepare_directory(l->path, options->standard, t))
		return false;
	l->lock_fd = socket_lock_open(l->path, &lock_path);
	bool good = l->lock_fd >= 0 ||
		    fail(t, LISTENER_ERROR, "cannot make the lock file %s: %s", lock_path, strerror(-l->lock_fd));
	free(lock_path);
	if (!good || !take_lock(l, &address, t))
		return false;
	l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (!l->inherited)
		return remove_stale(l, &address, t) && bind_own(l, &address, t);
	l->fd = options->inherited_fd;
	warn_of_mode(l);
	fcntl(l->fd, F_SETFD, FD_CLOEXEC);
	fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
	return true;
}

struct listener *listener_open(const struct listener_options *options, enum listener_failure *ret_failure,
			       char **ret_message)
{
	struct telling t = { ret_failure, ret_message };
	struct listener *l = xnew(struct listener);
	*l = (struct listener){ .path = xstrdup(options->path), .lock_fd = -1, .fd = -1, .reserve_fd = -1 };
	l->inherited = options->inherited_fd >= 0;
	if (open_all(l, options, &t))
		return l;
	listener_free(l);
	return NULL;
}

/* --- accepting --- */

/* Another user is told, as far as one write goes. */
static void refuse(int fd, const struct ucred *peer)
{
	char line[256];
	int len = snprintf(line, sizeof line,
			   "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"refused: this "
			   "mcpd serves the user with uid %u alone, and you are uid %u\"}}\n",
			   (unsigned)geteuid(), (unsigned)peer->uid);
	ssize_t n = write(fd, line, (size_t)len);
	(void)n;
	log_warning("refused a connection from process %ld of uid %u", (long)peer->pid, (unsigned)peer->uid);
}

static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == geteuid())
		return true;
	refuse(fd, &peer);
	return false;
}

/* One client is told at once; the others wait in the backlog until there are descriptors again. */
static void out_of_descriptors(struct listener *l)
{
	static const char line[] =
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"the daemon is out of "
		"file descriptors; try again later\"}}\n";
	log_warning("out of file descriptors: no clients are accepted for %d ms", PAUSE_MS);
	if (l->reserve_fd >= 0)
		close(l->reserve_fd);
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		ssize_t n = write(fd, line, sizeof line - 1);
		(void)n;
		close(fd);
	}
	l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	event_del(l->event);
	timer_set(l->pause, loop_now_ms() + PAUSE_MS);
}

static void on_readable(evutil_socket_t socket_fd, short what, void *arg)
{
	struct listener *l = arg;
	(void)socket_fd;
	(void)what;
	for (int i = 0; i < ACCEPTS_PER_PASS && l->event; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
			out_of_descriptors(l);
		if (fd < 0)
			return;
		if (is_ours(fd))
			l->on_accept(l->arg, fd);
		else
			close(fd);
	}
}

static void on_pause_end(void *arg)
{
	struct listener *l = arg;
	event_add(l->event, NULL);
}

void listener_start(struct listener *l, struct loop *loop, void (*on_accept)(void *arg, int fd), void *arg)
{
	l->loop = loop;
	l->on_accept = on_accept;
	l->arg = arg;
	l->pause = timer_new(loop, on_pause_end, l);
	l->event = event_new(loop_base(loop), l->fd, EV_READ | EV_PERSIST, on_readable, l);
	if (!l->event || event_add(l->event, NULL) < 0) {
		log_error("out of memory for an event");
		abort();
	}
}

bool listener_has_waiting(const struct listener *l)
{
	struct pollfd waiting = { .fd = l->fd, .events = POLLIN };
	return l->fd >= 0 && poll(&waiting, 1, 0) > 0;
}

static void unlink_own(const struct listener *l)
{
	struct stat st;
	if (!l->inherited && l->ino && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
}

void listener_stop(struct listener *l)
{
	if (l->event)
		event_free(l->event);
	l->event = NULL;
	timer_free(l->pause);
	l->pause = NULL;
	if (l->fd < 0)
		return;
	/* First the name, so that nobody connects to a socket that is about to go. */
	unlink_own(l);
	close(l->fd);
	l->fd = -1;
}

void listener_free(struct listener *l)
{
	if (!l)
		return;
	listener_stop(l);
	if (l->reserve_fd >= 0)
		close(l->reserve_fd);
	if (l->lock_fd >= 0)
		close(l->lock_fd);
	free(l->path);
	free(l);
}

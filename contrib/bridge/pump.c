#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bridge.h"

/* What a writable pipe takes without waiting (pipe(7)): a page at least, and all of itself if it is empty. Standard output is not made non-blocking: the setting
 * would be its other users', too. */
#define PIPE_CHUNK ((size_t)4096)

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* True if something was read; *ret_ended at the end. */
static bool read_into(struct lane *lane, int fd, bool *ret_ended)
{
	char *at;
	size_t room = lane_room(lane, &at);
	ssize_t n = room > 0 ? read(fd, at, room) : -1;
	if (room == 0)
		return false;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return false;
	*ret_ended = n <= 0;
	if (n > 0)
		lane_filled(lane, (size_t)n);
	return n > 0;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static bool output_is_ready(void)
{
	struct pollfd pollfd = { .fd = STDOUT_FILENO, .events = POLLOUT };
	return poll(&pollfd, 1, 0) == 1 && pollfd.revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL);
}

static size_t output_room(void)
{
	int unread, size = fcntl(STDOUT_FILENO, F_GETPIPE_SZ);
	if (size > 0 && ioctl(STDOUT_FILENO, FIONREAD, &unread) == 0 && unread == 0)
		return (size_t)size;
	return PIPE_CHUNK;
}

static ssize_t write_output(const struct bridge *bridge, struct span bytes)
{
	if (bridge->output_is_socket)
		return send(STDOUT_FILENO, bytes.ptr, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!output_is_ready()) {
		errno = EAGAIN;
		return -1;
	}
	size_t room = bytes.len > PIPE_CHUNK ? output_room() : PIPE_CHUNK;
	return write(STDOUT_FILENO, bytes.ptr, bytes.len < room ? bytes.len : room);
}

static ssize_t write_daemon(const struct bridge *bridge, struct span bytes)
{
	return send(bridge->fd, bytes.ptr, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

typedef ssize_t write_fn(const struct bridge *bridge, struct span bytes);

static struct span own_pending(const struct own *own)
{
	return (struct span){ own->lines.len ? own->lines.data + own->sent : "", own_unsent(own) };
}

static void own_wrote(struct own *own, size_t len)
{
	own->sent += len;
	if (own_unsent(own) > 0)
		return;
	/* What it grew to once is not kept. */
	buf_done(&own->lines);
	own->sent = 0;
}

/* Writes our own lines and those of the lane, each as a whole, until the target takes no more. *ret_wrote: something was written. 0, or the
 * errno of a target that has gone. */
static int flush(struct bridge *bridge, struct own *own, struct lane *lane, write_fn *write_bytes, bool *ret_wrote)
{
	for (;;) {
		bool ours = own_unsent(own) > 0;
		bool from_own = ours && (own->sent > 0 || !lane || lane_at_boundary(lane));
		struct span bytes = from_own ? own_pending(own) : lane ? lane_pending(lane, ours) : SPAN_NONE;
		if (bytes.len == 0)
			return 0;
		ssize_t n = write_bytes(bridge, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		*ret_wrote = true;
		if (from_own)
			own_wrote(own, (size_t)n);
		else
			lane_wrote(lane, (size_t)n);
	}
}

/* ---- What may flow ------------------------------------------------------------------------------------------------ */

static bool client_may_speak(const struct bridge *bridge)
{
	return (bridge->phase == PHASE_OPEN && !bridge->replaying && !bridge->daemon_deaf) || link_refuses(bridge);
}

static void flush_up(struct bridge *bridge, bool *ret_wrote)
{
	if (bridge->fd < 0 || bridge->daemon_deaf)
		return;
	/* What the client sends comes behind all that was to be set up again. */
	bool lane = bridge->phase == PHASE_OPEN && !bridge->replaying;
	if (flush(bridge, &bridge->up_own, lane ? &bridge->up : NULL, write_daemon, ret_wrote) < 0)
		bridge->daemon_deaf = true;
}

static void flush_down(struct bridge *bridge, bool *ret_wrote)
{
	if (flush(bridge, &bridge->down_own, &bridge->down, write_output, ret_wrote) == 0)
		return;
	/* A client that closes everything at once is at its end, too. */
	bool ended = bridge->input_ended;
	char *at;
	if (!ended && lane_room(&bridge->up, &at) > 0) {
		struct pollfd pollfd = { .fd = STDIN_FILENO, .events = POLLIN };
		if (poll(&pollfd, 1, 0) == 1)
			read_into(&bridge->up, STDIN_FILENO, &ended);
	}
	bridge_end(bridge, ended ? STATUS_CLOSED : STATUS_CLIENT_GONE);
	lane_cut(&bridge->down);
	buf_done(&bridge->down_own.lines);
	bridge->down_own.sent = 0;
}

/* Passes the end of the client's input on, behind its last line. */
static void pass_end(struct bridge *bridge)
{
	if (!bridge->input_ended || bridge->half_closed || !lane_finish(&bridge->up) || !lane_is_empty(&bridge->up))
		return;
	if (bridge->phase == PHASE_OPEN && !bridge->replaying && own_unsent(&bridge->up_own) == 0) {
		bridge->half_closed = true;
		shutdown(bridge->fd, SHUT_WR);
	} else if (bridge->attached && bridge->phase != PHASE_OPEN && bridge->phase != PHASE_SETTLE &&
		   !ledger_answers_due(&bridge->ledger)) {
		bridge_end(bridge, STATUS_CLOSED);
	}
}

static bool own_failed(struct own *own)
{
	if (!buf_failed(&own->lines))
		return false;
	/* A line that is not whole. */
	buf_done(&own->lines);
	own->sent = 0;
	return true;
}

/* Lets everything go one step. True if there was one. */
static bool step(struct bridge *bridge)
{
	enum phase phase = bridge->phase;
	bool replaying = bridge->replaying, wrote = false;
	pass_end(bridge);
	if (bridge->fd >= 0 && bridge->phase != PHASE_END)
		lane_examine(&bridge->down, talk_down, bridge);
	if (client_may_speak(bridge))
		lane_examine(&bridge->up, talk_up, bridge);
	link_step(bridge);
	if (own_failed(&bridge->up_own) || own_failed(&bridge->down_own))
		bridge_end_of_memory(bridge);
	flush_up(bridge, &wrote);
	flush_down(bridge, &wrote);
	if (bridge->daemon_ended && lane_pending(&bridge->down, false).len == 0)
		link_lost(bridge);
	return wrote || phase != bridge->phase || replaying != bridge->replaying;
}

/* Lets everything go as far as it goes without waiting. */
static void run_through(struct bridge *bridge)
{
	while (step(bridge) && bridge->phase != PHASE_END)
		;
}

/* ---- The loop ------------------------------------------------------------------------------------------------------ */

enum { POLL_INPUT, POLL_OUTPUT, POLL_DAEMON, POLL_COUNT };

static bool wants_input(struct bridge *bridge)
{
	char *at;
	return !bridge->input_ended && bridge->phase != PHASE_END && lane_room(&bridge->up, &at) > 0;
}

static bool wants_daemon(struct bridge *bridge)
{
	char *at;
	return bridge->fd >= 0 && !bridge->daemon_ended && lane_room(&bridge->down, &at) > 0;
}

static void set_poll(struct pollfd *pollfd, int fd, int events)
{
	/* With nothing to wait for a hang-up would be reported for ever. */
	pollfd->fd = events ? fd : -1;
	pollfd->events = (short)events;
	pollfd->revents = 0;
}

static void earliest(int64_t *at, int64_t candidate)
{
	if (candidate && (!*at || candidate < *at))
		*at = candidate;
}

static int timeout_ms(const struct bridge *bridge)
{
	int64_t at = link_at_ms(bridge), now = reach_now_ms();
	if (bridge->phase == PHASE_REACH)
		earliest(&at, reach_at_ms(&bridge->reach));
	if (!at)
		return -1;
	return at <= now ? 0 : at - now > INT32_MAX ? INT32_MAX : (int)(at - now);
}

static void poll_once(struct bridge *bridge)
{
	struct pollfd fds[POLL_COUNT];
	bool up = own_unsent(&bridge->up_own) > 0 ||
		  (bridge->phase == PHASE_OPEN && !bridge->replaying && lane_pending(&bridge->up, false).len > 0);
	bool down = own_unsent(&bridge->down_own) > 0 || lane_pending(&bridge->down, false).len > 0;
	set_poll(&fds[POLL_INPUT], STDIN_FILENO, wants_input(bridge) ? POLLIN : 0);
	set_poll(&fds[POLL_DAEMON], bridge->fd,
		 (wants_daemon(bridge) ? POLLIN : 0) | (up && !bridge->daemon_deaf ? POLLOUT : 0));
	if (bridge->phase == PHASE_REACH)
		set_poll(&fds[POLL_DAEMON], reach_fd(&bridge->reach), POLLIN);
	/* A reader that goes away is noticed also while there is nothing to write. */
	fds[POLL_OUTPUT] = (struct pollfd){ .fd = STDOUT_FILENO, .events = down ? POLLOUT : 0 };
	if (poll(fds, POLL_COUNT, timeout_ms(bridge)) < 0)
		return;
	if (fds[POLL_INPUT].revents)
		read_into(&bridge->up, STDIN_FILENO, &bridge->input_ended);
	if (fds[POLL_DAEMON].revents && bridge->phase != PHASE_REACH && wants_daemon(bridge))
		read_into(&bridge->down, bridge->fd, &bridge->daemon_ended);
	if (fds[POLL_OUTPUT].revents & (POLLERR | POLLHUP | POLLNVAL) && bridge->phase != PHASE_END)
		bridge_end(bridge, bridge->input_ended ? STATUS_CLOSED : STATUS_CLIENT_GONE);
}

int bridge_run(struct bridge *bridge)
{
	struct stat st;
	bridge->output_is_socket = fstat(STDOUT_FILENO, &st) == 0 && S_ISSOCK(st.st_mode);
	run_through(bridge);
	while (bridge->phase != PHASE_END || own_unsent(&bridge->down_own) > 0 ||
	       lane_pending(&bridge->down, false).len > 0) {
		poll_once(bridge);
		run_through(bridge);
	}
	return bridge->status;
}

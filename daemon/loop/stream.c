#include "loop/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <event2/event.h>

#include "log.h"
#include "proto/framer.h"
#include "xalloc.h"

/* Fairness (PITFALLS "libevent"): what one stream may do in one pass. */
#define PASS_BYTES ((size_t)64 << 10)
#define PASS_LINES 64
#define PASS_US 1000 /* for lines that are much work */
#define PASS_FRAMES 64

struct budget {
	unsigned lines;
	size_t bytes;
	int64_t us;
};

static const struct budget pass_budget = { PASS_LINES, PASS_BYTES, PASS_US };

/* One accepted frame, or what the kernel did not take of it. */
struct frame {
	struct frame *next;
	size_t len;
	bool begun; /* bytes of it went out before it was queued */
	char bytes[];
};

struct stream {
	struct loop *loop;
	struct stream_callbacks callbacks;
	void *arg;
	struct stream_options options;
	int read_fd, write_fd; /* -1 once closed; the same number for a socket */
	bool is_socket;
	struct event *read_event, *write_event;
	struct task *task; /* lines of the pass before, and bad news of a write */

	struct framer framer;
	bool paused;
	bool backlog;    /* lines may be left in the framer: nothing is read meanwhile */
	bool at_eof;     /* of the descriptor; lines may be left */
	bool read_ended; /* on_end was called, or there is nothing to read */

	/* A socket is watched for the peer's hang-up while nobody reads it. A level-triggered event would fire for
	 * ever after a half-close, and one descriptor cannot have both kinds: so an edge-triggered one on a
	 * duplicate. */
	int hup_fd;
	struct event *hup_event;

	struct frame *frames, **frames_end;
	size_t head_sent; /* bytes of the first frame that are out */
	uint64_t received, accepted, written;
	bool finishing;   /* no more is accepted */
	bool write_ended; /* nothing more goes out */
	int broken;       /* on_broken is due with this error */
	bool broken_told;

	bool closed;
};

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void set_flags(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		log_error("cannot set descriptor flags: %s", strerror(errno));
}

static void must(bool worked)
{
	if (worked)
		return;
	log_error("out of memory for an event");
	abort();
}

static void free_event(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

static void on_hang_up(evutil_socket_t fd, short what, void *arg);

static void watch_hang_up(struct stream *s)
{
	if (!s->is_socket || s->hup_event || s->broken_told || s->broken)
		return;
	s->hup_fd = fcntl(s->read_fd, F_DUPFD_CLOEXEC, 0);
	if (s->hup_fd < 0)
		return; /* out of descriptors: the next write will notice */
	s->hup_event = event_new(loop_base(s->loop), s->hup_fd, EV_CLOSED | EV_ET | EV_PERSIST, on_hang_up, s);
	must(s->hup_event && event_add(s->hup_event, NULL) == 0);
}

static void unwatch_hang_up(struct stream *s)
{
	free_event(&s->hup_event);
	if (s->hup_fd >= 0)
		close(s->hup_fd);
	s->hup_fd = -1;
}

/* --- reading --- */

/* Whether a read may take place now; keeps the event in step. */
static void update_reading(struct stream *s)
{
	bool wanted = !s->closed && !s->read_ended && !s->at_eof && !s->paused && !s->backlog;
	if (s->read_event) {
		if (wanted)
			must(event_add(s->read_event, NULL) == 0);
		else
			event_del(s->read_event);
	}
	if (s->backlog && !s->paused && !s->closed)
		task_schedule(s->task);
	if (s->closed)
		return;
	if (s->paused || s->read_ended)
		watch_hang_up(s);
	else
		unwatch_hang_up(s);
}

static void end_reading(struct stream *s, int error)
{
	s->read_ended = true;
	s->backlog = false;
	free_event(&s->read_event);
	if (!s->is_socket) {
		close(s->read_fd);
		s->read_fd = -1;
	}
	update_reading(s);
	if (s->callbacks.on_end)
		s->callbacks.on_end(s->arg, error);
}

static void hand_out(struct stream *s, enum framer_result result, struct span line, bool unterminated)
{
	if (result == FRAMER_LINE && s->callbacks.on_line)
		s->callbacks.on_line(s->arg, line, unterminated);
	if (result == FRAMER_TOO_LONG && s->callbacks.on_too_long)
		s->callbacks.on_too_long(s->arg, line);
}

/* Hands out lines as long as there is budget for one more; false if some may be left. */
static bool hand_out_lines(struct stream *s, const struct budget *budget)
{
	size_t bytes = 0;
	int64_t until_us = budget ? loop_now_us() + budget->us : 0;
	for (unsigned lines = 0; !budget || (lines < budget->lines && bytes < budget->bytes); lines++) {
		if (budget && lines && loop_now_us() > until_us)
			return false;
		if (s->closed || s->paused)
			return false;
		struct span line;
		enum framer_result result = framer_next(&s->framer, &line);
		bool unterminated = result == FRAMER_NEED_MORE;
		if (unterminated && s->at_eof)
			result = framer_rest(&s->framer, &line);
		if (result == FRAMER_NEED_MORE) {
			framer_shrink(&s->framer);
			return true;
		}
		bytes += line.len + 1;
		hand_out(s, result, line, unterminated);
	}
	return false;
}

/* Lines for this pass, then what follows from their end. No budget: all of them. */
static void dispatch(struct stream *s, const struct budget *budget)
{
	s->backlog = !hand_out_lines(s, budget);
	if (s->closed)
		return;
	if (!s->backlog && s->at_eof)
		end_reading(s, 0);
	else
		update_reading(s);
}

/* Reads once. The number of bytes; 0 at the end of the stream, which is noted; or a negative errno. */
static ssize_t read_some(struct stream *s)
{
	size_t room;
	char *space = framer_space(&s->framer, PASS_BYTES, &room);
	if (!space)
		return -ENOMEM;
	ssize_t got = read(s->read_fd, space, smaller(room, PASS_BYTES));
	if (got < 0)
		return -errno;
	framer_filled(&s->framer, (size_t)got);
	s->received += (size_t)got;
	s->at_eof = got == 0;
	return got;
}

static bool is_passing(ssize_t error)
{
	return error == -EAGAIN || error == -EINTR;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct stream *s = arg;
	ssize_t got = read_some(s);
	if (is_passing(got))
		return;
	if (got < 0)
		end_reading(s, (int)got);
	else
		dispatch(s, &pass_budget);
}

void stream_drain(struct stream *s, size_t max_bytes)
{
	for (size_t total = 0; total < max_bytes;) {
		if (s->closed || s->read_ended || s->paused)
			return;
		if (s->backlog) {
			dispatch(s, NULL);
			continue;
		}
		ssize_t got = read_some(s);
		if (got == -EINTR)
			continue;
		if (got == -EAGAIN)
			return;
		if (got < 0) {
			end_reading(s, (int)got);
			return;
		}
		total += (size_t)got;
		dispatch(s, NULL);
	}
}

size_t stream_unread(const struct stream *s)
{
	int bytes = 0;
	if (s->closed || !s->is_socket || ioctl(s->write_fd, SIOCOUTQ, &bytes) < 0)
		return 0;
	return (size_t)bytes;
}

void stream_pause(struct stream *s, bool paused)
{
	if (s->closed || s->paused == paused)
		return;
	s->paused = paused;
	update_reading(s);
}

int stream_take_unread(struct stream *s, struct buf *out)
{
	struct framer *f = &s->framer;
	if (f->start == f->end)
		return 0;
	int error = buf_reserve(out, f->end - f->start);
	if (error)
		return error;
	buf_add(out, f->data + f->start, f->end - f->start);
	f->start = f->scanned = f->end;
	return 0;
}

/* --- writing --- */

static void free_frames(struct stream *s)
{
	while (s->frames) {
		struct frame *frame = s->frames;
		s->frames = frame->next;
		free(frame);
	}
	s->frames_end = &s->frames;
	s->head_sent = 0;
}

static void end_writing(struct stream *s)
{
	s->write_ended = true;
	free_event(&s->write_event);
	free_frames(s);
	if (s->is_socket) {
		shutdown(s->write_fd, SHUT_WR);
	} else if (s->write_fd >= 0) {
		close(s->write_fd);
		s->write_fd = -1;
	}
}

/* Nothing goes out any more; on_broken follows from the task. */
static void break_writing(struct stream *s, int error)
{
	if (s->broken || s->broken_told)
		return;
	s->broken = error;
	end_writing(s);
	unwatch_hang_up(s);
	task_schedule(s->task);
}

static void on_hang_up(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	/* A half-close looks the same to epoll: ask. */
	struct pollfd pfd = { .fd = fd };
	if (poll(&pfd, 1, 0) > 0 && pfd.revents & (POLLHUP | POLLERR))
		break_writing(arg, -EPIPE);
}

/* The bytes have gone out: takes them off the queue. */
static void take_off(struct stream *s, size_t sent)
{
	s->written += sent;
	while (s->frames) {
		struct frame *frame = s->frames;
		size_t left = frame->len - s->head_sent;
		if (sent < left) {
			s->head_sent += sent;
			return;
		}
		sent -= left;
		s->head_sent = 0;
		s->frames = frame->next;
		if (!s->frames)
			s->frames_end = &s->frames;
		free(frame);
	}
}

static ssize_t write_frames(struct stream *s)
{
	struct iovec iov[PASS_FRAMES];
	int n = 0;
	size_t room = PASS_BYTES, skip = s->head_sent;
	for (struct frame *frame = s->frames; frame && n < PASS_FRAMES && room > 0; frame = frame->next, n++) {
		iov[n].iov_base = frame->bytes + skip;
		iov[n].iov_len = smaller(frame->len - skip, room);
		room -= iov[n].iov_len;
		skip = 0;
	}
	ssize_t sent = writev(s->write_fd, iov, n);
	return sent < 0 ? -errno : sent;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct stream *s = arg;
	ssize_t sent = write_frames(s);
	if (is_passing(sent))
		return;
	if (sent < 0) {
		break_writing(s, (int)sent);
		return;
	}
	take_off(s, (size_t)sent);
	bool drained = !s->frames;
	if (drained && s->finishing)
		end_writing(s);
	else if (drained)
		event_del(s->write_event);
	if (s->callbacks.on_written)
		s->callbacks.on_written(s->arg);
	if (drained && !s->closed && !s->frames && s->callbacks.on_drained)
		s->callbacks.on_drained(s->arg);
}

/* Writes what the kernel takes at once; the number of bytes, or a negative errno when writing has broken. */
static ssize_t write_now(struct stream *s, struct span bytes)
{
	ssize_t sent;
	do
		sent = write(s->write_fd, bytes.ptr, smaller(bytes.len, PASS_BYTES));
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return sent;
	return errno == EAGAIN ? 0 : -errno;
}

static int queue_frame(struct stream *s, struct span bytes, bool begun)
{
	struct frame *frame = malloc(sizeof *frame + bytes.len);
	if (!frame)
		return -ENOMEM;
	frame->next = NULL;
	frame->len = bytes.len;
	frame->begun = begun;
	memcpy(frame->bytes, bytes.ptr, bytes.len);
	*s->frames_end = frame;
	s->frames_end = &frame->next;
	must(event_add(s->write_event, NULL) == 0);
	return 0;
}

int stream_write(struct stream *s, struct span bytes)
{
	if (s->closed || s->write_ended || s->finishing)
		return -EPIPE;
	size_t queued = stream_queued(s);
	size_t most = s->options.max_queue;
	if (queued == 0 && most <= s->options.max_line)
		most = s->options.max_line + 1; /* and its newline */
	if (queued > most || bytes.len > most - queued)
		return -ENOBUFS;
	ssize_t sent = 0;
	if (!s->frames && bytes.len > 0) {
		sent = write_now(s, bytes);
		if (sent < 0) {
			break_writing(s, (int)sent);
			return -EPIPE;
		}
	}
	struct span rest = { bytes.ptr + sent, bytes.len - (size_t)sent };
	int error = rest.len > 0 ? queue_frame(s, rest, sent > 0) : 0;
	if (error && sent > 0)
		break_writing(s, error); /* a frame cannot be finished that is not there */
	if (error && sent == 0)
		return error;
	s->accepted += bytes.len;
	s->written += (size_t)sent;
	return error;
}

size_t stream_queued(const struct stream *s)
{
	return s->frames ? (size_t)(s->accepted - s->written) : 0;
}

uint64_t stream_received(const struct stream *s)
{
	return s->received;
}

uint64_t stream_accepted(const struct stream *s)
{
	return s->accepted;
}

uint64_t stream_written(const struct stream *s)
{
	return s->written;
}

void stream_finish_writing(struct stream *s)
{
	if (s->closed || s->write_ended)
		return;
	s->finishing = true;
	if (!s->frames)
		end_writing(s);
}

void stream_drop_unsent(struct stream *s)
{
	bool begun = s->frames && (s->head_sent > 0 || s->frames->begun);
	struct frame **keep = begun ? &s->frames->next : &s->frames;
	while (*keep) {
		struct frame *frame = *keep;
		*keep = frame->next;
		s->accepted -= frame->len;
		free(frame);
	}
	s->frames_end = keep;
	if (!s->frames && s->write_event)
		event_del(s->write_event);
}

/* --- life --- */

static void on_task(void *arg)
{
	struct stream *s = arg;
	if (s->broken && !s->broken_told) {
		s->broken_told = true;
		if (s->callbacks.on_broken)
			s->callbacks.on_broken(s->arg, s->broken);
	}
	if (!s->closed && s->backlog && !s->paused)
		dispatch(s, &pass_budget);
}

struct stream *stream_new(struct loop *loop, int read_fd, int write_fd, const struct stream_options *options,
			  const struct stream_callbacks *callbacks, void *arg)
{
	struct stream *s = xnew(struct stream);
	s->loop = loop;
	s->callbacks = *callbacks;
	s->arg = arg;
	s->options = *options;
	s->read_fd = read_fd;
	s->write_fd = write_fd;
	s->is_socket = read_fd >= 0 && read_fd == write_fd;
	s->hup_fd = -1;
	s->frames_end = &s->frames;
	s->task = task_new(loop, on_task, s);
	framer_init(&s->framer, options->max_line);
	if (read_fd >= 0) {
		set_flags(read_fd);
		s->read_event = event_new(loop_base(loop), read_fd, EV_READ | EV_PERSIST, on_readable, s);
		must(s->read_event && event_add(s->read_event, NULL) == 0);
	} else {
		s->read_ended = true;
	}
	if (write_fd >= 0) {
		set_flags(write_fd);
		s->write_event = event_new(loop_base(loop), write_fd, EV_WRITE | EV_PERSIST, on_writable, s);
		must(s->write_event != NULL);
	} else {
		s->write_ended = true;
	}
	return s;
}

static void stream_bury(void *object)
{
	struct stream *s = object;
	framer_done(&s->framer);
	free_frames(s);
	free(s);
}

void stream_close(struct stream *s)
{
	if (!s || s->closed)
		return;
	s->closed = true;
	free_event(&s->read_event);
	free_event(&s->write_event);
	unwatch_hang_up(s);
	task_free(s->task);
	s->task = NULL;
	if (s->read_fd >= 0)
		close(s->read_fd);
	if (s->write_fd >= 0 && s->write_fd != s->read_fd)
		close(s->write_fd);
	s->read_fd = s->write_fd = -1;
	loop_bury(s->loop, s, stream_bury);
}

#include "ipc/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ipc/ipc_internal.h"
#include "log.h"
#include "loop/stream.h"
#include "router/accounts.h"
#include "xalloc.h"

/* How long a client that broke the framing has to read the error before its connection goes. */
#define LINGER_MS 2000

enum session_step {
	SESSION_OPEN,
	SESSION_ENDING,    /* the task will end it */
	SESSION_LINGERING, /* on the list of those that leave; only unsent bytes keep it */
	SESSION_GONE,
};

struct session {
	struct session *next, **at; /* one of ipc's lists */
	struct ipc *ipc;
	uint64_t id;
	const struct dialect *dialect;
	void *state;
	struct stream *stream;
	struct task *task;   /* the end, deferred */
	struct timer *timer; /* the end of lingering */
	struct timer *grace; /* for a client that does not read */
	int64_t read_ms;     /* when it last read something that it had been left with */
	size_t unread;       /* what was in its socket then */
	bool behind;         /* more is unsent than may be left: the grace period runs */
	enum session_step step;
	int64_t linger_ms; /* in ENDING: how long to wait for the unsent */
	bool half_closed;  /* the client sends no more */
	bool paused;
	uint64_t dropped; /* events, since the client was last told */
	uint64_t dropped_in_all;
	struct account_traffic settled; /* what its client's account has already */
	unsigned account;               /* once the client is not known any more */
};

static void destroy(struct session *s);

struct ipc *session_ipc(const struct session *s)
{
	return s->ipc;
}

uint64_t session_id(const struct session *s)
{
	return s->id;
}

bool session_is_open(const struct session *s)
{
	return s->step == SESSION_OPEN;
}

const struct dialect *session_dialect(const struct session *s)
{
	return s->dialect;
}

void *session_state(const struct session *s)
{
	return s->state;
}

void session_set_dialect(struct session *s, const struct dialect *dialect, void *state)
{
	s->dialect = dialect;
	s->state = state;
}

struct session *session_next(const struct session *s)
{
	return s->next;
}

static const char *label(const struct session *s)
{
	return router_client_label(s->ipc->options.router, s->id);
}

unsigned session_account(const struct session *s)
{
	return s->step < SESSION_LINGERING ? router_client_account(s->ipc->options.router, s->id) : s->account;
}

size_t session_unsent(const struct session *s)
{
	return stream_queued(s->stream);
}

void session_settle(struct session *s)
{
	struct account_traffic now = {
		.received = stream_received(s->stream),
		.sent = stream_written(s->stream),
		.dropped = s->dropped_in_all,
	};
	struct account_traffic more = {
		.received = now.received - s->settled.received,
		.sent = now.sent - s->settled.sent,
		.dropped = now.dropped - s->settled.dropped,
	};
	s->settled = now;
	accounts_traffic(router_accounts(s->ipc->options.router), session_account(s), &more);
}

static int64_t soft_limit(const struct session *s)
{
	return ipc_limits(s->ipc)->value[LIMIT_CLIENT_QUEUE_SOFT];
}

static bool over_soft_limit(const struct session *s)
{
	return (int64_t)stream_queued(s->stream) > soft_limit(s);
}

static void end_later(struct session *s, int64_t linger_ms)
{
	if (s->step != SESSION_OPEN)
		return;
	s->step = SESSION_ENDING;
	s->linger_ms = linger_ms;
	stream_pause(s->stream, true);
	task_schedule(s->task);
}

void session_abort(struct session *s, const char *why)
{
	if (s->step == SESSION_OPEN)
		log_client(LOG_LEVEL_DEBUG, label(s), "%s", why);
	end_later(s, 0);
}

void session_finish(struct session *s, int64_t wait_ms)
{
	end_later(s, wait_ms);
	if (s->step == SESSION_ENDING && wait_ms < s->linger_ms)
		s->linger_ms = wait_ms;
	else if (s->step == SESSION_LINGERING)
		timer_set(s->timer, loop_now_ms() + wait_ms);
}

/* A client that sends no more is kept as long as something is due to it. */
void session_idle(struct session *s)
{
	if (s->half_closed && s->step == SESSION_OPEN && !s->dialect->is_busy(s))
		end_later(s, INT64_MAX);
}

static void tell_dropped(struct session *s)
{
	uint64_t dropped = s->dropped;
	s->dropped = 0;
	if (dropped)
		s->dialect->on_room(s, dropped);
}

static int64_t grace_ms(const struct session *s)
{
	return ipc_limits(s->ipc)->value[LIMIT_CLIENT_QUEUE_GRACE];
}

static void note_reading(struct session *s)
{
	s->read_ms = loop_now_ms();
	s->unread = stream_unread(s->stream);
}

/* Bytes that a client must not leave unread: those past the soft limit, and all of one that waits for nothing else. */
static void update_behind(struct session *s)
{
	bool lingers = s->step == SESSION_LINGERING;
	bool behind = lingers ? stream_queued(s->stream) > 0 : over_soft_limit(s);
	if (behind && !s->behind) {
		note_reading(s);
		timer_set(s->grace, s->read_ms + grace_ms(s));
	}
	s->behind = behind;
}

static void on_written(void *arg)
{
	struct session *s = arg;
	note_reading(s);
	update_behind(s);
}

static void update_pause(struct session *s)
{
	bool paused = s->step != SESSION_LINGERING && stream_queued(s->stream) > 0 && (s->paused || over_soft_limit(s));
	if (paused == s->paused)
		return;
	s->paused = paused;
	if (paused)
		ipc_limit_reached(s->ipc, LIMIT_CLIENT_QUEUE_SOFT);
	stream_pause(s->stream, paused);
}

void session_send(struct session *s, const struct buf *lines)
{
	if (s->step != SESSION_OPEN)
		return;
	int r = buf_failed(lines) ? lines->error : stream_write(s->stream, buf_span(lines));
	if (r == 0) {
		update_behind(s);
		update_pause(s);
		return;
	}
	if (r == -ENOBUFS || r == -E2BIG)
		ipc_limit_reached(s->ipc, LIMIT_CLIENT_QUEUE_HARD);
	if (r == -ENOBUFS || r == -E2BIG)
		log_client(LOG_LEVEL_WARNING, label(s),
			   "disconnected, %s (%lld bytes) was reached by what it has not read",
			   limit_table[LIMIT_CLIENT_QUEUE_HARD].key,
			   (long long)ipc_limits(s->ipc)->value[LIMIT_CLIENT_QUEUE_HARD]);
	else if (r == -ENOMEM)
		log_client(LOG_LEVEL_WARNING, label(s), "disconnected, out of memory");
	session_abort(s, "it cannot be written to");
}

void session_send_event(struct session *s, const struct buf *lines)
{
	if (s->step != SESSION_OPEN)
		return;
	if (over_soft_limit(s)) {
		s->dropped++;
		s->dropped_in_all++;
		return;
	}
	tell_dropped(s);
	session_send(s, lines);
}

static void on_grace_end(void *arg)
{
	struct session *s = arg;
	int64_t grace = grace_ms(s), due_ms = s->read_ms + grace;
	if (!s->behind || s->step == SESSION_ENDING)
		return;
	/* The kernel takes no more before the client has read most of what is there: it may have read some. */
	if (stream_unread(s->stream) < s->unread) {
		note_reading(s);
		due_ms = s->read_ms + grace;
	}
	if (loop_now_ms() < due_ms) {
		timer_set(s->grace, due_ms);
		return;
	}
	char number[32];
	snprintf(number, sizeof number, "#%" PRIu64, s->id);
	ipc_limit_reached(s->ipc, LIMIT_CLIENT_QUEUE_GRACE);
	log_client(LOG_LEVEL_WARNING, s->step == SESSION_LINGERING ? number : label(s),
		   "disconnected, it has read nothing for %lld ms (%s) and %zu bytes are waiting for it",
		   (long long)grace, limit_table[LIMIT_CLIENT_QUEUE_GRACE].key, stream_queued(s->stream));
	if (s->step == SESSION_LINGERING)
		destroy(s);
	else
		session_abort(s, "it does not read");
}

static void on_line(void *arg, struct span line, bool unterminated)
{
	struct session *s = arg;
	(void)unterminated;
	if (s->step == SESSION_OPEN)
		s->dialect->on_line(s, line);
}

static void on_too_long(void *arg, struct span start)
{
	struct session *s = arg;
	(void)start;
	if (s->step != SESSION_OPEN)
		return;
	s->dialect->on_too_long(s);
	session_finish(s, LINGER_MS);
}

static void free_session(void *arg)
{
	struct session *s = arg;
	free(s);
}

static void unlink_session(struct session *s)
{
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
}

static void link_session(struct session *s, struct session **list)
{
	s->next = *list;
	s->at = list;
	if (s->next)
		s->next->at = &s->next;
	*list = s;
}

/* The very end: the stream goes, memory follows after the pass. */
static void destroy(struct session *s)
{
	if (s->step == SESSION_GONE)
		return;
	session_settle(s);
	s->step = SESSION_GONE;
	struct ipc *ipc = s->ipc;
	unlink_session(s);
	stream_close(s->stream);
	task_free(s->task);
	timer_free(s->timer);
	timer_free(s->grace);
	loop_bury(ipc->options.loop, s, free_session);
	ipc_session_ended(ipc, s);
}

static void on_end(void *arg, int error)
{
	struct session *s = arg;
	s->half_closed = true;
	if (s->step == SESSION_LINGERING) {
		/* Unsent bytes are still worth the wait, unread ones no longer are. */
		if (error || stream_queued(s->stream) == 0)
			destroy(s);
	} else if (error) {
		session_abort(s, "reading failed");
	} else {
		session_idle(s);
	}
}

static void on_broken(void *arg, int error)
{
	struct session *s = arg;
	(void)error;
	if (s->step == SESSION_LINGERING)
		destroy(s);
	else
		session_abort(s, "it has hung up");
}

static void on_drained(void *arg)
{
	struct session *s = arg;
	if (s->step == SESSION_LINGERING) {
		if (s->half_closed)
			destroy(s);
		return;
	}
	if (s->step != SESSION_OPEN)
		return;
	update_pause(s);
	tell_dropped(s);
}

static void on_linger_end(void *arg)
{
	destroy(arg);
}

/* The task: everything of the client goes, but for bytes that it may still read. */
static void end(void *arg)
{
	struct session *s = arg;
	struct ipc *ipc = s->ipc;
	assert(s->step == SESSION_ENDING);
	unlink_session(s);
	link_session(s, &ipc->leaving);
	session_settle(s);
	s->account = session_account(s);
	s->step = SESSION_LINGERING;
	s->dialect->on_end(s);
	router_client_gone(ipc->options.router, s->id);
	bool unsent = stream_queued(s->stream) > 0;
	if (s->linger_ms == 0 || (!unsent && s->half_closed)) {
		destroy(s);
		return;
	}
	/* What the client still sends is read and forgotten, so that it is not stopped by a full pipe before it has
	 * seen the error. */
	stream_finish_writing(s->stream);
	stream_pause(s->stream, false);
	if (s->linger_ms != INT64_MAX)
		timer_set(s->timer, loop_now_ms() + s->linger_ms);
	s->behind = false;
	update_behind(s);
}

struct session *session_new(struct ipc *ipc, int fd, uint64_t id, const struct dialect *dialect, void *state)
{
	static const struct stream_callbacks callbacks = {
		.on_line = on_line,
		.on_too_long = on_too_long,
		.on_end = on_end,
		.on_broken = on_broken,
		.on_written = on_written,
		.on_drained = on_drained,
	};
	const struct limits *limits = ipc_limits(ipc);
	struct stream_options options = {
		.max_line = (size_t)limits->value[LIMIT_MESSAGE_BYTES],
		.max_queue = (size_t)limits->value[LIMIT_CLIENT_QUEUE_HARD],
	};
	struct loop *loop = ipc->options.loop;
	struct session *s = xnew(struct session);
	s->ipc = ipc;
	s->id = id;
	s->dialect = dialect;
	s->state = state;
	s->task = task_new(loop, end, s);
	s->timer = timer_new(loop, on_linger_end, s);
	s->grace = timer_new(loop, on_grace_end, s);
	s->stream = stream_new(loop, fd, fd, &options, &callbacks, s);
	link_session(s, &ipc->sessions);
	return s;
}

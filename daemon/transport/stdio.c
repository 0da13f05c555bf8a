#include "transport/stdio.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/redact.h"
#include "transport/stdio_internal.h"
#include "xalloc.h"

/* How long a process that is known to be dead may still be read from, for a grandchild that holds its pipe, in
 * milliseconds (PITFALLS "Children"); and how much is read at most of what is in the pipe then. */
#define DRAIN_MS 50
#define DRAIN_BYTES ((size_t)2 << 20)

enum pipe_end { READ_END, WRITE_END };

static struct stdio *of(const struct transport *t)
{
	return (struct stdio *)t;
}

static bool is_on(const struct stdio *s)
{
	return s->state == STDIO_CONNECTED;
}

/* --- the end: every way leads through here, once --- */

/* S9, S10: in flight fails, then the tree is ended. on_process_ended() follows. */
static void end_connection(struct stdio *s)
{
	s->state = STDIO_ENDING;
	timer_cancel(s->drain_timer);
	pending_fail_all(s->pending, MCPD_E_TRANSPORT, "Transport closed");
	s->failed_all = true;
	if (s->io) {
		/* What was told to be unsent must not go out now. */
		stream_drop_unsent(s->io);
		stream_finish_writing(s->io);
	}
	if (s->process)
		process_end(s->process);
	else
		task_schedule(s->task);
}

/* Why the connection ended, for people. */
static char *describe_end(const struct stdio *s)
{
	if (s->closed_by_us)
		return NULL;
	const char *what = s->error_how ? s->error_how : s->exit_how ? s->exit_how : s->lost_how;
	char *lines = tail_text(&s->stderr_tail);
	char *reason = lines && s->connected_once ? xasprintf("%s; last stderr lines: %s", what, lines) :
						    xstrdup(what ? what : "");
	free(lines);
	return reason;
}

static void tell_closed(struct stdio *s)
{
	if (pending_count(s->pending) > 0) {
		task_schedule(s->task); /* asked for by a completion just now, and about to fail */
		return;
	}
	s->state = STDIO_CLOSED;
	char *reason = describe_end(s);
	if (s->base.callbacks.on_close)
		s->base.callbacks.on_close(s->base.arg, reason);
	free(reason);
}

static void stdio_get_traffic(const struct transport *t, struct transport_traffic *ret)
{
	const struct stdio *s = of(t);
	*ret = s->traffic;
	if (s->io)
		*ret = (struct transport_traffic){
			.received = stream_received(s->io),
			.sent = stream_written(s->io),
			.unsent = stream_queued(s->io),
		};
}

static void on_process_ended(void *arg)
{
	struct stdio *s = arg;
	/* The last words; what is left on stdout is of no use any more. */
	stream_drain(s->err, DRAIN_BYTES);
	stdio_get_traffic(&s->base, &s->traffic);
	s->traffic.unsent = 0;
	stream_close(s->io);
	stream_close(s->err);
	s->io = s->err = NULL;
	process_free(s->process);
	s->process = NULL;
	tell_closed(s);
}

static void lose(struct stdio *s, const char *how)
{
	s->state = STDIO_LOST;
	if (!s->lost_how)
		s->lost_how = xstrdup(how);
	timer_set(s->drain_timer, loop_now_ms() + DRAIN_MS);
}

static void on_process_exit(void *arg, const char *how, bool signalled)
{
	struct stdio *s = arg;
	if (!signalled)
		s->exit_how = xstrdup(how);
	if (is_on(s))
		lose(s, how);
}

/* The dead process's pipe is still held by somebody: what is in it counts, what may come does not. */
static void on_drain_timer(void *arg)
{
	struct stdio *s = arg;
	stream_drain(s->io, DRAIN_BYTES);
	if (s->state == STDIO_LOST)
		end_connection(s);
}

/* --- the pipes --- */

static void on_line(void *arg, struct span line, bool unterminated)
{
	(void)unterminated; /* delivered if it parses, like any other (S6) */
	stdio_line(arg, line);
}

static void on_too_long(void *arg, struct span start)
{
	stdio_too_long(arg, start);
}

static void on_end(void *arg, int error)
{
	struct stdio *s = arg;
	if (s->state != STDIO_CONNECTED && s->state != STDIO_LOST)
		return;
	if (error && !s->error_how) {
		s->error_how = xasprintf("cannot read from the server: %s", strerror(-error));
		if (is_on(s) && s->base.callbacks.on_error)
			s->base.callbacks.on_error(s->base.arg, s->error_how);
	}
	if (!s->lost_how)
		s->lost_how = xstrdup("the server closed its standard output");
	if (s->state == STDIO_CONNECTED || s->state == STDIO_LOST)
		end_connection(s);
}

static void on_broken(void *arg, int error)
{
	struct stdio *s = arg;
	if (error != -EPIPE && !s->error_how)
		s->error_how = xasprintf("cannot write to the server: %s", strerror(-error));
	if (is_on(s))
		lose(s, "the server closed its standard input");
}

static void on_written(void *arg)
{
	stdio_written(arg);
}

static void on_stderr_line(void *arg, struct span line, bool unterminated)
{
	(void)unterminated;
	struct stdio *s = arg;
	struct buf clean = BUF_INIT;
	line = redact(s->base.redactor, line, &clean);
	tail_add(&s->stderr_tail, line);
	if (s->base.callbacks.on_log)
		s->base.callbacks.on_log(s->base.arg, line, false);
	buf_done(&clean);
}

static void on_stderr_too_long(void *arg, struct span start)
{
	on_stderr_line(arg, start, false);
}

/* --- connect --- */

static void on_process_started(void *arg, const char *error, bool permanent)
{
	struct stdio *s = arg;
	if (s->state != STDIO_STARTING)
		return;
	if (!error) {
		s->state = STDIO_CONNECTED;
		s->connected_once = true;
		stream_pause(s->io, false);
		if (s->base.callbacks.on_connect)
			s->base.callbacks.on_connect(s->base.arg, NULL);
		return;
	}
	s->state = STDIO_ENDING;
	s->lost_how = xstrdup(error);
	struct transport_reply failure = { .code = MCPD_E_TRANSPORT, .message = error, .permanent = permanent };
	if (s->base.callbacks.on_connect)
		s->base.callbacks.on_connect(s->base.arg, &failure);
	end_connection(s);
}

static void close_pipes(int pipes[3][2])
{
	for (int i = 0; i < 3; i++)
		for (int end = READ_END; end <= WRITE_END; end++)
			if (pipes[i][end] >= 0)
				close(pipes[i][end]);
}

static int make_pipes(int pipes[3][2])
{
	for (int i = 0; i < 3; i++)
		pipes[i][READ_END] = pipes[i][WRITE_END] = -1;
	for (int i = 0; i < 3; i++) {
		if (pipe2(pipes[i], O_CLOEXEC) < 0) {
			int error = -errno;
			close_pipes(pipes);
			return error;
		}
	}
	return 0;
}

static void make_streams(struct stdio *s, int pipes[3][2])
{
	static const struct stream_callbacks io_callbacks = {
		.on_line = on_line,
		.on_too_long = on_too_long,
		.on_end = on_end,
		.on_broken = on_broken,
		.on_written = on_written,
	};
	static const struct stream_callbacks err_callbacks = {
		.on_line = on_stderr_line,
		.on_too_long = on_stderr_too_long,
	};
	struct stream_options io_options = {
		.max_line = (size_t)s->limits->value[LIMIT_MESSAGE_BYTES],
		.max_queue = (size_t)s->limits->value[LIMIT_SERVER_QUEUE],
	};
	struct stream_options err_options = { .max_line = (size_t)s->limits->value[LIMIT_LOG_LINE_BYTES] };
	s->io = stream_new(s->loop, pipes[STDOUT_FILENO][READ_END], pipes[STDIN_FILENO][WRITE_END], &io_options,
			   &io_callbacks, s);
	/* Not before on_connect. */
	stream_pause(s->io, true);
	s->err = stream_new(s->loop, pipes[STDERR_FILENO][READ_END], -1, &err_options, &err_callbacks, s);
}

static void stdio_connect(struct transport *t)
{
	static const struct process_callbacks callbacks = {
		.on_started = on_process_started,
		.on_exit = on_process_exit,
		.on_ended = on_process_ended,
	};
	struct stdio *s = of(t);
	if (s->state != STDIO_NEW)
		return;
	s->state = STDIO_STARTING;
	int pipes[3][2];
	s->start_error = make_pipes(pipes);
	if (s->start_error) {
		task_schedule(s->task);
		return;
	}
	make_streams(s, pipes);
	struct process_options options = {
		.name = s->name,
		.command = s->command,
		.args = (const char *const *)s->args,
		.env = (const char *const *)s->env,
		.cwd = s->cwd,
		.grace_ms = s->grace_ms,
		.memory_max = s->memory_max,
		.stdin_fd = pipes[STDIN_FILENO][READ_END],
		.stdout_fd = pipes[STDOUT_FILENO][WRITE_END],
		.stderr_fd = pipes[STDERR_FILENO][WRITE_END],
	};
	s->process = process_start(s->host, s->loop, &options, &callbacks, s);
}

/* What may not be done inside the call that asked for it. */
static void on_task(void *arg)
{
	struct stdio *s = arg;
	if (s->state == STDIO_STARTING && s->start_error) {
		char *error = xasprintf("cannot make pipes for \"%s\": %s", s->command, strerror(-s->start_error));
		on_process_started(s, error, false);
		free(error);
	} else if (s->state == STDIO_ENDING && !s->failed_all) {
		end_connection(s);
	} else if (s->state == STDIO_ENDING && !s->process) {
		tell_closed(s);
	}
}

/* --- the rest of the interface --- */

static bool stdio_is_connected(const struct transport *t)
{
	return is_on(of(t));
}

static uint64_t stdio_op_request(struct transport *t, struct span method, struct span params,
				 const struct transport_options *options)
{
	return stdio_send(of(t), PENDING_REQUEST, method, params, options);
}

static uint64_t stdio_op_notify(struct transport *t, struct span method, struct span params,
				const struct transport_options *options)
{
	return stdio_send(of(t), PENDING_NOTIFY, method, params, options);
}

static void stdio_cancel(struct transport *t, uint64_t request, const char *reason)
{
	pending_cancel(of(t)->pending, request, reason);
}

static void stdio_touch(struct transport *t, uint64_t request)
{
	pending_touch(of(t)->pending, request);
}

static struct span stdio_wire_id(const struct transport *t, uint64_t request)
{
	return pending_wire_id(of(t)->pending, request);
}

static int stdio_op_respond(struct transport *t, struct span id, struct span result, struct span error)
{
	return is_on(of(t)) ? stdio_respond(of(t), id, result, error) : -ENOTCONN;
}

static void stdio_set_protocol(struct transport *t, const char *version, bool modern)
{
	(void)modern;
	of(t)->batches = strcmp(version, "2025-03-26") == 0;
}

static void stdio_listen(struct transport *t)
{
	(void)t; /* one stream is all there is */
}

static pid_t stdio_pid(const struct transport *t)
{
	return of(t)->process ? process_pid(of(t)->process) : 0;
}

static void stdio_close(struct transport *t)
{
	struct stdio *s = of(t);
	if (s->state == STDIO_ENDING || s->state == STDIO_CLOSED)
		return;
	s->closed_by_us = s->state != STDIO_LOST;
	s->state = STDIO_ENDING;
	task_schedule(s->task);
}

static char **copy_list(const char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	char **copy = xnew_array(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

static void free_list(char **list)
{
	for (char **text = list; *text; text++)
		free(*text);
	free(list);
}

static void stdio_bury(void *object)
{
	struct stdio *s = object;
	pending_free(s->pending);
	stdio_forget_notifies(s);
	tail_done(&s->stderr_tail);
	task_free(s->task);
	timer_free(s->drain_timer);
	free(s->name);
	free(s->command);
	free_list(s->args);
	free_list(s->env);
	free(s->cwd);
	free(s->exit_how);
	free(s->lost_how);
	free(s->error_how);
	redactor_free(s->base.redactor);
	free(s);
}

static void stdio_free(struct transport *t)
{
	struct stdio *s = of(t);
	assert(s->state == STDIO_NEW || s->state == STDIO_CLOSED);
	s->state = STDIO_CLOSED;
	loop_bury(s->loop, s, stdio_bury);
}

static const struct transport_ops stdio_ops = {
	.kind = TRANSPORT_STDIO,
	.connect = stdio_connect,
	.is_connected = stdio_is_connected,
	.request = stdio_op_request,
	.notify = stdio_op_notify,
	.cancel = stdio_cancel,
	.touch = stdio_touch,
	.wire_id = stdio_wire_id,
	.respond = stdio_op_respond,
	.set_protocol = stdio_set_protocol,
	.listen = stdio_listen,
	.pid = stdio_pid,
	.get_traffic = stdio_get_traffic,
	.close = stdio_close,
	.free = stdio_free,
};

static enum pending_phase give_up(void *arg, uint64_t number, void *data)
{
	(void)number;
	return stdio_phase(arg, data);
}

static void on_late(void *arg, uint64_t number)
{
	struct stdio *s = arg;
	if (s->base.callbacks.on_late_answer)
		s->base.callbacks.on_late_answer(s->base.arg, number);
}

struct transport *stdio_new(struct loop *loop, const struct stdio_options *options,
			    const struct transport_callbacks *callbacks, void *arg)
{
	static const struct pending_hooks hooks = { .give_up = give_up, .on_late = on_late };
	struct stdio *s = xnew(struct stdio);
	s->base = (struct transport){
		.ops = &stdio_ops, .redactor = options->redactor, .callbacks = *callbacks, .arg = arg
	};
	s->loop = loop;
	s->host = options->host;
	s->limits = options->limits;
	s->name = xstrdup(options->name);
	s->command = xstrdup(options->command);
	s->args = copy_list(options->args);
	s->env = copy_list(options->env);
	s->cwd = options->cwd ? xstrdup(options->cwd) : NULL;
	s->grace_ms = options->grace_ms;
	s->memory_max = options->memory_max;
	s->notifies_end = &s->notifies;
	s->pending = pending_new(loop, options->timeout_ms, &hooks, s);
	s->task = task_new(loop, on_task, s);
	s->drain_timer = timer_new(loop, on_drain_timer, s);
	return &s->base;
}

uint64_t stdio_noise_lines(const struct transport *t)
{
	return of(t)->noise_lines;
}

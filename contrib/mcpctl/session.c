/* One connection, one request at a time; Ctrl-C becomes a cancellation. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ctl.h"
#include "mcpd-version.h"
#include "proto/errors.h"

#define CONNECT_TIMEOUT_MS 15000

static int signal_fd = -1;
static bool interrupted;

bool session_interrupted(void)
{
	return interrupted;
}

/* Ctrl-C is read from a descriptor, so that it can be waited for together with the socket. */
static void watch_interrupts(void)
{
	sigset_t set;
	if (signal_fd >= 0)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* 0 or a negative errno; mcpd_last_error() then says why, if there is a client. */
static int open_client(struct ctl *ctl, bool start, int timeout_ms)
{
	mcpd_client_free(ctl->client);
	ctl->client = NULL;
	int r = mcpd_client_new(&ctl->client);
	if (r == 0)
		r = mcpd_set_socket(ctl->client, ctl->socket_path);
	if (r == 0 && start)
		r = mcpd_set_start(ctl->client, NULL);
	if (r == 0)
		r = mcpd_set_identity(ctl->client, "mcpctl", MCPD_VERSION, NULL);
	if (r == 0)
		r = mcpd_connect(ctl->client, timeout_ms);
	if (r == 0)
		watch_interrupts();
	return r;
}

bool session_is_there(struct ctl *ctl)
{
	return open_client(ctl, false, CONNECT_TIMEOUT_MS) == 0;
}

int session_open_within(struct ctl *ctl, bool start, int timeout_ms)
{
	int r = open_client(ctl, start && !ctl->no_start, timeout_ms);
	if (r == 0)
		return EXIT_OK;
	if (r == -ENOMEM) {
		complain("out of memory");
		return EXIT_FAILED;
	}
	fail(ctl, "%s", mcpd_last_error(ctl->client));
	return EXIT_NO_DAEMON;
}

int session_open(struct ctl *ctl, bool start)
{
	return session_open_within(ctl, start, CONNECT_TIMEOUT_MS);
}

/* Waits for the socket or a signal and handles both. 0 or the errno that ended the connection. */
static int session_step(struct ctl *ctl)
{
	struct pollfd fds[2] = {
		{ .fd = mcpd_get_fd(ctl->client), .events = (short)mcpd_get_events(ctl->client) },
		{ .fd = signal_fd, .events = POLLIN },
	};
	if (poll(fds, 2, mcpd_get_timeout(ctl->client)) < 0 && errno != EINTR)
		return -errno;
	struct signalfd_siginfo info;
	if (fds[1].revents && read(signal_fd, &info, sizeof info) > 0) {
		if (interrupted) {
			output_flush(0);
			_exit(EXIT_INTERRUPTED); /* asked twice: do not wait for the server */
		}
		interrupted = true;
	}
	int r = mcpd_process(ctl->client);
	return r < 0 ? r : 0;
}

struct pending {
	mcpd_reply *reply;
	bool progress_drawn;
};

static void on_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	struct pending *pending = userdata;
	pending->reply = mcpd_reply_ref(reply);
}

/* One line that is drawn over and over on standard error. */
static void on_progress(mcpd_client *client, uint64_t request, const char *params, void *userdata)
{
	(void)client, (void)request;
	struct pending *pending = userdata;
	struct span object = span_of(params);
	struct span progress = json_member(object, "progress"), total = json_member(object, "total");
	struct buf line = BUF_INIT, message = BUF_INIT;
	json_string_decode(json_member(object, "message"), &message);
	buf_add_text(&line, "\r\033[K");
	buf_add_span(&line, progress);
	if (total.ptr) {
		buf_add_char(&line, '/');
		buf_add_span(&line, total);
	}
	buf_add_char(&line, ' ');
	for (size_t i = 0; i < message.len && i < 200; i++)
		buf_add_char(&line, (unsigned char)message.data[i] < 0x20 ? ' ' : message.data[i]);
	if (!buf_failed(&line))
		fwrite(line.data, 1, line.len, stderr);
	fflush(stderr);
	pending->progress_drawn = true;
	buf_done(&line);
	buf_done(&message);
}

static void tell_lost(struct ctl *ctl, int error)
{
	complain("the connection to the daemon was lost: %s",
		 *mcpd_last_error(ctl->client) ? mcpd_last_error(ctl->client) : strerror(-error));
}

void fail(const struct ctl *ctl, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = NULL;
	int n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		return;
	if (ctl->json) {
		struct buf json = BUF_INIT;
		buf_add_text(&json, "{\"error\":{\"code\":0,\"message\":");
		buf_add_json_text(&json, text);
		buf_add_text(&json, "}}");
		say_json(buf_span(&json));
		buf_done(&json);
	} else {
		complain("%s", text);
	}
	free(text);
}

/* What a person can do about an error. */
static const char *advice_for(int code)
{
	switch (code) {
	case MCPD_E_UNKNOWN_SERVER:
		return "`mcpctl servers` lists them; servers are configured in mcp.json, `mcpctl reload` reads it anew";
	case MCPD_E_UNAVAILABLE:
		return "`mcpctl logs SERVER` shows what it said; `mcpctl reconnect SERVER` tries again";
	case MCPD_E_TIMEOUT:
		return "give it more time with --timeout SECONDS, or set \"timeout\" for the server";
	case MCPD_E_METHOD_NOT_FOUND:
		return "the daemon may be older than this mcpctl: `mcpctl status` shows its version";
	default:
		return NULL;
	}
}

static void tell_json_failure(const mcpd_reply *reply)
{
	struct buf text = BUF_INIT;
	buf_addf(&text, "{\"error\":{\"code\":%d,\"message\":", mcpd_reply_code(reply));
	buf_add_json_text(&text, mcpd_reply_message(reply));
	if (mcpd_reply_data(reply)) {
		buf_add_text(&text, ",\"data\":");
		buf_add_text(&text, mcpd_reply_data(reply));
	}
	buf_add_text(&text, "}}");
	say_json(buf_span(&text));
	buf_done(&text);
}

int session_tell_failure(struct ctl *ctl, const mcpd_reply *reply)
{
	int code = mcpd_reply_code(reply);
	int status = interrupted ? EXIT_INTERRUPTED : EXIT_FAILED;
	if (ctl->json) {
		tell_json_failure(reply);
		return status;
	}
	if (interrupted && code == MCPD_E_CANCELLED) {
		complain("cancelled");
		return status;
	}
	complain("%s", mcpd_reply_message(reply));
	struct span data = span_of(mcpd_reply_data(reply));
	struct buf last = BUF_INIT;
	struct span why = text_member(json_member(data, "lastError"), "message", &last);
	if (why.len && !strstr(mcpd_reply_message(reply), last.data))
		complain("its last error: %.*s", (int)why.len, why.ptr);
	buf_done(&last);
	if (mcpd_reply_maybe_executed(reply))
		complain("the server may have run the request");
	struct buf how = BUF_INIT;
	struct span command = text_member(data, "how", &how);
	if (command.len)
		complain("run: %.*s", (int)command.len, command.ptr);
	else if (advice_for(code))
		complain("%s", advice_for(code));
	buf_done(&how);
	return status;
}

int session_request(struct ctl *ctl, const char *method, const struct buf *params, bool progress,
		    mcpd_reply **ret_reply)
{
	struct pending pending = { 0 };
	struct mcpd_request_options options = { .size = sizeof options };
	if (progress && !ctl->json && isatty(STDERR_FILENO))
		options.progress = on_progress;
	if (params && buf_failed(params)) {
		complain("out of memory");
		return EXIT_FAILED;
	}
	uint64_t request;
	int r = mcpd_request(ctl->client, method, params ? params->data : NULL, &options, on_reply, &pending, &request);
	if (r < 0) {
		complain("%s", mcpd_last_error(ctl->client));
		return EXIT_FAILED;
	}
	bool cancelled = false;
	while (!pending.reply && r >= 0) {
		r = session_step(ctl);
		if (interrupted && !cancelled && !pending.reply && r >= 0) {
			cancelled = true;
			mcpd_cancel(ctl->client, request, "interrupted by the user");
		}
	}
	if (pending.progress_drawn)
		fputs("\r\033[K", stderr);
	if (!pending.reply || mcpd_reply_status(pending.reply) < 0) {
		tell_lost(ctl, r);
		mcpd_reply_unref(pending.reply);
		return EXIT_NO_DAEMON;
	}
	if (mcpd_reply_status(pending.reply) > 0) {
		int status = session_tell_failure(ctl, pending.reply);
		mcpd_reply_unref(pending.reply);
		return status;
	}
	*ret_reply = pending.reply;
	return EXIT_OK;
}

bool session_wait_end(struct ctl *ctl)
{
	while (!interrupted)
		if (session_step(ctl) < 0)
			return true;
	return false;
}

int session_follow(struct ctl *ctl, mcpd_event_fn *fn, void *userdata)
{
	mcpd_on_event(ctl->client, fn, userdata);
	int status = output_flush(EXIT_OK);
	while (status == EXIT_OK && !interrupted) {
		int r = session_step(ctl);
		status = output_flush(status);
		if (r < 0 && status == EXIT_OK) {
			tell_lost(ctl, r);
			return EXIT_NO_DAEMON;
		}
	}
	return interrupted ? EXIT_OK : status;
}

void params_begin(struct buf *params)
{
	buf_init(params, 0);
	buf_add_char(params, '{');
}

static void params_name(struct buf *params, const char *name)
{
	if (params->len > 1)
		buf_add_char(params, ',');
	buf_add_json_text(params, name);
	buf_add_char(params, ':');
}

void params_text(struct buf *params, const char *name, const char *value)
{
	params_name(params, name);
	buf_add_json_text(params, value);
}

void params_int(struct buf *params, const char *name, int64_t value)
{
	params_name(params, name);
	buf_add_int(params, value);
}

void params_json(struct buf *params, const char *name, struct span value)
{
	params_name(params, name);
	buf_add_span(params, value);
}

void params_end(struct buf *params)
{
	buf_add_char(params, '}');
}

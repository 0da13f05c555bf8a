#include "ipc/ipc.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "ipc/asking.h"
#include "ipc/control_internal.h"
#include "ipc/facade.h"
#include "ipc/ipc_internal.h"
#include "router/accounts.h"
#include "xalloc.h"

void ipc_limit_reached(const struct ipc *ipc, enum mcpd_limit limit)
{
	accounts_limit(router_accounts(ipc->options.router), limit);
}

const struct limits *ipc_limits(const struct ipc *ipc)
{
	return &manager_config(ipc->options.manager)->limits;
}

struct session *ipc_session(const struct ipc *ipc, uint64_t id)
{
	struct session *s = ipc->sessions;
	while (s && session_id(s) != id)
		s = session_next(s);
	return s;
}

unsigned ipc_clients(const struct ipc *ipc)
{
	return ipc->n_sessions;
}

void ipc_changed(struct ipc *ipc)
{
	if (ipc->options.on_change)
		ipc->options.on_change(ipc->options.arg);
}

/* --- what the router tells --- */

static void on_server(void *arg, struct server *server)
{
	struct ipc *ipc = arg;
	control_tell_server(ipc, server);
	ipc_changed(ipc);
}

static void on_server_removed(void *arg, const char *name)
{
	struct ipc *ipc = arg;
	control_tell_removed(ipc, name);
	control_listing_changed(ipc);
	facade_listing_changed(ipc);
	facade_tell_removed(ipc);
	ipc_changed(ipc);
}

static void on_list(void *arg, struct server *server, enum server_list list)
{
	if (list == SERVER_TOOLS)
		control_tell_tools(arg, server);
	facade_tell_list(arg, server, list);
}

static void on_listing(void *arg, struct server *server)
{
	(void)server;
	control_listing_changed(arg);
	facade_listing_changed(arg);
}

static void on_log(void *arg, struct server *server, const char *at, struct span text)
{
	control_tell_log(arg, server, at, text);
}

static void on_notification(void *arg, const struct router_notification *notification)
{
	control_tell_notification(arg, notification);
	facade_tell_notification(arg, notification);
}

static void on_call_end(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	(void)reply;
	control_tell_call(arg, info);
}

/* In the control dialect nothing comes behind the answer. */
static void on_task_progress(void *arg, uint64_t client, struct span params)
{
	struct session *s = ipc_session(arg, client);
	if (s && session_dialect(s) == &facade_dialect)
		facade_task_progress(s, params);
}

static void ask(void *arg, const struct client_question *question)
{
	struct session *s = ipc_session(arg, question->client);
	if (!s)
		return;
	if (session_dialect(s) == &facade_dialect)
		facade_ask(s, question);
	else
		control_ask(s, question);
}

static void withdraw(void *arg, uint64_t client, uint64_t question, const char *reason)
{
	struct session *s = ipc_session(arg, client);
	if (!s)
		return;
	if (session_dialect(s) == &facade_dialect)
		facade_withdraw(s, question, reason);
	else
		asking_withdraw(s, question, reason);
}

/* Nothing that one life of the daemon gave out means anything to the next. */
static uint64_t make_nonce(void)
{
	uint64_t nonce;
	if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce)
		nonce = (uint64_t)loop_now_us() << 20 ^ (uint64_t)getpid();
	return nonce;
}

struct ipc *ipc_new(const struct ipc_options *options)
{
	static const struct router_callbacks callbacks = {
		.on_server = on_server,
		.on_server_removed = on_server_removed,
		.on_list = on_list,
		.on_listing = on_listing,
		.on_log = on_log,
		.on_notification = on_notification,
		.on_task_progress = on_task_progress,
		.on_call_end = on_call_end,
		.ask = ask,
		.withdraw = withdraw,
	};
	struct ipc *ipc = xnew(struct ipc);
	ipc->options = *options;
	ipc->started_at = time(NULL) - (loop_now_ms() - options->started_ms) / 1000;
	ipc->nonce = make_nonce();
	router_set_callbacks(options->router, &callbacks, ipc);
	return ipc;
}

/* --- sessions --- */

/* A client too many is told so, as far as one write goes, and closed. */
static void refuse_client(const struct ipc *ipc, int fd)
{
	ipc_limit_reached(ipc, LIMIT_CLIENTS);
	struct buf line = BUF_INIT, data = BUF_INIT;
	buf_addf(&data, "{\"limit\":\"%s\",\"value\":%lld}", limit_table[LIMIT_CLIENTS].key,
		 (long long)ipc_limits(ipc)->value[LIMIT_CLIENTS]);
	jsonrpc_write_error(&line, SPAN_NONE, MCPD_E_LIMIT, "too many clients are connected", buf_span(&data));
	ssize_t n = buf_failed(&line) ? 0 : write(fd, line.data, line.len);
	(void)n;
	close(fd);
	buf_done(&line);
	buf_done(&data);
}

void ipc_accept(struct ipc *ipc, int fd)
{
	if (ipc->closing) {
		close(fd);
		return;
	}
	if (ipc->n_sessions >= ipc_limits(ipc)->value[LIMIT_CLIENTS]) {
		refuse_client(ipc, fd);
		return;
	}
	uint64_t id = ++ipc->last_session;
	ipc->n_sessions++;
	router_client_add(ipc->options.router, id);
	session_new(ipc, fd, id, &control_dialect, control_new());
	ipc_changed(ipc);
}

void ipc_stop_calls(struct ipc *ipc)
{
	ipc->calls_stopped = true;
}

static void tell_closed(void *arg)
{
	struct ipc *ipc = arg;
	ipc->closed(ipc->closed_arg);
}

void ipc_session_ended(struct ipc *ipc, struct session *session)
{
	(void)session;
	ipc->n_sessions--;
	if (ipc->closing && ipc->n_sessions == 0)
		task_schedule(ipc->closed_task);
	ipc_changed(ipc);
}

void ipc_close(struct ipc *ipc, int64_t wait_ms, loop_fn *done, void *arg)
{
	assert(!ipc->closing);
	ipc->closing = true;
	ipc->closed = done;
	ipc->closed_arg = arg;
	ipc->closed_task = task_new(ipc->options.loop, tell_closed, ipc);
	facade_tell_closing(ipc);
	for (struct session *s = ipc->sessions; s; s = session_next(s))
		session_finish(s, wait_ms);
	for (struct session *s = ipc->leaving; s; s = session_next(s))
		session_finish(s, wait_ms);
	if (ipc->n_sessions == 0)
		task_schedule(ipc->closed_task);
}

void ipc_free(struct ipc *ipc)
{
	if (!ipc)
		return;
	assert(!ipc->sessions && !ipc->leaving && ipc->n_sessions == 0 && !ipc->listing_waits);
	router_set_callbacks(ipc->options.router, NULL, NULL);
	task_free(ipc->closed_task);
	buf_done(&ipc->line);
	buf_done(&ipc->params);
	free(ipc);
}

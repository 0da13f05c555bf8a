#include "manager/server_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "manager/instance.h"
#include "manager/server_private.h"
#include "proto/json_iter.h"
#include "xalloc.h"

static void on_deadline(void *arg);

/* ---- replies that outlive their callback ---- */

void reply_keep(struct transport_reply *to, const struct transport_reply *from)
{
	*to = *from;
	char *error = from->error.ptr ? malloc(from->error.len) : NULL;
	if (error)
		memcpy(error, from->error.ptr, from->error.len);
	to->error = error ? (struct span){ error, from->error.len } : SPAN_NONE;
	to->result = to->http_body = SPAN_NONE;
	to->message = from->message ? xstrdup(from->message) : NULL;
	to->www_authenticate = from->www_authenticate ? xstrdup(from->www_authenticate) : NULL;
	to->mcp_auth_server = from->mcp_auth_server ? xstrdup(from->mcp_auth_server) : NULL;
}

void reply_drop(struct transport_reply *kept)
{
	free((char *)kept->error.ptr);
	free((char *)kept->message);
	free((char *)kept->www_authenticate);
	free((char *)kept->mcp_auth_server);
	*kept = (struct transport_reply){ 0 };
}

/* ---- lists ---- */

void server_call_leave(struct server_call *call)
{
	struct lane *lane = call->lane;
	struct claim *claim = call->claim;
	if (lane && call->instance) {
		TAILQ_REMOVE(&lane->sent, call, link);
		lane->n_sent--;
		if (!call->held)
			turns_returned(call);
		lane_pump_later(lane);
	} else if (lane) {
		TAILQ_REMOVE(&lane->waiting, call, link);
		lane->n_waiting--;
		turns_dequeue(lane, call);
	} else if (claim) {
		TAILQ_REMOVE(&claim->calls, call, link);
	}
	call->lane = NULL;
	call->claim = NULL;
	if (claim)
		sharing_claim_left(claim->server, claim);
}

struct server_call *server_call_find(struct server *server, uint64_t id)
{
	struct server_call *call = idmap_get(&server->m->calls, id);
	return call && call->server_id == server->id && (call->lane || call->claim) ? call : NULL;
}

uint64_t server_call_of(const struct instance *inst, uint64_t mcp_call)
{
	struct server_call *call;
	if (inst->lane)
		TAILQ_FOREACH(call, &inst->lane->sent, link)
	if (call->instance == inst && call->mcp_call == mcp_call)
		return call->id;
	return 0;
}

/* ---- ends ---- */

/* Out of its list; what is told follows from the outbox. */
static void finish_later(struct server_call *call)
{
	struct instance *holder = call->instance;
	server_call_leave(call);
	call->instance = NULL;
	turns_part(call);
	idmap_remove(&call->m->calls, call->id);
	if (call->timer)
		timer_cancel(call->timer);
	call->finished = true;
	outbox_call(call->m, call);
	if (!holder)
		return;
	listen_forget(holder, call);
	instance_call_ended(holder);
}

void server_call_fail(struct server_call *call, const struct transport_reply *reply)
{
	reply_keep(&call->outcome, reply);
	call->outcome.sent |= call->reached;
	finish_later(call);
}

void server_call_settle(struct server_call *call)
{
	call->outcome = (struct transport_reply){ .result = SPAN_LIT("{}") };
	finish_later(call);
}

void server_call_failf(struct server_call *call, int code, const char *format, ...)
{
	char *message = NULL;
	va_list args;
	va_start(args, format);
	if (vasprintf(&message, format, args) < 0)
		message = NULL;
	va_end(args);
	server_call_fail(call,
			 &(struct transport_reply){ .code = code, .message = message ? message : "out of memory" });
	free(message);
}

static void free_call(struct server_call *call)
{
	struct manager *m = call->m;
	turns_part(call);
	if (!call->finished)
		idmap_remove(&m->calls, call->id);
	timer_free(call->timer);
	reply_drop(&call->outcome);
	free(call->copy);
	free(call);
	m->n_calls--;
	if (m->phase != MANAGER_RUNNING)
		outbox_schedule(m);
}

void server_call_finish(struct server_call *call)
{
	transport_done_fn *done = call->done;
	void *arg = call->arg;
	struct transport_reply outcome = call->outcome;
	call->outcome = (struct transport_reply){ 0 };
	free_call(call);
	done(arg, &outcome);
	reply_drop(&outcome);
}

/* A reply has come that is the call's end. */
static void complete(struct server_call *call, const struct transport_reply *reply)
{
	/* One without a payload may come while a connection is being closed, by whoever is on the stack: it is told
	 * in the outbox's turn. */
	if (!reply->result.ptr && !reply->error.ptr && !reply->http_body.ptr) {
		server_call_fail(call, reply);
		return;
	}
	transport_done_fn *done = call->done;
	void *arg = call->arg;
	free_call(call);
	done(arg, reply);
}

/* ---- sending ---- */

/* Whether the call may be sent a second time, after this reply to the first. */
static bool may_repeat(const struct server_call *call, const struct instance *inst, const struct transport_reply *reply)
{
	if (call->repeated || call->this_process || call->m->phase == MANAGER_CLOSING ||
	    (call->deadline_ms && loop_now_ms() >= call->deadline_ms))
		return false;
	if (reply->session_lost)
		return !reply->sent;
	return reply->code == MCPD_E_TRANSPORT && inst->lost && (!reply->sent || call->retry_safe);
}

static void wait_with_clock(struct server_call *call)
{
	if (!call->deadline_ms)
		return;
	if (!call->timer)
		call->timer = timer_new(call->m->loop, on_deadline, call);
	timer_set(call->timer, call->deadline_ms);
}

static void repeat(struct server_call *call, struct lane *lane, bool sent)
{
	void (*resent)(void *) = sent ? call->resent : NULL;
	void *arg = call->arg;
	call->repeated = true;
	call->reached |= sent;
	wait_with_clock(call);
	lane_submit(lane, call);
	if (resent)
		resent(arg);
}

static void on_done(void *arg, const struct transport_reply *reply)
{
	struct server_call *call = arg;
	struct instance *inst = call->instance;
	struct lane *lane = call->lane;
	bool answered = reply->code == 0 || reply->code == MCPD_E_SERVER;
	if (answered)
		inst->heard_ms = loop_now_ms();
	if (lane && answered)
		lane_answered(lane, call);
	else if (lane && reply->sent && (reply->code == MCPD_E_TIMEOUT || reply->code == MCPD_E_CANCELLED))
		turns_give_up(lane, call);
	server_call_leave(call);
	call->instance = NULL;
	if (lane)
		lane_note_failure(lane, inst, reply);
	instance_call_ended(inst);
	if (lane && call->copy && may_repeat(call, inst, reply)) {
		repeat(call, lane, reply->code == MCPD_E_TRANSPORT && reply->sent);
		return;
	}
	if (lane)
		lane_check_idle(lane);
	complete(call, reply);
}

static void on_progress(void *arg, struct span params)
{
	struct server_call *call = arg;
	call->instance->heard_ms = loop_now_ms();
	if (call->lane)
		turns_heard(call->lane, call);
	if (call->progress)
		call->progress(call->arg, params);
}

/* Modern HTTP servers want some arguments repeated in headers, by the tool's schema. */
static struct span schema_of(struct server *server, const struct server_call *call)
{
	if (server->cfg->transport == CONFIG_STDIO || !call->is_tool_call)
		return SPAN_NONE;
	return json_member(tool_list_find(&server->lists[SERVER_TOOLS].list, json_member(call->params, "name")),
			   "inputSchema");
}

static void enter_sent(struct server_call *call, struct lane *lane, struct instance *inst)
{
	if (call->entered_us)
		histogram_observe(&lane->server->counters.wait, loop_now_us() - call->entered_us);
	call->entered_us = 0;
	call->lane = lane;
	call->instance = inst;
	inst->calls++;
	TAILQ_INSERT_TAIL(&lane->sent, call, link);
	lane->n_sent++;
	if (!call->held)
		turns_sent(lane, call);
}

void server_call_hold(struct server_call *call, struct lane *lane, struct instance *inst)
{
	wait_with_clock(call);
	call->held = call->reached = true;
	enter_sent(call, lane, inst);
}

bool server_call_is_kept(const struct server_call *call, const struct instance *inst)
{
	return call->kept && mcp_client_facts(inst->client)->era == MCP_ERA_MODERN;
}

static void take_kept(struct server_call *call, struct lane *lane, struct instance *inst)
{
	if (json_string_is(call->method, "logging/setLevel"))
		server_call_settle(call);
	else
		listen_take(inst, lane, call);
}

void server_call_send(struct server_call *call, struct lane *lane, struct instance *inst)
{
	struct manager *m = call->m;
	if (server_call_is_kept(call, inst)) {
		take_kept(call, lane, inst);
		return;
	}
	if (call->this_process && call->generation && call->generation != inst->generation) {
		server_call_failf(call, MCPD_E_TRANSPORT, "Transport closed");
		return;
	}
	const char *capabilities = m->capabilities ? m->capabilities(m->capabilities_arg, call->client) : NULL;
	struct mcp_call_options options = {
		.owner = call->client,
		.timeout_ms = call->timeout_ms,
		.deadline_ms = call->deadline_ms,
		.want_progress = call->want_progress,
		.relay_input_required = call->relay_input_required,
		.capabilities = span_of(capabilities),
		.log_level = call->log_level,
		.input_schema = schema_of(lane->server, call),
		.done = on_done,
		.progress = on_progress,
		.arg = call,
	};
	if (call->timer)
		timer_cancel(call->timer);
	enter_sent(call, lane, inst);
	call->mcp_call = mcp_client_call(inst->client, call->method, call->params, &options);
}

/* ---- entering ---- */

/* From here on the call lives by its own copy of what was asked. */
static int keep_payload(struct server_call *call)
{
	size_t total = call->method.len + call->params.len + call->log_level.len + 1;
	char *copy = malloc(total), *at = copy;
	struct span *spans[] = { &call->method, &call->params, &call->log_level };
	if (!copy)
		return -1;
	for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
		if (!spans[i]->ptr)
			continue;
		if (spans[i]->len)
			memcpy(at, spans[i]->ptr, spans[i]->len);
		spans[i]->ptr = at;
		at += spans[i]->len;
	}
	call->copy = copy;
	return 0;
}

static bool is_retry_safe(const struct server *server, const struct server_call *call)
{
	if (!server->cfg->retry_safe || !server->cfg->retry_safe[0] || !call->is_tool_call)
		return false;
	struct span name = json_member(call->params, "name");
	for (char **tool = server->cfg->retry_safe; *tool; tool++)
		if (json_string_is(name, *tool))
			return true;
	return false;
}

static void time_out(struct server_call *call)
{
	char message[64];
	snprintf(message, sizeof message, "Request timeout after %lldms", (long long)call->timeout_ms);
	server_call_fail(call, &(struct transport_reply){
				       .code = MCPD_E_TIMEOUT,
				       .message = message,
				       .timeout_ms = call->timeout_ms,
			       });
}

static void on_deadline(void *arg)
{
	struct server_call *call = arg;
	struct lane *lane = call->lane;
	time_out(call);
	if (lane)
		lane_check_idle(lane);
}

bool server_call_overdue(struct server_call *call)
{
	if (!call->deadline_ms || loop_now_ms() < call->deadline_ms)
		return false;
	time_out(call);
	return true;
}

static struct server_call *new_call(struct server *server, const struct server_call_options *options)
{
	struct server_call *call = xnew(struct server_call);
	call->m = server->m;
	call->id = manager_next_id(server->m);
	call->server_id = server->id;
	call->client = options->client;
	call->entered_us = loop_now_us();
	call->method = options->method;
	call->params = options->params;
	call->log_level = options->log_level;
	call->timeout_ms = options->timeout_ms < 0 ? server->cfg->timeout_ms : options->timeout_ms;
	call->deadline_ms = call->timeout_ms > 0 ? loop_now_ms() + call->timeout_ms : 0;
	call->want_progress = options->want_progress;
	call->relay_input_required = options->relay_input_required;
	call->kept = options->kept;
	call->this_process = options->this_process;
	call->is_tool_call = json_string_is(call->method, "tools/call");
	call->retry_safe = is_retry_safe(server, call);
	call->done = options->done;
	call->progress = options->progress;
	call->queued = options->queued;
	call->resent = options->resent;
	call->arg = options->arg;
	server->m->n_calls++;
	idmap_put(&server->m->calls, call->id, call);
	return call;
}

/* Takes over why. */
static void fail_limit(struct server_call *call, enum mcpd_limit limit, char *why)
{
	server_call_fail(call, &(struct transport_reply){ .code = MCPD_E_LIMIT, .message = why, .limit = (int)limit });
	free(why);
}

/* It could not be sent at once. */
static void let_wait(struct server_call *call)
{
	size_t bytes = call->method.len + call->params.len + call->log_level.len;
	const struct lane *lane = call->lane;
	char *why;
	/* Its turn is waited for, but not another process. */
	if (call->this_process && (!lane || !lane->accepting || !lane->instance)) {
		server_call_failf(call, MCPD_E_TRANSPORT, "Transport not connected");
		return;
	}
	call->generation = lane && lane->instance ? lane->instance->generation : 0;
	if (!turns_admit_bytes(call, bytes, &why)) {
		fail_limit(call, LIMIT_SERVER_QUEUE, why);
	} else if (!call->copy && keep_payload(call) < 0) {
		server_call_failf(call, MCPD_E_INTERNAL, "out of memory");
	} else {
		turns_hold(call, bytes);
		wait_with_clock(call);
	}
}

/* A tool that clients may not have. */
static bool is_forbidden(const struct server *server, const struct server_call_options *options)
{
	struct buf name = BUF_INIT;
	if (!server_config_filters_tools(server->cfg) || !json_string_is(options->method, "tools/call"))
		return false;
	bool known = json_string_decode(json_member(options->params, "name"), &name) == 0;
	bool forbidden = known && !server_config_allows_tool(server->cfg, buf_span(&name));
	buf_done(&name);
	return forbidden;
}

uint64_t server_call(struct server *server, const struct server_call_options *options)
{
	struct manager *m = server->m;
	struct server_call *call = new_call(server, options);
	uint64_t id = call->id;
	char *why;
	if (m->phase != MANAGER_RUNNING) {
		server_call_failf(call, MCPD_E_UNAVAILABLE, "mcpd is shutting down");
		return id;
	}
	if (is_forbidden(server, options)) {
		server_call_failf(call, MCPD_E_INVALID_PARAMS,
				  "The tool is not allowed by \"tools\" in the configuration of server \"%s\"",
				  server->name);
		return id;
	}
	if (!turns_admit_call(server, call->client, &why)) {
		fail_limit(call, LIMIT_REQUESTS_PER_SERVER, why);
		return id;
	}
	turns_join(server, call);
	/* What waits, or may have to be sent again, outlives the asker's bytes. */
	bool keep = call->retry_safe || server->cfg->transport != CONFIG_STDIO;
	if (keep && keep_payload(call) < 0) {
		server_call_failf(call, MCPD_E_INTERNAL, "out of memory");
		return id;
	}
	server_submit(server, call);
	if (!call->finished && !call->instance)
		let_wait(call);
	return id;
}

void server_cancel(struct server *server, uint64_t id, const char *reason)
{
	struct server_call *call = server_call_find(server, id);
	if (!call)
		return;
	if (call->instance && !call->held) {
		mcp_client_cancel(call->instance->client, call->mcp_call, reason);
		return;
	}
	struct lane *lane = call->lane;
	server_call_fail(call, &(struct transport_reply){ .code = MCPD_E_CANCELLED,
							  .message = reason && *reason ? reason : "Cancelled" });
	if (lane)
		lane_check_idle(lane);
}

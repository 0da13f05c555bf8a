/*
 * Calls to a server: sent with a progress token of our own and, to a modern server, with its per-request `_meta`;
 * repeated with more input where a modern server wants that; cancelled in the way of the server's era (C5); completed
 * exactly once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/call_source.h"
#include "mcp/http_headers.h"
#include "mcp/input_required.h"
#include "mcp/mcp_client_internal.h"
#include "mcp/request_meta.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

/* How long behind its deadline a call that was given up may still make its server ask something. */
#define GIVEN_UP_MS 60000
/* Scratch memory that is kept from one call to the next. */
#define SCRATCH_KEPT 65536

static void repeat(struct call *call);
static void begin_round(struct call *call, struct span result);

/* Until when a question of the server may be about a call that is given up now. */
static int64_t given_up_until(const struct call *call)
{
	int64_t now = loop_now_ms();
	if (!call->deadline_ms)
		return now + call->client->max_timeout_ms + GIVEN_UP_MS;
	return (call->deadline_ms > now ? call->deadline_ms : now) + GIVEN_UP_MS;
}

/* The end of a call: out of the table, its questions void, then told. */
static void complete(struct call *call, const struct transport_reply *reply, bool lingers)
{
	struct mcp_client *client = call->client;
	uint64_t number = call->number;
	transport_done_fn *done = call->done;
	void *arg = call->arg;
	if (lingers)
		call_table_give_up(&client->calls, call, given_up_until(call));
	else
		call_table_remove(&client->calls, call);
	struct server_question *question;
	while ((question = server_questions_find_call(&client->questions, number)))
		client_void_question(client, question, SPAN_NONE);
	if (done)
		done(arg, reply);
}

/* Completes a call with a failure that no request of the transport tells, in the next gap between passes. Takes over
 * object. */
static void end_with(struct call *call, int code, const char *text, char *object, bool sent)
{
	call->state = CALL_ENDING;
	call->error_code = code;
	call->error_text = xstrdup(text);
	call->error_object = object;
	call->error_sent = sent;
	timer_free(call->timer);
	call->timer = NULL;
	call->client->calls.n_ending++;
	task_schedule(call->client->task);
}

static void end(struct call *call, int code, const char *text, bool sent)
{
	end_with(call, code, text, NULL, sent);
}

static void end_for_errno(struct call *call, int error, bool sent)
{
	if (error == -EINVAL)
		end(call, MCPD_E_INVALID_PARAMS, "params and its _meta must be objects", sent);
	else if (error == -E2BIG)
		end(call, MCPD_E_LIMIT, "The request is longer than maxMessageBytes", sent);
	else
		end(call, MCPD_E_INTERNAL, "out of memory", sent);
}

static void complete_ending(struct call *call)
{
	/* The texts outlive the row for the length of the completion. */
	char *text = call->error_text, *object = call->error_object;
	struct transport_reply reply = {
		.code = call->error_code,
		.message = text,
		.error = span_of(object),
		.sent = call->error_sent,
		.limit = call->error_code == MCPD_E_LIMIT ? LIMIT_MESSAGE_BYTES : 0,
		.timeout_ms = call->error_code == MCPD_E_TIMEOUT ? call->timeout_ms : 0,
	};
	call->error_text = call->error_object = NULL;
	complete(call, &reply, false);
	free(text);
	free(object);
}

static struct call *find_ending(struct mcp_client *client, uint64_t up_to)
{
	struct call *call = client->calls.n_ending ? client->calls.live : NULL;
	while (call && (call->state != CALL_ENDING || call->number > up_to))
		call = call->next;
	return call;
}

void calling_end_due(struct mcp_client *client)
{
	/* Calls that the completions make have their turn in the next gap. */
	uint64_t up_to = client->calls.last_number;
	struct call *call;
	while ((call = find_ending(client, up_to)))
		complete_ending(call);
}

void calling_end_all(struct mcp_client *client)
{
	for (struct call *call = client->calls.live; call; call = call->next)
		if (call->state != CALL_ENDING)
			end(call, MCPD_E_TRANSPORT, "Transport closed", true);
	calling_end_due(client);
}

static void tell_cancelled(struct call *call, const char *reason)
{
	struct mcp_client *client = call->client;
	struct span id = transport_wire_id(client->transport, call->request);
	if (client->state != CLIENT_READY || !id.ptr || client_uses_headers(client))
		return;
	struct transport_options options = { .timeout_ms = -1 };
	struct buf *out = &client->scratch;
	buf_reset(out);
	buf_add_text(out, "{\"requestId\":");
	buf_add_span(out, id);
	if (reason) {
		buf_add_text(out, ",\"reason\":");
		buf_add_json_text(out, reason);
	}
	buf_add_char(out, '}');
	if (!buf_failed(out))
		transport_notify(client->transport, JSONRPC_METHOD("notifications/cancelled"), buf_span(out), &options);
}

/* Whether the server may go on working at a call that has failed like this. */
static bool lingers(const struct call *call, const struct transport_reply *reply)
{
	if (!reply->sent || client_is_modern(call->client))
		return false; /* a modern server asks nothing out of the blue */
	if (reply->code == MCPD_E_PROTOCOL)
		return transport_kind_of(call->client->transport) ==
		       TRANSPORT_HTTP; /* its stream ended without the answer */
	return reply->code == MCPD_E_TIMEOUT || reply->code == MCPD_E_CANCELLED;
}

static void note_task(void *arg, const struct task_told *told)
{
	server_tasks_note(arg, told);
}

/* What an answer says of tasks: that the call has become one, or how it is with others. */
static void note_tasks(const struct call *call, const struct transport_reply *reply)
{
	struct mcp_client *client = call->client;
	struct span id = span_of(call->task_id);
	struct task_told told;
	if (call->maybe_task && reply->code == 0 && task_of_result(client_is_modern(client), reply->result, &told))
		server_tasks_add(&client->tasks, &told, call->number, call->owner, call->want_progress);
	if (call->task_method == TASK_METHOD_NONE || (!id.ptr && call->task_method != TASK_METHOD_LIST))
		return;
	task_walk_answer(call->task_method, id, reply, note_task, &client->tasks);
	if (call->task_method == TASK_METHOD_CANCEL)
		server_tasks_cancelled(&client->tasks, id);
}

static void on_reply(void *arg, const struct transport_reply *reply)
{
	struct call *call = arg;
	struct mcp_client *client = call->client;
	if (reply->code == 0 && client_is_modern(client) && !call->relays_input && input_required_is(reply->result)) {
		begin_round(call, reply->result);
		return;
	}
	note_tasks(call, reply);
	if (reply->sent && !call->silent) {
		if (reply->code == MCPD_E_CANCELLED)
			tell_cancelled(call, call->cancel_reason);
		else if (reply->code == MCPD_E_TIMEOUT)
			tell_cancelled(call, reply->message);
	}
	complete(call, reply, lingers(call, reply));
}

static void send(struct call *call, const struct call_parts *parts)
{
	struct mcp_client *client = call->client;
	struct span capabilities = parts->capabilities;
	if (!capabilities.ptr)
		capabilities = call->owner ? SPAN_LIT("{}") : span_of(client->capabilities);
	struct request_meta meta = {
		.token = call->want_progress ? call->number : 0,
		.modern = client_is_modern(client),
		.client_info = span_of(client->client_info),
		.capabilities = capabilities,
		.log_level = parts->log_level,
	};
	struct span params;
	int r = request_meta_apply(&meta, parts->params, &client->scratch, &params);
	if (r < 0) {
		end_for_errno(call, r, call->rounds > 0);
		return;
	}
	char **headers = NULL;
	if (client_uses_headers(client) &&
	    http_headers_make(parts->method, params, parts->input_schema, &headers) < 0) {
		end(call, MCPD_E_INTERNAL, "The request's headers could not be made", call->rounds > 0);
		return;
	}
	int64_t max_timeout = call->want_progress ? client->max_timeout_ms - (loop_now_ms() - call->started_ms) : 0;
	struct transport_options options = {
		.timeout_ms = call->timeout_ms,
		.deadline_ms = call->deadline_ms,
		.max_timeout_ms = max_timeout > 0 ? max_timeout : 0,
		.headers = (const char *const *)headers,
		.done = on_reply,
		.arg = call,
	};
	call->state = CALL_SENT;
	call->request = transport_request(client->transport, parts->method, params, &options);
	http_headers_free(headers);
	if (client->scratch.cap > SCRATCH_KEPT)
		buf_done(&client->scratch);
}

/* Requests of the daemon's own that give a server nothing to ask about. */
static bool is_neutral(const struct call *call, struct span method)
{
	static const char *const neutral[] = { "ping", "server/discover", "logging/setLevel", "tasks/cancel" };
	for (size_t i = 0; call->owner == 0 && i < sizeof neutral / sizeof neutral[0]; i++)
		if (json_string_is(method, neutral[i]))
			return true;
	return false;
}

/* Whether the answer must be looked at for a task: 2025-11-25 makes tasks of calls that ask for it, modern servers as
 * they like. */
static bool may_become_task(const struct mcp_client *client, struct span params)
{
	return client_is_modern(client) || json_member(params, "task").ptr != NULL;
}

/* What is to be looked for in the answer. */
static void look_for_tasks(struct call *call, struct span method, struct span params)
{
	struct span id = json_member(params, "taskId");
	call->maybe_task = may_become_task(call->client, params);
	call->task_method = task_method_of(method);
	if (call->task_method == TASK_METHOD_NONE || json_type_of(id) != JSON_STRING)
		return;
	call->task_id = malloc(id.len + 1); /* where there is no memory for it, the task counts on */
	if (!call->task_id)
		return;
	memcpy(call->task_id, id.ptr, id.len);
	call->task_id[id.len] = '\0';
}

/* Keeps what is needed to repeat the call; false when memory is short. */
static bool keep_source(struct call *call, const struct call_parts *parts)
{
	if (!client_is_modern(call->client) || call->owner == 0 || call->relays_input ||
	    !input_required_allowed(parts->method))
		return true;
	call->source = call_source_new(parts);
	return call->source != NULL;
}

uint64_t mcp_client_call(struct mcp_client *client, struct span method, struct span params,
			 const struct mcp_call_options *options)
{
	struct call *call = call_table_add(&client->calls);
	struct call_parts parts = {
		.method = method,
		.params = params,
		.capabilities = options->capabilities,
		.log_level = options->log_level,
		.input_schema = options->input_schema,
	};
	call->client = client;
	call->owner = options->owner;
	call->timeout_ms = options->timeout_ms;
	call->started_ms = loop_now_ms();
	call->deadline_ms = options->deadline_ms;
	if (!call->deadline_ms && call->timeout_ms > 0)
		call->deadline_ms = call->started_ms + call->timeout_ms;
	call->want_progress = options->want_progress;
	call->relays_input = options->relay_input_required;
	call->neutral = is_neutral(call, method);
	call->listens = client_is_modern(client) && json_string_is(method, "subscriptions/listen");
	call->done = options->done;
	call->progress = options->progress;
	call->arg = options->arg;
	if (client->state != CLIENT_READY) {
		end(call, MCPD_E_TRANSPORT, "Transport not connected", false);
		return call->number;
	}
	if (client->facts.pub.has_tasks)
		look_for_tasks(call, method, params);
	if (keep_source(call, &parts))
		send(call, &parts);
	else
		end(call, MCPD_E_INTERNAL, "out of memory", false);
	return call->number;
}

void mcp_client_cancel(struct mcp_client *client, uint64_t number, const char *reason)
{
	struct call *call = call_table_find(&client->calls, number);
	if (!call)
		return;
	if (call->state == CALL_ASKING) {
		end(call, MCPD_E_CANCELLED, reason ? reason : "Cancelled", true);
	} else if (call->state == CALL_SENT && !call->cancelled) {
		call->cancelled = true;
		call->cancel_reason = reason ? xstrdup(reason) : NULL;
		transport_cancel(client->transport, call->request, reason);
	}
}

unsigned mcp_client_in_flight(const struct mcp_client *client, uint64_t owner)
{
	return call_table_count(&client->calls, owner);
}

/* The token of a call that has become a task is good until the task's end (2025-11-25 "Tasks"). */
static void task_progress(struct mcp_client *client, uint64_t token, struct span params)
{
	const struct server_task *task = server_tasks_find_call(&client->tasks, token);
	if (task && task->want_progress && client->callbacks.on_task_progress)
		client->callbacks.on_task_progress(client->arg, span_of(task->id), params);
}

void calling_progress(struct mcp_client *client, struct span params)
{
	uint64_t token = request_meta_token(json_member(params, "progressToken"));
	struct call *call = call_table_find(&client->calls, token);
	if (!call && token)
		task_progress(client, token, params);
	if (!call || call->state != CALL_SENT || !call->want_progress || call->cancelled)
		return;
	transport_touch(client->transport, call->request);
	if (call->timeout_ms > 0) {
		int64_t until = loop_now_ms() + call->timeout_ms, most = call->started_ms + client->max_timeout_ms;
		if (until > most)
			until = most;
		if (until > call->deadline_ms)
			call->deadline_ms = until;
	}
	if (call->progress)
		call->progress(call->arg, params);
}

static struct call *find_listen(const struct mcp_client *client, struct span id)
{
	struct call *call = client->calls.live;
	while (call && !(call->listens && call->state == CALL_SENT && !call->cancelled &&
			 jsonrpc_ids_equal(transport_wire_id(client->transport, call->request), id)))
		call = call->next;
	return call;
}

uint64_t mcp_client_subscription(const struct mcp_client *client, struct span params)
{
	struct span id = json_path(params, "_meta", "io.modelcontextprotocol/subscriptionId", NULL);
	const struct call *call = id.ptr && client_is_modern(client) ? find_listen(client, id) : NULL;
	return call ? call->number : 0;
}

void calling_listen_ended(struct mcp_client *client, struct span request_id)
{
	struct call *call = find_listen(client, request_id);
	if (!call)
		return;
	call->cancelled = call->silent = true;
	transport_cancel(client->transport, call->request, "The server ended the subscription");
}

/* Input-required results. */

static void fail_round(struct call *call, const char *text)
{
	struct transport_reply reply = { .code = MCPD_E_PROTOCOL, .message = text, .sent = true };
	complete(call, &reply, false);
}

static void on_input_timeout(void *arg)
{
	struct call *call = arg;
	char text[64];
	if (call->timeout_ms < 0)
		call->timeout_ms = call->client->max_timeout_ms;
	snprintf(text, sizeof(text), "Request timeout after %" PRId64 "ms", call->timeout_ms);
	end(call, MCPD_E_TIMEOUT, text, true);
}

/* The clock that runs while the asker is asked: the call's own, if it has one that we know. */
static void start_input_clock(struct call *call)
{
	int64_t until = call->deadline_ms;
	if (!until && call->timeout_ms < 0 && call->client->max_timeout_ms > 0)
		until = loop_now_ms() + call->client->max_timeout_ms;
	if (!until)
		return;
	if (!call->timer)
		call->timer = timer_new(call->client->loop, on_input_timeout, call);
	timer_set(call->timer, until);
}

/* Puts the round's questions to the asker. Each callback may answer at once, or end the call. */
static void ask(struct call *call)
{
	struct mcp_client *client = call->client;
	uint64_t number = call->number, owner = call->owner;
	call->state = CALL_ASKING;
	start_input_clock(call);
	for (size_t i = 0; i < call->round->n_requests; i++) {
		const struct input_request *request = &call->round->requests[i];
		struct server_question *question;
		if (server_questions_add_input(&client->questions, number, i, &question) < 0) {
			end(call, MCPD_E_PROTOCOL, "The server asks too many questions at once", true);
			return;
		}
		client->callbacks.on_request(client->arg, question->number, request->method, request->params,
					     MCP_PROOF_STREAM, owner, number);
		call = call_table_find(&client->calls, number);
		if (!call || call->state != CALL_ASKING)
			return;
	}
}

static void begin_round(struct call *call, struct span result)
{
	struct input_round *round;
	const char *problem;
	if (call->owner == 0 || !call->source) {
		fail_round(call, "The server asks for input in answer to a request that cannot have any");
		return;
	}
	if (++call->rounds > INPUT_ROUNDS_MAX) {
		fail_round(call, "The server asks for input again and again");
		return;
	}
	int r = input_round_new(result, &round, &problem);
	if (r < 0) {
		char *text = xasprintf("Invalid input-required result: %s", r == -ENOMEM ? "out of memory" : problem);
		fail_round(call, text);
		free(text);
		return;
	}
	input_round_free(call->round);
	call->round = round;
	const struct input_request *undeclared = input_round_undeclared(round, call->source->parts.capabilities);
	if (undeclared) {
		char *text = xasprintf("The server asks for %.*s, which the client has not declared that it can answer",
				       (int)undeclared->method.len, undeclared->method.ptr);
		fail_round(call, text);
		free(text);
	} else if (round->waiting == 0) {
		repeat(call);
	} else {
		ask(call);
	}
}

/* Sends the call again, as a new request, with the answers of the round. */
static void repeat(struct call *call)
{
	struct call_parts parts = call->source->parts;
	struct buf params;
	buf_init(&params, (size_t)call->client->limits->value[LIMIT_MESSAGE_BYTES]);
	int r = input_round_params(call->round, parts.params, &params);
	parts.params = buf_span(&params);
	timer_free(call->timer);
	call->timer = NULL;
	if (r < 0)
		end_for_errno(call, r, true);
	else
		send(call, &parts);
	input_round_free(call->round);
	call->round = NULL;
	buf_done(&params);
}

/* The asker will not or cannot answer: there is no way to tell that to the server, so the call ends. */
static void refuse(struct call *call, size_t index, struct span error)
{
	struct span method = call->round->requests[index].method;
	struct buf text;
	buf_init(&text, 0);
	buf_addf(&text, "The input that the server asked for (%.*s) was refused", (int)method.len, method.ptr);
	size_t plain = text.len;
	buf_add_text(&text, ": ");
	if (json_string_decode(json_member(error, "message"), &text) < 0)
		buf_truncate(&text, plain);
	char *message = buf_steal(&text);
	end_with(call, MCPD_E_SERVER, message ? message : "out of memory", xstrndup(error.ptr, error.len), true);
	free(message);
}

void calling_input_answered(struct mcp_client *client, struct server_question *question, struct span result,
			    struct span error)
{
	struct call *call = call_table_find(&client->calls, question->call);
	size_t index = question->index;
	server_questions_remove(&client->questions, question);
	if (!call || call->state != CALL_ASKING)
		return;
	if (!result.ptr)
		refuse(call, index, error);
	else if (input_round_answer(call->round, index, result) < 0)
		end(call, MCPD_E_INTERNAL, "out of memory", true);
	else if (call->round->waiting == 0)
		repeat(call);
}

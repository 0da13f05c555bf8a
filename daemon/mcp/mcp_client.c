#include "mcp/mcp_client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mcp/era.h"
#include "mcp/mcp_client_internal.h"
#include "mcpd-version.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

static void on_task(void *arg);
static void on_handshake(void *arg, const struct mcp_failure *failure);

static void note(void *arg, const char *message)
{
	struct mcp_client *client = arg;
	if (client->callbacks.on_error)
		client->callbacks.on_error(client->arg, message);
}

struct mcp_client *mcp_client_new(struct loop *loop, const struct mcp_client_options *options,
				  const struct mcp_client_callbacks *callbacks, void *arg)
{
	struct mcp_client *client = xnew(struct mcp_client);
	client->loop = loop;
	client->callbacks = *callbacks;
	client->arg = arg;
	client->server = xstrdup(options->server);
	client->capabilities = xstrdup(options->capabilities ? options->capabilities : "{}");
	client->client_info = xstrdup(options->client_info ? options->client_info :
							     "{\"name\":\"mcpd\",\"version\":\"" MCPD_VERSION "\"}");
	client->max_timeout_ms = options->max_timeout_ms;
	client->limits = options->limits;
	buf_init(&client->scratch, (size_t)options->limits->value[LIMIT_MESSAGE_BYTES]);
	call_table_init(&client->calls, loop);
	client->task = task_new(loop, on_task, client);
	struct handshake_options handshake = {
		.server = client->server,
		.era_hint = options->era_hint,
		.skip_probe = options->skip_probe,
		.probe_grace_ms = options->probe_grace_ms,
		.timeout_ms = options->handshake_timeout_ms,
		.capabilities = span_of(client->capabilities),
		.client_info = span_of(client->client_info),
		.done = on_handshake,
		.note = note,
		.arg = client,
	};
	handshake_init(&client->handshake, loop, &handshake, &client->facts);
	return client;
}

static void free_client(void *object)
{
	struct mcp_client *client = object;
	handshake_done(&client->handshake);
	call_table_done(&client->calls);
	server_questions_done(&client->questions);
	server_tasks_done(&client->tasks);
	facts_done(&client->facts);
	buf_done(&client->scratch);
	task_free(client->task);
	free(client->close_reason);
	free(client->server);
	free(client->capabilities);
	free(client->client_info);
	free(client);
}

void mcp_client_free(struct mcp_client *client)
{
	if (!client)
		return;
	assert(client->state == CLIENT_NEW || client->state == CLIENT_GONE);
	client->state = CLIENT_GONE;
	task_cancel(client->task);
	calling_end_all(client);
	if (client->transport)
		transport_free(client->transport);
	client->transport = NULL;
	loop_bury(client->loop, client, free_client);
}

void mcp_client_start(struct mcp_client *client, struct transport *transport)
{
	client->transport = transport;
	client->state = CLIENT_OPENING;
	transport_connect(transport);
}

void mcp_client_listen(struct mcp_client *client)
{
	if (client->state == CLIENT_READY && !client_is_modern(client))
		transport_listen(client->transport);
}

void mcp_client_close(struct mcp_client *client)
{
	switch (client->state) {
	case CLIENT_NEW:
		client->state = CLIENT_CLOSED;
		task_schedule(client->task);
		break;
	case CLIENT_OPENING:
	case CLIENT_READY:
		handshake_stop(&client->handshake);
		client->state = CLIENT_CLOSING;
		transport_close(client->transport);
		break;
	default:
		break;
	}
}

const struct mcp_server_facts *mcp_client_facts(const struct mcp_client *client)
{
	return &client->facts.pub;
}

pid_t mcp_client_pid(const struct mcp_client *client)
{
	return client->transport ? transport_pid(client->transport) : 0;
}

bool mcp_client_checks_tools(const struct mcp_client *client)
{
	return client_uses_headers(client);
}

uint64_t mcp_client_dropped(const struct mcp_client *client)
{
	return client->dropped;
}

void mcp_client_notify(struct mcp_client *client, struct span method, struct span params)
{
	struct transport_options options = { .timeout_ms = -1 };
	if (client->state == CLIENT_READY)
		transport_notify(client->transport, method, params, &options);
}

static void on_task(void *arg)
{
	struct mcp_client *client = arg;
	calling_end_due(client);
	if (client->state != CLIENT_CLOSED)
		return;
	if (client->calls.live) {
		task_schedule(client->task); /* made by a completion just now */
		return;
	}
	client->state = CLIENT_GONE;
	client->callbacks.on_closed(client->arg, client->close_reason);
}

/* The handshake. */

/* Tells why there will be no conversation; what is left of the connection is closed. */
static void give_up(struct mcp_client *client, const struct mcp_failure *failure)
{
	client->callbacks.on_ready(client->arg, failure);
	mcp_client_close(client);
}

static void on_handshake(void *arg, const struct mcp_failure *failure)
{
	struct mcp_client *client = arg;
	if (failure) {
		give_up(client, failure);
		return;
	}
	client->state = CLIENT_READY;
	client->callbacks.on_ready(client->arg, NULL);
}

static enum mcp_failure_kind connect_failure_kind(const struct transport_reply *failure)
{
	switch (failure->code) {
	case MCPD_E_NEEDS_AUTH:
		return MCP_FAIL_NEEDS_AUTH;
	case MCPD_E_TIMEOUT:
		return MCP_FAIL_TIMEOUT;
	case MCPD_E_TRANSPORT:
		return failure->permanent ? MCP_FAIL_PERMANENT : MCP_FAIL_LOST;
	default:
		return failure->http_status == 401 ? MCP_FAIL_NEEDS_AUTH : MCP_FAIL_REFUSED;
	}
}

static void on_connect(void *arg, const struct transport_reply *reply)
{
	struct mcp_client *client = arg;
	if (client->state != CLIENT_OPENING)
		return;
	if (!reply) {
		handshake_start(&client->handshake, client->transport);
		return;
	}
	char *message = xasprintf("Server \"%s\": %s", client->server, reply->message);
	struct mcp_failure failure = {
		.kind = connect_failure_kind(reply),
		.message = message,
		.reply = reply,
	};
	give_up(client, &failure);
	free(message);
}

static void on_close(void *arg, const char *reason)
{
	struct mcp_client *client = arg;
	bool opening = client->state == CLIENT_OPENING;
	client->state = CLIENT_CLOSED;
	client->close_reason = reason ? xstrdup(reason) : NULL;
	if (opening)
		handshake_transport_closed(&client->handshake, reason);
	calling_end_all(client);
	while (client->questions.first)
		client_void_question(client, client->questions.first, SPAN_NONE);
	task_schedule(client->task);
}

/* What the server says of itself. */

void client_void_question(struct mcp_client *client, struct server_question *question, struct span reason)
{
	uint64_t number = question->number;
	server_questions_remove(&client->questions, question);
	client->callbacks.on_request_cancelled(client->arg, number, reason);
}

static bool hears(const struct mcp_client *client)
{
	return client->state == CLIENT_OPENING || client->state == CLIENT_READY;
}

static void on_cancelled(struct mcp_client *client, struct span params)
{
	struct span id = json_member(params, "requestId");
	if (client_is_modern(client)) {
		calling_listen_ended(client, id);
		return;
	}
	struct server_question *question = server_questions_find_id(&client->questions, id);
	if (question)
		client_void_question(client, question, json_member(params, "reason"));
}

/* Whether a modern server speaks to a subscription that there is not, or no more. */
static bool is_stray(const struct mcp_client *client, struct span params)
{
	if (!client_is_modern(client))
		return false;
	struct span id = json_path(params, "_meta", "io.modelcontextprotocol/subscriptionId", NULL);
	return id.ptr && !mcp_client_subscription(client, params);
}

static void on_notification(void *arg, struct span method, struct span params)
{
	struct mcp_client *client = arg;
	if (!hears(client))
		return;
	if (json_string_is(method, "notifications/progress")) {
		calling_progress(client, params);
		return;
	}
	if (json_string_is(method, "notifications/cancelled")) {
		on_cancelled(client, params);
		return;
	}
	if (is_stray(client, params))
		return;
	struct task_told told;
	if (task_of_notification(method, params, &told))
		server_tasks_note(&client->tasks, &told);
	client->callbacks.on_notification(client->arg, method, params);
}

static void respond_error(struct mcp_client *client, struct span id, int code, const char *message)
{
	char *error = xasprintf("{\"code\":%d,\"message\":\"%s\"}", code, message);
	transport_respond(client->transport, id, SPAN_NONE, span_of(error));
	free(error);
}

static void drop_request(struct mcp_client *client)
{
	if (client->dropped++ == 0)
		note(client,
		     "A server of MCP " MCP_MODERN_VERSION " has sent a request, which it may not; it is dropped");
}

static void pass_on(struct mcp_client *client, struct span id, struct span method, struct span params,
		    uint64_t on_request_id)
{
	struct server_question *question;
	uint64_t owner, call;
	int r = server_questions_add_request(&client->questions, id, &question);
	if (r == -EEXIST) {
		/* Any answer to it would be taken for the answer to the first. */
		note(client, "The server has sent a request with the id of one that is still open; it is dropped");
		return;
	}
	if (r < 0) {
		respond_error(client, id, MCPD_E_INTERNAL, "Too many requests are open");
		return;
	}
	enum mcp_proof proof =
		call_table_prove(&client->calls, &client->tasks, on_request_id, task_related(params), &owner, &call);
	client->callbacks.on_request(client->arg, question->number, method, params, proof, owner, call);
}

static void on_request(void *arg, struct span id, struct span method, struct span params, uint64_t on_request_id)
{
	static const char *const passed_on[] = { "roots/list", "sampling/createMessage", "elicitation/create" };
	struct mcp_client *client = arg;
	if (!hears(client))
		return;
	if (client_is_modern(client)) {
		drop_request(client);
		return;
	}
	if (json_string_is(method, "ping")) {
		transport_respond(client->transport, id, SPAN_LIT("{}"), SPAN_NONE);
		return;
	}
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
		if (json_string_is(method, passed_on[i])) {
			pass_on(client, id, method, params, on_request_id);
			return;
		}
	}
	respond_error(client, id, MCPD_E_METHOD_NOT_FOUND, "Method not found");
}

void mcp_client_answer(struct mcp_client *client, uint64_t number, struct span result, struct span error)
{
	struct server_question *question = server_questions_find(&client->questions, number);
	if (!question || !hears(client))
		return;
	if (!question->id) {
		calling_input_answered(client, question, result, error);
		return;
	}
	/* Asked while the era was open, by a server that has turned out to be modern: it gets no responses. */
	int r = 0;
	if (!client_is_modern(client))
		r = transport_respond(client->transport, span_of(question->id), result, error);
	server_questions_remove(&client->questions, question);
	if (r < 0)
		note(client, "An answer to the server's request could not be sent");
}

static void on_late_answer(void *arg, uint64_t request)
{
	struct mcp_client *client = arg;
	call_table_late_answer(&client->calls, request);
}

static void on_log(void *arg, struct span text, bool noise)
{
	struct mcp_client *client = arg;
	if (client->callbacks.on_log)
		client->callbacks.on_log(client->arg, text, noise);
}

static void on_listener_end(void *arg, int http_status, const char *message)
{
	struct mcp_client *client = arg;
	if (client->state == CLIENT_READY && client->callbacks.on_listener_end)
		client->callbacks.on_listener_end(client->arg, http_status, message);
}

const struct transport_callbacks *mcp_client_transport_callbacks(void)
{
	static const struct transport_callbacks callbacks = {
		.on_connect = on_connect,
		.on_close = on_close,
		.on_error = note,
		.on_notification = on_notification,
		.on_request = on_request,
		.on_late_answer = on_late_answer,
		.on_log = on_log,
		.on_listener_end = on_listener_end,
	};
	return &callbacks;
}

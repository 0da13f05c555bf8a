#include "manager/instance.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager/questions.h"
#include "manager/server_private.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc_meta.h"
#include "xalloc.h"

/* What a server is told of its client's abilities where it works for several, or for none yet: all that can be
 * relayed. */
#define ALL_CAPABILITIES "{\"roots\":{\"listChanged\":true},\"sampling\":{},\"elicitation\":{\"form\":{},\"url\":{}}}"
#define PROBE_GRACE_MS 1000
/* For what the handshake's own clock does not see: the probe before it, and the way to exec. */
#define CONNECT_MARGIN_MS 1500

/* ---- what the client tells ---- */

static void fail_attempt(struct instance *inst, enum mcp_failure_kind kind, const char *message,
			 const struct transport_reply *reply)
{
	struct mcp_failure failure = { .kind = kind, .message = message, .reply = reply };
	if (inst->lane)
		lane_attempt_failed(inst->lane, &failure);
}

static void on_ready(void *arg, const struct mcp_failure *failure)
{
	struct instance *inst = arg;
	if (inst->closing || !inst->lane)
		return;
	if (failure) {
		lane_attempt_failed(inst->lane, failure);
		return;
	}
	struct server *server = inst->lane->server;
	const struct mcp_server_facts *facts = mcp_client_facts(inst->client);
	inst->heard_ms = loop_now_ms();
	timer_cancel(inst->connect_timer);
	server->era = facts->remembered_era;
	server_set_facts(server, facts, false);
	if (facts->has_tools) {
		watch_list(inst, SERVER_TOOLS);
		return;
	}
	server_adopt_list(server, SERVER_TOOLS, SPAN_LIT("[]"), -1, inst->capabilities);
	instance_listed(inst, NULL);
}

void instance_listed(struct instance *inst, const struct transport_reply *failure)
{
	struct lane *lane = inst->lane;
	if (!lane || inst->closing)
		return;
	if (failure && failure->code == MCPD_E_TRANSPORT && !transport_is_connected(inst->transport)) {
		lane_note_failure(lane, inst, failure); /* on_closed() comes, and knows why */
		return;
	}
	if (failure && (failure->code == MCPD_E_TRANSPORT || failure->session_lost)) {
		fail_attempt(inst, MCP_FAIL_LOST, failure->message, failure);
		return;
	}
	if (failure && failure->code == MCPD_E_NEEDS_AUTH) {
		fail_attempt(inst, MCP_FAIL_NEEDS_AUTH, failure->message, failure);
		return;
	}
	if (failure)
		server_listing_failed(lane->server, SERVER_TOOLS, failure->message);
	inst->connected = true;
	watch_start(inst);
	watch_list_wanted(inst);
	lane_connected(lane);
}

static void on_connect_timeout(void *arg)
{
	struct instance *inst = arg;
	if (!inst->lane)
		return;
	char *message = xasprintf("Server \"%s\" did not complete the handshake within %lld ms (connectTimeout)",
				  inst->lane->server->name, (long long)inst->lane->server->cfg->connect_timeout_ms);
	fail_attempt(inst, MCP_FAIL_TIMEOUT, message, NULL);
	free(message);
}

static void free_instance(void *arg)
{
	struct instance *inst = arg;
	timer_free(inst->connect_timer);
	task_free(inst->retire_task);
	free(inst);
}

static void on_closed(void *arg, const char *reason)
{
	struct instance *inst = arg;
	struct manager *m = inst->m;
	struct lane *lane = inst->lane;
	struct server *server = manager_by_id(m, inst->server_id);
	struct transport_traffic traffic;
	transport_get_traffic(inst->transport, &traffic);
	inst->closing = true;
	inst->lost = true;
	inst->lane = NULL;
	timer_cancel(inst->connect_timer);
	task_cancel(inst->retire_task);
	watch_stop(inst);
	watch_done(inst);
	questions_drop(inst);
	TAILQ_REMOVE(&m->instances, inst, link);
	m->n_instances--;
	mcp_client_free(inst->client);
	inst->client = NULL;
	loop_bury(m->loop, inst, free_instance);
	outbox_schedule(m);
	if (!server)
		return;
	server->n_instances--;
	server_add_traffic(server, &traffic);
	if (lane) {
		lane->instance = NULL;
		lane_lost(lane, reason, false);
	} else if (reason && inst->ended_lost) {
		server_note_error(server, reason);
	}
	server_instance_gone(server);
}

/* To the floors above; without the id of the daemon's own subscription, which is nobody else's business. */
static void relay(struct instance *inst, struct span method, struct span params)
{
	const struct jsonrpc_meta_edit edit = { "io.modelcontextprotocol/subscriptionId", SPAN_NONE };
	struct manager *m = inst->m;
	struct buf clean = BUF_INIT;
	int r = 0;
	if (json_path(params, "_meta", edit.name, NULL).ptr) {
		r = jsonrpc_edit_meta(&clean, params, &edit, 1);
		params = buf_span(&clean);
	}
	if (r == 0)
		m->callbacks.on_notification(m->arg, inst->lane->server, inst->owner, method, params);
	else
		log_server(LOG_LEVEL_WARNING, inst->lane->server->name, "a notification could not be relayed: %s",
			   strerror(-r));
	buf_done(&clean);
}

static void on_notification(void *arg, struct span method, struct span params)
{
	struct instance *inst = arg;
	inst->heard_ms = loop_now_ms();
	if (inst->closing || !inst->lane)
		return;
	if (json_string_is(method, "notifications/subscriptions/acknowledged")) {
		listen_acknowledged(inst, params);
		return;
	}
	inst->lane->server->counters.notifications++;
	watch_notification(inst, method);
	if (!inst->lane->catalogue)
		relay(inst, method, params);
}

static void on_task_progress(void *arg, struct span id, struct span params)
{
	struct instance *inst = arg;
	struct manager *m = inst->m;
	inst->heard_ms = loop_now_ms();
	if (!inst->closing && inst->lane)
		m->callbacks.on_task_progress(m->arg, inst->lane->server, inst->owner, id, params);
}

static void on_request(void *arg, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
		       uint64_t owner, uint64_t call)
{
	struct instance *inst = arg;
	inst->heard_ms = loop_now_ms();
	if (inst->lane)
		inst->lane->server->counters.questions++;
	questions_ask(inst, number, method, params, proof, owner, call);
}

static void on_request_cancelled(void *arg, uint64_t number, struct span reason)
{
	questions_withdrawn(arg, number, reason);
}

static void on_log(void *arg, struct span text, bool noise)
{
	struct instance *inst = arg;
	struct server *server = manager_by_id(inst->m, inst->server_id);
	if (server)
		server_add_log(server, noise ? "stdout: " : "", text);
}

static void on_error(void *arg, const char *message)
{
	struct instance *inst = arg;
	struct server *server = manager_by_id(inst->m, inst->server_id);
	if (server && !inst->closing)
		server_note_error(server, message);
}

static void on_listener_end(void *arg, int http_status, const char *message)
{
	struct instance *inst = arg;
	if (!inst->closing && inst->lane)
		watch_listener_ended(inst, http_status, message);
}

static const struct mcp_client_callbacks client_callbacks = {
	.on_ready = on_ready,
	.on_closed = on_closed,
	.on_notification = on_notification,
	.on_task_progress = on_task_progress,
	.on_request = on_request,
	.on_request_cancelled = on_request_cancelled,
	.on_log = on_log,
	.on_error = on_error,
	.on_listener_end = on_listener_end,
};

/* ---- starting ---- */

/* A client of its own is told for; the JSON text is its client's. */
static const char *capabilities_for(const struct manager *m, uint64_t owner)
{
	if (!owner)
		return ALL_CAPABILITIES;
	const char *own = m->capabilities ? m->capabilities(m->capabilities_arg, owner) : NULL;
	return own ? own : "{}";
}

static void run_retired(void *arg)
{
	struct instance *inst = arg;
	if (inst->calls == 0)
		instance_end(inst);
}

struct instance *instance_start(struct lane *lane, bool skip_probe)
{
	struct server *server = lane->server;
	struct manager *m = server->m;
	struct instance *inst = xnew(struct instance);
	inst->m = m;
	inst->lane = lane;
	inst->server_id = server->id;
	inst->lane_id = lane->id;
	inst->generation = manager_next_id(m);
	inst->owner = lane->owner;
	inst->heard_ms = loop_now_ms();
	inst->connect_timer = timer_new(m->loop, on_connect_timeout, inst);
	inst->retire_task = task_new(m->loop, run_retired, inst);
	watch_init(inst);
	const char *capabilities = capabilities_for(m, lane->owner);
	inst->capabilities = tool_capabilities_of(capabilities);
	struct mcp_client_options options = {
		.server = server->name,
		.era_hint = skip_probe ? MCP_ERA_UNKNOWN : server->era,
		.skip_probe = skip_probe,
		.probe_grace_ms = PROBE_GRACE_MS,
		.handshake_timeout_ms = server->cfg->connect_timeout_ms,
		.max_timeout_ms = server->cfg->max_timeout_ms,
		.capabilities = capabilities,
		.limits = &m->limits,
	};
	inst->hinted = options.era_hint != MCP_ERA_UNKNOWN;
	inst->client = mcp_client_new(m->loop, &options, &client_callbacks, inst);
	inst->transport = instance_transport(m, server->cfg, inst->client);
	TAILQ_INSERT_TAIL(&m->instances, inst, link);
	m->n_instances++;
	server->n_instances++;
	server->counters.starts++;
	if (server->cfg->connect_timeout_ms > 0)
		timer_set(inst->connect_timer,
			  loop_now_ms() + server->cfg->connect_timeout_ms + PROBE_GRACE_MS + CONNECT_MARGIN_MS);
	mcp_client_start(inst->client, inst->transport);
	return inst;
}

/* ---- ends ---- */

static void give_up(struct instance *inst)
{
	if (inst->lane)
		inst->lane->instance = NULL;
	inst->lane = NULL;
	timer_cancel(inst->connect_timer);
	watch_stop(inst);
	questions_drop(inst);
}

void instance_end(struct instance *inst)
{
	if (inst->closing)
		return;
	inst->closing = true;
	task_cancel(inst->retire_task);
	give_up(inst);
	mcp_client_close(inst->client); /* the instance may be gone after this */
}

void instance_end_lost(struct instance *inst)
{
	inst->lost = inst->ended_lost = true;
	instance_end(inst);
}

void instance_retire(struct instance *inst)
{
	if (inst->closing || inst->retiring)
		return;
	inst->retiring = true;
	give_up(inst);
	task_schedule(inst->retire_task);
}

void instance_call_ended(struct instance *inst)
{
	inst->calls--;
	if (inst->retiring && !inst->closing && inst->calls == 0)
		task_schedule(inst->retire_task);
}

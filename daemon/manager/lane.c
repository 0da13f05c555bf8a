#include "manager/lane.h"

#include <assert.h>
#include <stdlib.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

static void on_timer(void *arg);
static void on_loss_timer(void *arg);
static void on_idle_timer(void *arg);
static void on_stall_timer(void *arg);
static void release(void *arg);
static void pump(void *arg);

struct lane *lane_new(struct server *server, uint64_t owner, bool catalogue)
{
	struct loop *loop = server->m->loop;
	struct lane *lane = xnew(struct lane);
	lane->server = server;
	lane->id = manager_next_id(server->m);
	lane->owner = owner;
	lane->catalogue = catalogue;
	lane->state = SERVER_IDLE;
	reconnect_init(&lane->reconnect, lane->id ^ (uint64_t)loop_now_us() << 16);
	lane->timer = timer_new(loop, on_timer, lane);
	lane->loss_timer = timer_new(loop, on_loss_timer, lane);
	lane->idle_timer = timer_new(loop, on_idle_timer, lane);
	lane->stall_timer = timer_new(loop, on_stall_timer, lane);
	lane->task = task_new(loop, release, lane);
	lane->pump = task_new(loop, pump, lane);
	turns_init(&lane->turns);
	TAILQ_INIT(&lane->waiting);
	TAILQ_INIT(&lane->sent);
	TAILQ_INSERT_TAIL(&server->lanes, lane, link);
	return lane;
}

/* Stops every clock and gives the instance up. */
static void halt(struct lane *lane)
{
	struct instance *inst = lane->instance;
	timer_cancel(lane->timer);
	timer_cancel(lane->loss_timer);
	timer_cancel(lane->idle_timer);
	timer_cancel(lane->stall_timer);
	task_cancel(lane->task);
	task_cancel(lane->pump);
	lane->accepting = lane->blocked = lane->trial = false;
	lane->next_attempt_ms = 0;
	if (inst)
		instance_end(inst);
}

/* Also those that the lane had given up, and that only waited for their last calls to end. */
static void end_retired(struct lane *lane)
{
	struct manager *m = lane->server->m;
	for (struct instance *inst = TAILQ_FIRST(&m->instances), *next; inst; inst = next) {
		next = TAILQ_NEXT(inst, link);
		if (inst->lane_id == lane->id)
			instance_end(inst);
	}
}

void lane_free(struct lane *lane)
{
	struct server *server = lane->server;
	struct server_call *call;
	halt(lane);
	end_retired(lane);
	assert(TAILQ_EMPTY(&lane->waiting));
	/* They complete by themselves, as calls of no lane. */
	while ((call = TAILQ_FIRST(&lane->sent))) {
		TAILQ_REMOVE(&lane->sent, call, link);
		turns_returned(call);
		turns_part(call);
		call->lane = NULL;
	}
	turns_forget(lane);
	TAILQ_REMOVE(&server->lanes, lane, link);
	if (server->main == lane)
		server->main = NULL;
	if (server->catalogue == lane)
		server->catalogue = NULL;
	timer_free(lane->timer);
	timer_free(lane->loss_timer);
	timer_free(lane->idle_timer);
	timer_free(lane->stall_timer);
	task_free(lane->task);
	task_free(lane->pump);
	reply_drop(&lane->failure);
	free(lane);
}

bool lane_is_active(const struct lane *lane)
{
	return lane->state == SERVER_CONNECTING || lane->state == SERVER_CONNECTED ||
	       lane->state == SERVER_RECONNECTING;
}

void lane_listed(struct lane *lane)
{
	if (lane->catalogue)
		task_schedule(lane->task);
}

static void set_state(struct lane *lane, enum server_state state, const char *reason)
{
	lane->state = state;
	server_state_changed(lane->server, reason);
}

/* ---- starting ---- */

static void begin(struct lane *lane, bool skip_probe)
{
	struct server *server = lane->server;
	timer_cancel(lane->timer);
	lane->next_attempt_ms = 0;
	if (lane->instance || server->m->phase == MANAGER_CLOSING)
		return;
	if (server->cfg->sharing == CONFIG_EXCLUSIVE && server->n_instances > 0) {
		/* One process at a time: a look at the tools gives way, and what is ending ends first. */
		lane->blocked = true;
		if (server->catalogue && server->catalogue != lane && lane_is_active(server->catalogue)) {
			orders_move(server->catalogue, lane);
			lane_stop(server->catalogue, "a client needs the server", true);
		}
		return;
	}
	lane->blocked = false;
	lane->instance = instance_start(lane, skip_probe);
}

void lane_unblock(struct lane *lane)
{
	if (lane->blocked)
		begin(lane, false);
}

void lane_start(struct lane *lane, const char *why)
{
	if (lane->state == SERVER_CONNECTING || lane->state == SERVER_CONNECTED)
		return;
	reconnect_reset(&lane->reconnect);
	lane->trial = false;
	if (lane->state == SERVER_RECONNECTING && lane->instance)
		return; /* an attempt is under way */
	set_state(lane, SERVER_CONNECTING, why);
	begin(lane, false);
}

static void on_timer(void *arg)
{
	begin(arg, false);
}

/* ---- calls ---- */

static void enqueue(struct lane *lane, struct server_call *call)
{
	call->lane = lane;
	TAILQ_INSERT_TAIL(&lane->waiting, call, link);
	lane->n_waiting++;
	turns_enqueue(lane, call);
	timer_cancel(lane->idle_timer);
}

static void fail_as_lane(struct lane *lane, struct server_call *call)
{
	struct transport_reply told = lane->failure;
	if (lane->failure.code == MCPD_E_NEEDS_AUTH) {
		server_call_fail(call, &told);
		return;
	}
	char *message = xasprintf("Server \"%s\" is %s: %s", lane->server->name, server_state_name(lane->state),
				  told.message ? server_reason(lane->server, told.message) : "no reason is known");
	told.message = message;
	server_call_fail(call, &told);
	free(message);
}

/* Nothing has told yet that the connection is gone, but it is: calls wait for the next one. */
static void suspect(struct lane *lane, struct instance *inst)
{
	inst->lost = true;
	lane->accepting = false;
	if (!timer_is_set(lane->loss_timer))
		timer_set(lane->loss_timer, loop_now_ms() + LANE_LOSS_GRACE_MS);
}

static bool can_send(struct lane *lane)
{
	struct instance *inst = lane->instance;
	if (lane->accepting && inst && !transport_is_connected(inst->transport))
		suspect(lane, inst);
	return lane->accepting && inst && !inst->lost;
}

/* If it goes on like this, the next one is sent out of turn. */
static void watch_stall(struct lane *lane)
{
	if (!timer_is_set(lane->stall_timer))
		timer_set(lane->stall_timer, loop_now_ms() + turns_stall_ms(lane));
}

static void send_or_wait(struct lane *lane, struct server_call *call)
{
	if (!can_send(lane)) {
		enqueue(lane, call);
	} else if (turns_may_pass(lane, call) || server_call_is_kept(call, lane->instance)) {
		timer_cancel(lane->idle_timer);
		server_call_send(call, lane, lane->instance);
	} else {
		enqueue(lane, call);
		watch_stall(lane);
	}
}

/* Sends what waits, as far as turns allow it. */
static void pump(void *arg)
{
	struct lane *lane = arg;
	struct server_call *call;
	while (can_send(lane) && (call = turns_next(lane))) {
		if (server_call_overdue(call))
			continue;
		server_call_leave(call);
		server_call_send(call, lane, lane->instance);
	}
	if (lane->accepting && lane->n_waiting)
		watch_stall(lane);
	else
		timer_cancel(lane->stall_timer);
	lane_check_idle(lane);
}

void lane_answered(struct lane *lane, const struct server_call *call)
{
	turns_answered(lane, call);
	timer_cancel(lane->stall_timer); /* pump() sets it again */
}

void lane_pump_later(struct lane *lane)
{
	if (lane->n_waiting)
		task_schedule(lane->pump);
}

static void on_stall_timer(void *arg)
{
	struct lane *lane = arg;
	turns_stalled(lane);
	pump(lane);
}

void lane_submit(struct lane *lane, struct server_call *call)
{
	switch (lane->state) {
	case SERVER_CONNECTED:
		send_or_wait(lane, call);
		return;
	case SERVER_RECONNECTING:
		enqueue(lane, call);
		if (!lane->instance && !lane->blocked)
			begin(lane, false);
		return;
	case SERVER_IDLE:
		enqueue(lane, call);
		lane_start(lane, "a call");
		return;
	case SERVER_FAILED:
	case SERVER_NEEDS_AUTH:
		if (loop_now_ms() < lane->retry_after_ms) {
			fail_as_lane(lane, call);
			return;
		}
		enqueue(lane, call);
		lane_start(lane, "tried once more for a call");
		lane->trial = true;
		return;
	default:
		enqueue(lane, call);
	}
}

/* A new connection is there: first the floors above may set up what they had set up before, then the calls that
 * waited go out. */
static void release(void *arg)
{
	struct lane *lane = arg;
	struct server *server = lane->server;
	struct manager *m = server->m;
	uint64_t server_id = server->id, lane_id = lane->id;
	if (lane->state != SERVER_CONNECTED || !lane->instance || lane->instance->lost)
		return;
	lane->accepting = lane->restoring = true;
	if (!lane->catalogue)
		m->callbacks.on_reconnected(m->arg, server, lane->owner);
	/* It may have changed anything. */
	server = manager_by_id(m, server_id);
	if (!server)
		return;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane->id == lane_id)
		break;
	if (!lane)
		return;
	lane->restoring = false;
	if (lane->state != SERVER_CONNECTED || !lane->accepting)
		return;
	if (lane->catalogue) {
		if (!watch_is_busy(lane->instance))
			lane_stop(lane, "its lists are known", false);
		return;
	}
	listen_begin(lane->instance);
	pump(lane);
}

/* ---- idle ---- */

void lane_check_idle(struct lane *lane)
{
	struct server *server = lane->server;
	int64_t timeout_ms = server->cfg->idle_timeout_ms;
	if (lane->state != SERVER_CONNECTED || lane->n_waiting || lane->n_sent || server->pinned || timeout_ms <= 0 ||
	    lane->catalogue)
		timer_cancel(lane->idle_timer);
	else
		timer_set(lane->idle_timer, loop_now_ms() + timeout_ms);
}

static void on_idle_timer(void *arg)
{
	struct lane *lane = arg;
	if (lane->state == SERVER_CONNECTED && !lane->n_waiting && !lane->n_sent && !lane->server->pinned)
		lane_stop(lane, "no calls for idleTimeout", false);
}

/* ---- ends ---- */

static void fail_waiting(struct lane *lane, void (*fail)(struct lane *lane, struct server_call *call, const char *why),
			 const char *why)
{
	/* Not those that come while these are being told; none can, but then nobody has to know that. */
	for (unsigned n = lane->n_waiting; n > 0 && !TAILQ_EMPTY(&lane->waiting); n--)
		fail(lane, TAILQ_FIRST(&lane->waiting), why);
}

static void fail_stopped(struct lane *lane, struct server_call *call, const char *why)
{
	if (lane->server->m->phase == MANAGER_CLOSING)
		server_call_failf(call, MCPD_E_TRANSPORT, "Transport closed");
	else
		server_call_failf(call, MCPD_E_UNAVAILABLE, "Server \"%s\" was stopped: %s", lane->server->name, why);
}

static void fail_failed(struct lane *lane, struct server_call *call, const char *why)
{
	(void)why;
	fail_as_lane(lane, call);
}

void lane_stop(struct lane *lane, const char *why, bool keep_waiting)
{
	halt(lane);
	end_retired(lane);
	reconnect_reset(&lane->reconnect);
	if (lane->state != SERVER_IDLE)
		set_state(lane, SERVER_IDLE, why);
	orders_lane_failed(lane, why);
	if (!keep_waiting)
		fail_waiting(lane, fail_stopped, why);
	else if (lane->n_waiting)
		lane_start(lane, "calls are waiting");
}

/* No further attempt by itself. */
static void fail_lane(struct lane *lane, enum server_state state, const struct transport_reply *failure)
{
	halt(lane);
	reply_drop(&lane->failure);
	reply_keep(&lane->failure, failure);
	/* Every call to come is told this: a server's long answer in it is cut. */
	char *message = (char *)lane->failure.message;
	if (message)
		message[server_log_cut(span_of(message), HISTORY_REASON_MAX)] = '\0';
	lane->failure.code = state == SERVER_NEEDS_AUTH ? MCPD_E_NEEDS_AUTH : MCPD_E_UNAVAILABLE;
	lane->failure.sent = false;
	lane->retry_after_ms = loop_now_ms() + LANE_RETRY_MS;
	set_state(lane, state, failure->message);
	orders_lane_failed(lane, failure->message);
	fail_waiting(lane, fail_failed, NULL);
	sharing_lane_failed(lane);
}

/* ---- what the instance tells ---- */

void lane_connected(struct lane *lane)
{
	struct server_counters *counters = &lane->server->counters;
	counters->connects++;
	counters->restarts += lane->after_loss;
	lane->after_loss = false;
	lane->trial = false;
	turns_forget(lane);
	reconnect_connected(&lane->reconnect);
	set_state(lane, SERVER_CONNECTED, lane->catalogue ? "to list its tools" : NULL);
	orders_lane_connected(lane);
	task_schedule(lane->task);
}

void lane_lost(struct lane *lane, const char *reason, bool at_once)
{
	struct server *server = lane->server;
	bool was_connected = lane->state == SERVER_CONNECTED;
	if (!reason)
		reason = "the connection was closed";
	timer_cancel(lane->loss_timer);
	timer_cancel(lane->idle_timer);
	timer_cancel(lane->stall_timer);
	task_cancel(lane->task);
	task_cancel(lane->pump);
	lane->accepting = false;
	if (server->m->phase == MANAGER_CLOSING)
		return;
	*(was_connected ? &server->counters.losses : &server->counters.connect_failures) += 1;
	lane->after_loss |= was_connected;
	server_note_error(server, reason);
	if (lane->trial) {
		fail_lane(lane, SERVER_FAILED, &(struct transport_reply){ .message = reason });
		return;
	}
	int64_t delay = reconnect_loss(&lane->reconnect, loop_now_ms());
	if (delay < 0) {
		server->counters.breaker_openings++;
		char *message = xasprintf(
			"%s (lost more than %d times within %d s: given up; \"mcpctl connect %s\", another "
			"configuration, or a call in %d s tries again)",
			reason, RECONNECT_LOSSES, RECONNECT_WINDOW_MS / 1000, server->name, LANE_RETRY_MS / 1000);
		server_note_error(server, message);
		fail_lane(lane, SERVER_FAILED, &(struct transport_reply){ .message = message });
		free(message);
		return;
	}
	lane->next_attempt_ms = loop_now_ms() + delay;
	timer_set(lane->timer, lane->next_attempt_ms);
	set_state(lane, SERVER_RECONNECTING, reason);
	orders_lane_failed(lane, reason);
	if ((was_connected || at_once) && lane->n_waiting)
		begin(lane, false);
}

void lane_attempt_failed(struct lane *lane, const struct mcp_failure *failure)
{
	struct server *server = lane->server;
	struct instance *inst = lane->instance;
	enum mcp_failure_kind kind = failure->kind;
	bool again = failure->hint_failed && inst->hinted;
	struct transport_reply told;
	reply_keep(&told, failure->reply ? failure->reply : &(struct transport_reply){ 0 });
	free((char *)told.message);
	told.message = xstrdup(failure->message);
	if (failure->hint_failed)
		server_forget_era(server);
	instance_end(inst);
	if (kind == MCP_FAIL_PERMANENT || kind == MCP_FAIL_NEEDS_AUTH) {
		server->counters.connect_failures++;
		server_note_error(server, told.message);
		fail_lane(lane, kind == MCP_FAIL_NEEDS_AUTH ? SERVER_NEEDS_AUTH : SERVER_FAILED, &told);
	} else if (kind == MCP_FAIL_RETRY_LEGACY || again) {
		/* The server could not stand the probe, or what had been remembered of it was wrong: no fault of its
		 * own. */
		begin(lane, kind == MCP_FAIL_RETRY_LEGACY);
	} else {
		lane_lost(lane, told.message, false);
	}
	reply_drop(&told);
}

static void on_loss_timer(void *arg)
{
	struct lane *lane = arg;
	struct instance *inst = lane->instance;
	if (!inst)
		return;
	instance_end_lost(inst);
	lane_lost(lane, "the connection was lost", false);
}

void lane_note_failure(struct lane *lane, struct instance *inst, const struct transport_reply *reply)
{
	if (inst->lane != lane)
		return;
	if (reply->code == MCPD_E_NEEDS_AUTH) {
		instance_retire(inst);
		server_note_error(lane->server, reply->message);
		fail_lane(lane, SERVER_NEEDS_AUTH, reply);
	} else if (reply->session_lost) {
		instance_retire(inst);
		lane_lost(lane, reply->message, true);
	} else if (reply->code == MCPD_E_TRANSPORT && !transport_is_connected(inst->transport)) {
		suspect(lane, inst);
	} else if (reply->code == MCPD_E_TRANSPORT && lane->state == SERVER_CONNECTED) {
		watch_ping(inst); /* HTTP: nobody may be there any more */
	}
}

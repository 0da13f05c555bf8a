#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge.h"
#include "mcpd-version.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"

#define ANSWER_MS 30000      /* for starting the daemon, and its answer to mcp/attach */
#define PROVEN_MS 5000       /* a connection that lasts so long was of use */
#define MAX_EARLY_LOSSES 3   /* a daemon that is just leaving */
#define LISTEN_ENDED_MS 2000 /* a daemon that ends subscriptions and stays that long, stays */
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 5000

void bridge_end(struct bridge *bridge, enum bridge_status status)
{
	if (bridge->phase == PHASE_END)
		return;
	bridge->phase = PHASE_END;
	bridge->status = status;
}

void bridge_end_of_memory(struct bridge *bridge)
{
	if (bridge->phase != PHASE_END)
		complain("out of memory");
	bridge_end(bridge, STATUS_SYSTEM);
}

bool link_refuses(const struct bridge *bridge)
{
	return bridge->phase != PHASE_OPEN && bridge->lost_at_ms &&
	       reach_now_ms() - bridge->lost_at_ms >= bridge->wait_ms / 2;
}

/* ---- What is sent to the daemon -------------------------------------------------------------------------------- */

static void send_attach(struct bridge *bridge)
{
	struct buf params = BUF_INIT;
	char cwd[PATH_MAX];
	buf_add_text(&params, "{\"client\":{\"name\":\"mcpd-bridge\",\"version\":\"" MCPD_VERSION "\"}");
	if (bridge->server) {
		buf_add_text(&params, ",\"server\":");
		buf_add_json_text(&params, bridge->server);
	}
	if (getcwd(cwd, sizeof cwd)) {
		buf_add_text(&params, ",\"cwd\":");
		buf_add_json_text(&params, cwd);
	}
	buf_add_char(&params, '}');
	jsonrpc_write_request(&bridge->up_own.lines, JSONRPC_METHOD("attach"), JSONRPC_METHOD("mcp/attach"),
			      buf_span(&params));
	if (buf_failed(&params))
		bridge_end_of_memory(bridge);
	buf_done(&params);
}

/* A request of our own, whose answer is for nobody else. */
static void send_own(struct bridge *bridge, enum entry_kind kind, const char *method, const char *member,
		     struct span value)
{
	struct buf id = BUF_INIT, name = BUF_INIT, params = BUF_INIT;
	buf_addf(&id, "\"mcpd-bridge-%ju\"", (uintmax_t)++bridge->ledger.last_replay);
	buf_add_json_text(&name, method);
	if (member)
		buf_addf(&params, "{\"%s\":", member);
	buf_add_span(&params, value);
	if (member)
		buf_add_char(&params, '}');
	jsonrpc_write_request(&bridge->up_own.lines, buf_span(&id), buf_span(&name), buf_span(&params));
	if (buf_failed(&id) || buf_failed(&name) || buf_failed(&params) ||
	    !ledger_ask(&bridge->ledger, kind, buf_span(&id), SPAN_NONE, 0))
		bridge_end_of_memory(bridge);
	buf_done(&id);
	buf_done(&name);
	buf_done(&params);
}

/* Goes on with what the client had set up, a bounded amount at a time. */
static void replay(struct bridge *bridge)
{
	struct ledger *ledger = &bridge->ledger;
	while (bridge->replaying && own_unsent(&bridge->up_own) < OWN_ENOUGH) {
		struct subscription *s = ledger->initialize.len ? ledger_next_subscription(ledger) : NULL;
		struct entry *entry = s ? NULL : ledger_next_again(ledger);
		if (s)
			send_own(bridge, ENTRY_REPLAY, "resources/subscribe", "uri", (struct span){ s->uri, s->len });
		else if (entry)
			jsonrpc_add_payload(&bridge->up_own.lines, entry_text(entry));
		if (entry)
			buf_add_char(&bridge->up_own.lines, '\n');
		bridge->replaying = s || entry;
	}
}

/* The connection is the client's, once what it had set up is set up again. */
static void open_up(struct bridge *bridge)
{
	struct ledger *ledger = &bridge->ledger;
	bridge->phase = PHASE_OPEN;
	bridge->open_since_ms = reach_now_ms();
	bridge->replaying = true;
	if (bridge->lost_at_ms)
		complain("connected again");
	if (!ledger->initialize.len)
		return;
	if (ledger->initialized)
		jsonrpc_write_notification(&bridge->up_own.lines, JSONRPC_METHOD("notifications/initialized"),
					   SPAN_NONE);
	if (ledger->level.len)
		send_own(bridge, ENTRY_REPLAY, "logging/setLevel", "level", buf_span(&ledger->level));
	if (ledger->initialized)
		talk_lists_changed(bridge);
}

/* ---- Getting there --------------------------------------------------------------------------------------------- */

static void close_connection(struct bridge *bridge)
{
	if (bridge->fd >= 0)
		close(bridge->fd);
	bridge->fd = -1;
	bridge->daemon_ended = bridge->daemon_deaf = bridge->half_closed = false;
	buf_done(&bridge->up_own.lines);
	bridge->up_own.sent = 0;
}

static int64_t pause_ms(const struct bridge *bridge)
{
	if (bridge->failures == 0)
		return 0;
	int64_t ms = (int64_t)PAUSE_FIRST_MS << (bridge->failures < 10 ? bridge->failures - 1 : 9);
	return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

/* An attempt came to nothing, or a connection has ended. */
static void try_again(struct bridge *bridge)
{
	int64_t now = reach_now_ms();
	close_connection(bridge);
	reach_done(&bridge->reach);
	lane_cut(&bridge->down);
	bridge->early_losses = 0;
	bridge->phase = PHASE_PAUSE;
	bridge->at_ms = now + pause_ms(bridge);
	bridge->failures++;
}

/* Tells the client that a request of its is not answered, and forgets it. */
static void end_request(struct bridge *bridge, struct entry *entry)
{
	bool sent = !entry->torn && !entry_is_asked_again(entry);
	if (entry->kind < ENTRY_REPLAY)
		talk_error(bridge, entry_id(entry), "Transport closed", sent);
	ledger_forget(&bridge->ledger, entry);
}

/* There will be no daemon any more: also what would have been asked again is not answered. */
static void end_without_daemon(struct bridge *bridge, enum bridge_status status)
{
	while (bridge->ledger.asked && bridge->attached)
		end_request(bridge, bridge->ledger.asked);
	bridge_end(bridge, status);
}

/* No daemon, or one that does not want us: the first time that is the end, later it is waited for. */
static void give_up(struct bridge *bridge, enum bridge_status status)
{
	if (!bridge->attached || reach_now_ms() - bridge->lost_at_ms >= bridge->wait_ms)
		end_without_daemon(bridge, bridge->attached && status == STATUS_NO_DAEMON ? STATUS_LOST : status);
	else
		try_again(bridge);
}

static void begin_reach(struct bridge *bridge)
{
	bridge->phase = PHASE_REACH;
	bridge->at_ms = reach_now_ms() + ANSWER_MS;
	bridge->refusal = STATUS_CLOSED;
	reach_begin(&bridge->reach, bridge->socket_path, bridge->program);
}

static void step_reach(struct bridge *bridge)
{
	int r = reach_step(&bridge->reach);
	if (r == 0 && bridge->reach.state != REACH_CONNECTED) {
		if (reach_now_ms() < bridge->at_ms)
			return;
		reach_fail(&bridge->reach, -ETIMEDOUT, "no connection to %s in time", bridge->socket_path);
		r = -ETIMEDOUT;
	}
	if (r < 0) {
		complain("%s", bridge->reach.problem);
		give_up(bridge, STATUS_NO_DAEMON);
		return;
	}
	bridge->fd = reach_take(&bridge->reach);
	bridge->phase = PHASE_ATTACH;
	send_attach(bridge);
}

/* ---- The answer to mcp/attach ---------------------------------------------------------------------------------- */

static void complain_unknown(const struct bridge *bridge, struct span data)
{
	struct buf names = BUF_INIT;
	struct json_iter it;
	struct span known = json_member(data, "known"), name;
	for (json_iter_init(&it, known); json_iter_element(&it, &name);) {
		buf_add_text(&names, names.len ? ", " : "");
		json_string_decode(name, &names);
	}
	complain(
		"the daemon has no server \"%s\"; it has: %s. Servers are configured in mcp.json (`mcpd --check-config` says where), "
		"`mcpctl reload` has it read again",
		bridge->server ? bridge->server : "", names.len ? names.data : "none");
	buf_done(&names);
}

static enum bridge_status tell_refusal(const struct bridge *bridge, struct span error)
{
	int64_t code = 0;
	char *text = json_string_dup(json_member(error, "message"));
	const char *message = text ? text : "no reason given";
	enum bridge_status status = STATUS_REFUSED;
	json_int64(json_member(error, "code"), &code);
	switch (code) {
	case MCPD_E_UNKNOWN_SERVER:
		complain_unknown(bridge, json_member(error, "data"));
		status = STATUS_UNKNOWN;
		break;
	case MCPD_E_UNAVAILABLE:
		complain(
			"%s: the server \"%s\" is switched off by \"enabled\" or \"disabled\" in mcp.json; change that, then "
			"`mcpctl reload`",
			message, bridge->server ? bridge->server : "");
		status = STATUS_DISABLED;
		break;
	case MCPD_E_METHOD_NOT_FOUND:
		complain(
			"the daemon is older than this mcpd-bridge, and knows no mcp/attach; `mcpctl restart` starts the one "
			"that is installed");
		break;
	default:
		complain("the daemon refused: %s", message);
	}
	free(text);
	return status;
}

void link_attach_answered(struct bridge *bridge, struct span line)
{
	struct jsonrpc_message message;
	jsonrpc_parse(line, &message, NULL);
	/* The refusal is acted upon as the loss that follows it. */
	bridge->daemon_ended = true;
	if (message.kind == JSONRPC_ERROR) {
		bridge->refusal = tell_refusal(bridge, message.error);
		return;
	}
	if (message.kind != JSONRPC_RESULT || !json_string_is(message.id, "attach")) {
		complain("what listens on %s does not answer as mcpd does", bridge->socket_path);
		bridge->refusal = STATUS_REFUSED;
		return;
	}
	bridge->daemon_ended = false;
	bridge->attached = true;
	bridge->proven = false;
	bridge->listen_ended_ms = 0;
	if (!bridge->ledger.initialize.len) {
		open_up(bridge);
		return;
	}
	bridge->phase = PHASE_HANDSHAKE;
	send_own(bridge, ENTRY_REPLAY_INITIALIZE, "initialize", NULL, buf_span(&bridge->ledger.initialize));
}

void link_handshake_answered(struct bridge *bridge, bool done, struct span line)
{
	if (bridge->phase != PHASE_HANDSHAKE)
		return;
	if (done) {
		open_up(bridge);
		return;
	}
	struct jsonrpc_message message;
	jsonrpc_parse(line, &message, NULL);
	char *reason = json_string_dup(json_member(message.error, "message"));
	complain("the handshake could not be made again: %s", reason ? reason : "no reason given");
	free(reason);
	/* As if it had closed the connection. */
	bridge->daemon_ended = bridge->daemon_deaf = true;
}

/* ---- The loss -------------------------------------------------------------------------------------------------- */

/* A connection was lost on which the client had spoken: it is to learn what became of that. */
static void begin_settling(struct bridge *bridge)
{
	int64_t now = reach_now_ms();
	bool opened = bridge->phase == PHASE_OPEN;
	if (opened && (bridge->proven || now - bridge->open_since_ms >= PROVEN_MS)) {
		bridge->failures = 0;
		bridge->lost_at_ms = 0;
	}
	if (!bridge->lost_at_ms)
		bridge->lost_at_ms = now;
	uint64_t forwarded = lane_forwarded(&bridge->up);
	enum lane_torn torn = lane_rewind(&bridge->up);
	bridge->torn = torn == LANE_TORN;
	ledger_lost(&bridge->ledger, forwarded, torn == LANE_TORN_LAST);
	/* The client's reader must find the next line's beginning. */
	if (lane_cut(&bridge->down))
		buf_add_char(&bridge->down_own.lines, '\n');
	bridge->phase = PHASE_SETTLE;
}

void link_lost(struct bridge *bridge)
{
	bool was_asked = bridge->half_closed;
	switch (bridge->phase) {
	case PHASE_ATTACH:
		if (bridge->refusal != STATUS_CLOSED) {
			give_up(bridge, bridge->refusal);
			return;
		}
		if (bridge->early_losses++ < MAX_EARLY_LOSSES) {
			close_connection(bridge);
			lane_cut(&bridge->down);
			reach_again(&bridge->reach);
			bridge->phase = PHASE_REACH;
			return;
		}
		complain("the daemon on %s closed the connection", bridge->socket_path);
		give_up(bridge, STATUS_NO_DAEMON);
		return;
	case PHASE_HANDSHAKE:
	case PHASE_OPEN:
		break;
	default:
		return;
	}
	if (!was_asked || ledger_answers_due(&bridge->ledger))
		complain("the daemon has closed the connection");
	begin_settling(bridge);
	close_connection(bridge);
	/* After the end of the client's input there is nobody to connect again for. */
	if (was_asked)
		bridge->status = ledger_answers_due(&bridge->ledger) ? STATUS_LOST : STATUS_CLOSED;
	bridge->half_closed = was_asked;
}

static void withdraw(struct bridge *bridge, struct span id)
{
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"requestId\":");
	buf_add_span(&params, id);
	buf_add_text(&params, ",\"reason\":\"Transport closed\"}");
	jsonrpc_write_notification(&bridge->down_own.lines, JSONRPC_METHOD("notifications/cancelled"),
				   buf_span(&params));
	if (buf_failed(&params))
		bridge_end_of_memory(bridge);
	buf_done(&params);
}

/* Tells the client what it will get no answer to, as it reads; then goes on. */
static void step_settle(struct bridge *bridge)
{
	struct ledger *ledger = &bridge->ledger;
	struct entry *entry;
	while (own_unsent(&bridge->down_own) < OWN_ENOUGH) {
		/* At the end what would be asked again is not. */
		entry = bridge->half_closed ? ledger->asked : ledger_next_unanswered(ledger);
		if (!entry)
			break;
		if (entry->kind == ENTRY_LISTEN && bridge->half_closed)
			ledger_forget(ledger, entry); /* it has ended with the client's input */
		else
			end_request(bridge, entry);
	}
	while (own_unsent(&bridge->down_own) < OWN_ENOUGH && (entry = ledger_next_withdrawn(ledger)))
		withdraw(bridge, entry_id(entry));
	if (own_unsent(&bridge->down_own) >= OWN_ENOUGH || bridge->phase == PHASE_END)
		return;
	if (bridge->half_closed) {
		bridge_end(bridge, bridge->status);
	} else if (ledger->initialize_lost) {
		complain("the client's handshake was too long to be kept, and cannot be made again");
		end_without_daemon(bridge, STATUS_LOST);
	} else {
		try_again(bridge);
	}
}

/* The daemon stays, and has ended subscriptions all the same: the client is told now. */
static void tell_listens_ended(struct bridge *bridge)
{
	struct ledger *ledger = &bridge->ledger;
	bridge->listen_ended_ms = 0;
	for (struct entry *entry = ledger->asked, *next; entry; entry = next) {
		struct buf result = BUF_INIT;
		next = entry->next;
		if (!entry->ended)
			continue;
		buf_add_text(&result,
			     "{\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":");
		buf_add_span(&result, entry_id(entry));
		buf_add_text(&result, "}}");
		jsonrpc_write_result(&bridge->down_own.lines, entry_id(entry), buf_span(&result));
		if (buf_failed(&result))
			bridge_end_of_memory(bridge);
		buf_done(&result);
		ledger_forget(ledger, entry);
	}
}

int64_t link_at_ms(const struct bridge *bridge)
{
	if (bridge->phase == PHASE_END)
		return 0;
	if (bridge->phase == PHASE_OPEN)
		return bridge->listen_ended_ms ? bridge->listen_ended_ms + LISTEN_ENDED_MS : 0;
	bool clock = bridge->phase == PHASE_PAUSE || bridge->phase == PHASE_REACH || bridge->phase == PHASE_ATTACH;
	int64_t at = clock ? bridge->at_ms : 0;
	/* When lines that wait begin to be refused. */
	int64_t refuse = bridge->lost_at_ms && !link_refuses(bridge) ? bridge->lost_at_ms + bridge->wait_ms / 2 : 0;
	return refuse && (!at || refuse < at) ? refuse : at;
}

void link_step(struct bridge *bridge)
{
	int64_t now = reach_now_ms();
	switch (bridge->phase) {
	case PHASE_PAUSE:
		if (now >= bridge->at_ms)
			begin_reach(bridge);
		break;
	case PHASE_REACH:
		step_reach(bridge);
		break;
	case PHASE_ATTACH:
		if (now < bridge->at_ms)
			break;
		complain("the daemon on %s does not answer", bridge->socket_path);
		give_up(bridge, STATUS_NO_DAEMON);
		break;
	case PHASE_OPEN:
		replay(bridge);
		if (bridge->listen_ended_ms && now >= bridge->listen_ended_ms + LISTEN_ENDED_MS)
			tell_listens_ended(bridge);
		break;
	case PHASE_SETTLE:
		step_settle(bridge);
		break;
	case PHASE_HANDSHAKE:
	case PHASE_END:
		break;
	}
}

#include "bridge.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"

static const struct {
	const char *method;
	enum entry_kind kind;
} kinds[] = {
	{ "initialize", ENTRY_INITIALIZE },         { "server/discover", ENTRY_DISCOVER },
	{ "subscriptions/listen", ENTRY_LISTEN },   { "logging/setLevel", ENTRY_SET_LEVEL },
	{ "resources/subscribe", ENTRY_SUBSCRIBE }, { "resources/unsubscribe", ENTRY_UNSUBSCRIBE },
};

static enum entry_kind kind_of(struct span method)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (json_string_is(method, kinds[i].method))
			return kinds[i].kind;
	return ENTRY_REQUEST;
}

void talk_error(struct bridge *bridge, struct span id, const char *message, bool maybe_executed)
{
	struct buf data = BUF_INIT;
	buf_addf(&data, "{\"mcpd\":{\"code\":%d%s}}", MCPD_E_TRANSPORT,
		 maybe_executed ? ",\"maybeExecuted\":true" : "");
	jsonrpc_write_error(&bridge->down_own.lines, id, MCPD_E_INTERNAL, message, buf_span(&data));
	if (buf_failed(&data))
		bridge_end_of_memory(bridge);
	buf_done(&data);
}

/* ---- From the client --------------------------------------------------------------------------------------------- */

/* What is kept of a request beside its id. */
static struct span text_to_keep(const struct bridge *bridge, enum entry_kind kind, const struct lane_part *part)
{
	const struct peek *peek = &bridge->up_peek;
	switch (kind) {
	case ENTRY_INITIALIZE:
	case ENTRY_DISCOVER:
	case ENTRY_LISTEN:
		/* The whole line, if it is there. */
		if (!part->first || !part->last || peek->base)
			return SPAN_NONE;
		return json_trim(part->text);
	case ENTRY_SET_LEVEL:
		return peek_value(peek, PEEK_LEVEL);
	case ENTRY_SUBSCRIBE:
	case ENTRY_UNSUBSCRIBE:
		return peek_value(peek, PEEK_URI);
	default:
		return SPAN_NONE;
	}
}

static void request_of_client(struct bridge *bridge, struct span id, const struct lane_part *part, bool refused)
{
	enum entry_kind kind = kind_of(peek_value(&bridge->up_peek, PEEK_METHOD));
	if (refused)
		talk_error(bridge, id, part->dropped && bridge->torn ? "Transport closed" : "Transport not connected",
			   false);
	else if (!ledger_ask(&bridge->ledger, kind, id, text_to_keep(bridge, kind, part), part->end))
		bridge_end_of_memory(bridge);
}

static void notification_of_client(struct bridge *bridge, const struct lane_part *part, bool refused)
{
	struct span method = peek_value(&bridge->up_peek, PEEK_METHOD);
	if (json_string_is(method, "notifications/initialized")) {
		bridge->ledger.initialized = true;
		bridge->ledger.initialized_end = refused ? 0 : part->end;
	} else if (json_string_is(method, "notifications/cancelled")) {
		/* No answer is due any more, and a subscription ends so. */
		struct span id = peek_value(&bridge->up_peek, PEEK_REQUEST_ID);
		struct entry *entry = id.ptr ? ledger_find(&bridge->ledger, id) : NULL;
		if (entry)
			ledger_forget(&bridge->ledger, entry);
	}
}

static enum lane_verdict message_of_client(struct bridge *bridge, const struct lane_part *part)
{
	const struct peek *peek = &bridge->up_peek;
	struct span id = peek_value(peek, PEEK_ID);
	bool refused = part->dropped || link_refuses(bridge);
	if (peek_has(peek, PEEK_METHOD)) {
		if (id.ptr && json_type_of(id) != JSON_NULL)
			request_of_client(bridge, id, part, refused);
		else if (!peek_has(peek, PEEK_ID))
			notification_of_client(bridge, part, refused);
	} else if (id.ptr && ledger_question_answered(&bridge->ledger, id) && !peek->base) {
		return LANE_DROP;
	}
	return refused ? LANE_DROP : LANE_FORWARD;
}

enum lane_verdict talk_up(void *arg, const struct lane_part *part)
{
	struct bridge *bridge = arg;
	struct span rest = part->text;
	enum lane_verdict verdict = link_refuses(bridge) ? LANE_DROP : LANE_FORWARD;
	if (part->first && part->last &&
	    (ledger_is_full(&bridge->ledger) || own_unsent(&bridge->down_own) >= OWN_ENOUGH))
		return LANE_WAIT;
	if (part->first) {
		bridge->torn = false;
		peek_begin(&bridge->up_peek);
	}
	while (rest.len > 0) {
		bool message;
		size_t n = peek_feed(&bridge->up_peek, rest, &message);
		rest.ptr += n;
		rest.len -= n;
		if (message)
			verdict = message_of_client(bridge, part);
	}
	return verdict;
}

/* ---- From the daemon --------------------------------------------------------------------------------------------- */

static bool is_true(const struct peek *peek, enum peek_member member)
{
	return span_is(peek_value(peek, member), "true");
}

static void note_capabilities(struct bridge *bridge)
{
	const struct peek *peek = &bridge->down_peek;
	bridge->ledger.tools_change = is_true(peek, PEEK_TOOLS_CHANGE);
	bridge->ledger.prompts_change = is_true(peek, PEEK_PROMPTS_CHANGE);
	bridge->ledger.resources_change = is_true(peek, PEEK_RESOURCES_CHANGE);
}

static enum lane_verdict answer_of_daemon(struct bridge *bridge, struct entry *entry, struct span line)
{
	enum entry_kind kind = entry->kind;
	bool done = peek_has(&bridge->down_peek, PEEK_RESULT) && !peek_has(&bridge->down_peek, PEEK_ERROR);
	/* A daemon that is about to leave says so: the subscription goes on with the next one. */
	if (kind == ENTRY_LISTEN && done && entry_is_asked_again(entry) && !bridge->half_closed) {
		entry->ended = true;
		if (!bridge->listen_ended_ms)
			bridge->listen_ended_ms = reach_now_ms();
		return LANE_DROP;
	}
	if (kind == ENTRY_INITIALIZE && done)
		note_capabilities(bridge);
	ledger_answered(&bridge->ledger, entry, done);
	if (kind == ENTRY_REPLAY_INITIALIZE)
		link_handshake_answered(bridge, done, line);
	if (kind < ENTRY_REPLAY) {
		bridge->proven = true;
		return LANE_FORWARD;
	}
	return LANE_DROP;
}

static void list_changed(struct bridge *bridge, const char *list, struct span params)
{
	struct buf method = BUF_INIT;
	buf_addf(&method, "\"notifications/%s/list_changed\"", list);
	jsonrpc_write_notification(&bridge->down_own.lines, buf_span(&method), params);
	if (buf_failed(&method))
		bridge_end_of_memory(bridge);
	buf_done(&method);
}

void talk_lists_changed(struct bridge *bridge)
{
	if (bridge->ledger.tools_change)
		list_changed(bridge, "tools", SPAN_NONE);
	if (bridge->ledger.prompts_change)
		list_changed(bridge, "prompts", SPAN_NONE);
	if (bridge->ledger.resources_change)
		list_changed(bridge, "resources", SPAN_NONE);
}

/* A subscription is open. The client knows that already of one that was asked again: it is told that its lists may have changed meanwhile. */
static enum lane_verdict acknowledged(struct bridge *bridge)
{
	const struct peek *peek = &bridge->down_peek;
	struct span id = peek_value(peek, PEEK_SUBSCRIPTION_ID);
	struct entry *entry = id.ptr ? ledger_find(&bridge->ledger, id) : NULL;
	if (!entry || entry->kind != ENTRY_LISTEN)
		return LANE_FORWARD;
	bool known = entry->acknowledged && entry->asked_again;
	entry->acknowledged = true;
	if (!known)
		return LANE_FORWARD;
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":");
	buf_add_span(&params, id);
	buf_add_text(&params, "}}");
	if (is_true(peek, PEEK_ACK_TOOLS))
		list_changed(bridge, "tools", buf_span(&params));
	if (is_true(peek, PEEK_ACK_PROMPTS))
		list_changed(bridge, "prompts", buf_span(&params));
	if (is_true(peek, PEEK_ACK_RESOURCES))
		list_changed(bridge, "resources", buf_span(&params));
	if (buf_failed(&params))
		bridge_end_of_memory(bridge);
	buf_done(&params);
	return LANE_DROP;
}

static enum lane_verdict message_of_daemon(struct bridge *bridge, struct span line)
{
	const struct peek *peek = &bridge->down_peek;
	struct span id = peek_value(peek, PEEK_ID);
	if (!peek_has(peek, PEEK_METHOD)) {
		struct entry *entry = id.ptr ? ledger_find(&bridge->ledger, id) : NULL;
		return entry ? answer_of_daemon(bridge, entry, line) : LANE_FORWARD;
	}
	struct span method = peek_value(peek, PEEK_METHOD);
	if (id.ptr)
		ledger_question(&bridge->ledger, id);
	else if (json_string_is(method, "notifications/subscriptions/acknowledged"))
		return acknowledged(bridge);
	else if (json_string_is(method, "notifications/cancelled") && peek_value(peek, PEEK_REQUEST_ID).ptr)
		ledger_question_over(&bridge->ledger, peek_value(peek, PEEK_REQUEST_ID));
	return LANE_FORWARD;
}

/* A long answer to a request of our own, as far as its beginning shows it. */
static bool begins_own_answer(const struct bridge *bridge)
{
	struct span id = peek_value(&bridge->down_peek, PEEK_ID);
	struct entry *entry = id.ptr ? ledger_find(&bridge->ledger, id) : NULL;
	return entry && entry->kind >= ENTRY_REPLAY;
}

enum lane_verdict talk_down(void *arg, const struct lane_part *part)
{
	struct bridge *bridge = arg;
	struct span rest = part->text;
	enum lane_verdict verdict = LANE_FORWARD;
	if (bridge->phase == PHASE_ATTACH) {
		link_attach_answered(bridge, part->text);
		return LANE_DROP;
	}
	if (part->first)
		peek_begin(&bridge->down_peek);
	while (rest.len > 0) {
		bool message;
		size_t n = peek_feed(&bridge->down_peek, rest, &message);
		rest.ptr += n;
		rest.len -= n;
		if (message)
			verdict = message_of_daemon(bridge, part->text);
	}
	if (part->first && !part->last && begins_own_answer(bridge))
		return LANE_DROP;
	/* In a batch there are answers for others. */
	return bridge->down_peek.base ? LANE_FORWARD : verdict;
}

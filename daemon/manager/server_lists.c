/*
 * The lists of a server: from the disk, from a connection that is there, shown to those above (M2, R28).
 *
 * Tools are listed by every connection. Prompts, resources and templates only once somebody has asked for them: most
 * clients use tools alone, and a request of the daemon's own in flight makes the server's questions unprovable meanwhile
 * (ARCHITECTURE "Sharing").
 */
#include <stdlib.h>
#include <string.h>

#include "manager/instance.h"
#include "manager/server_private.h"
#include "mcp/era.h"
#include "mcp/facts.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* A list that has just come counts as fresh for so long, whatever its ttlMs says. */
#define LIST_FRESH_MS 1000
/* After a listing has failed. */
#define LIST_RETRY_MS 30000

static const struct {
	const char *method, *member, *capability;
} kinds[SERVER_LIST_COUNT] = {
	[SERVER_TOOLS] = { "tools/list", "tools", "tools" },
	[SERVER_PROMPTS] = { "prompts/list", "prompts", "prompts" },
	[SERVER_RESOURCES] = { "resources/list", "resources", "resources" },
	[SERVER_TEMPLATES] = { "resources/templates/list", "resourceTemplates", "resources" },
};

void server_lists_init(struct server *server)
{
	for (int i = 0; i < SERVER_LIST_COUNT; i++)
		tool_list_init(&server->lists[i].list, server->name);
	tool_list_init(&server->lists[SERVER_TOOLS].shown, server->name);
	server->lists[SERVER_TOOLS].wanted = true;
}

void server_lists_done(struct server *server)
{
	for (int i = 0; i < SERVER_LIST_COUNT; i++)
		tool_list_done(&server->lists[i].list);
	tool_list_done(&server->lists[SERVER_TOOLS].shown);
}

const struct tool_list *server_shown(const struct server *server, enum server_list list)
{
	const struct server_list_state *state = &server->lists[list];
	bool filtered = list == SERVER_TOOLS && server_config_filters_tools(server->cfg) && state->list.text;
	return filtered ? &state->shown : &state->list;
}

static bool is_allowed(const struct server *server, struct span tool)
{
	struct buf name = BUF_INIT;
	bool allowed = json_string_decode(json_member(tool, "name"), &name) == 0 &&
		       server_config_allows_tool(server->cfg, buf_span(&name));
	buf_done(&name);
	return allowed;
}

/* Where there is no memory for the filtered list, nothing is shown rather than too much. */
static void filter(struct server *server)
{
	struct server_list_state *state = &server->lists[SERVER_TOOLS];
	struct json_iter it;
	struct span tool;
	struct buf kept = BUF_INIT;
	buf_add_char(&kept, '[');
	json_iter_init(&it, tool_list_text(&state->list));
	while (json_iter_element(&it, &tool)) {
		if (!is_allowed(server, tool))
			continue;
		buf_add_text(&kept, kept.len > 1 ? "," : "");
		buf_add_span(&kept, tool);
	}
	buf_add_char(&kept, ']');
	tool_list_clear(&state->shown, server->m->loop);
	tool_list_adopt(&state->shown, server->m->loop, buf_failed(&kept) ? SPAN_LIT("[]") : buf_span(&kept),
			TOOL_CAP_ALL);
	buf_done(&kept);
}

/* Without telling anybody. */
static void refilter(struct server *server)
{
	if (server_config_filters_tools(server->cfg))
		filter(server);
	memcpy(server->shown_revision, server_shown(server, SERVER_TOOLS)->revision, sizeof server->shown_revision);
}

void server_filter_tools(struct server *server)
{
	char before[DIGEST_HEX];
	memcpy(before, server->shown_revision, sizeof before);
	refilter(server);
	if (strcmp(before, server->shown_revision) != 0)
		outbox_raise(server, (unsigned)OUTBOX_LIST << SERVER_TOOLS | OUTBOX_SERVER);
}

void server_lists_not_live(struct server *server)
{
	for (int i = 0; i < SERVER_LIST_COUNT; i++)
		server->lists[i].live = server->lists[i].failed = false;
}

bool server_offers_list(const struct mcp_server_facts *facts, enum server_list list)
{
	enum json_kind kind = json_type_of(json_member(facts->capabilities, kinds[list].capability));
	return kind != JSON_ABSENT && kind != JSON_NULL;
}

/* ---- the disk ---- */

static void add_json(struct buf *out, const char *key, struct span json)
{
	if (!json.ptr)
		return;
	buf_addf(out, "%s\"%s\":", out->len > 1 ? "," : "", key);
	buf_add_span(out, json);
}

/* Facts and lists beside the tools, as one object; NULL when memory is short. */
static char *write_rest(const struct server *server)
{
	const struct mcp_server_facts *facts = server_known_facts(server);
	struct buf out;
	buf_init(&out, 0);
	buf_add_char(&out, '{');
	if (facts) {
		add_json(&out, "serverInfo", facts->server_info);
		add_json(&out, "capabilities", facts->capabilities);
		add_json(&out, "instructions", facts->instructions);
	}
	for (int i = SERVER_PROMPTS; i < SERVER_LIST_COUNT; i++)
		if (server->lists[i].list.text)
			add_json(&out, kinds[i].member, tool_list_text(&server->lists[i].list));
	buf_add_char(&out, '}');
	return buf_steal(&out);
}

static void store(struct server *server)
{
	const struct mcp_server_facts *facts = server_known_facts(server);
	const struct tool_list *tools = &server->lists[SERVER_TOOLS].list;
	char *rest = tools->text ? write_rest(server) : NULL;
	if (!rest)
		return;
	struct tool_cache_entry entry = {
		.tools = tools->text,
		.tools_len = tools->len,
		.count = tools->count,
		.capabilities = tools->capabilities,
		.era = server->era,
		.protocol_version = facts ? (char *)facts->protocol_version : NULL,
		.rest = rest,
		.rest_len = strlen(rest),
	};
	if (tool_cache_store(server->m->cache, server->name, server->cfg->identity, &entry) == 0)
		server->stored_era = server->era;
	free(rest);
}

static void take_facts(struct server *server, const struct tool_cache_entry *entry, struct span rest)
{
	struct span capabilities = json_member(rest, "capabilities");
	if (!entry->protocol_version || !*entry->protocol_version || !capabilities.ptr)
		return;
	struct mcp_server_facts facts = {
		.era = entry->era,
		.remembered_era = entry->era,
		.protocol_version = entry->protocol_version,
		.server_info = json_member(rest, "serverInfo"),
		.instructions = json_member(rest, "instructions"),
	};
	/* A server that was made a legacy one by a slow start speaks as its version says. */
	facts.era = era_modern_version(span_of(entry->protocol_version)) ? MCP_ERA_MODERN : MCP_ERA_LEGACY;
	facts_note_capabilities(&facts, capabilities);
	server_set_facts(server, &facts, true);
}

void server_load_cache(struct server *server)
{
	struct tool_cache_entry entry;
	for (int i = 0; i < SERVER_LIST_COUNT; i++) {
		struct server_list_state *state = &server->lists[i];
		tool_list_clear(&state->list, server->m->loop);
		state->live = state->failed = false;
		state->expires_ms = 0;
		state->cache_private = true;
		state->wanted = i == SERVER_TOOLS;
	}
	refilter(server);
	server->era = server->stored_era = MCP_ERA_UNKNOWN;
	if (server->cfg->error || tool_cache_load(server->m->cache, server->name, server->cfg->identity, &entry) < 0)
		return;
	struct span rest = { entry.rest, entry.rest_len };
	tool_list_adopt(&server->lists[SERVER_TOOLS].list, server->m->loop,
			(struct span){ entry.tools, entry.tools_len }, entry.capabilities);
	for (int i = SERVER_PROMPTS; i < SERVER_LIST_COUNT; i++) {
		struct span items = json_member(rest, kinds[i].member);
		if (json_type_of(items) != JSON_ARRAY)
			continue;
		tool_list_adopt(&server->lists[i].list, server->m->loop, items, 0);
		server->lists[i].wanted = true;
	}
	refilter(server);
	server->era = server->stored_era = entry.era;
	take_facts(server, &entry, rest);
	tool_cache_entry_done(&entry);
}

/* ---- what connections tell ---- */

void server_adopt_list(struct server *server, enum server_list list, struct span elements, int64_t ttl_ms,
		       unsigned capabilities)
{
	struct server_list_state *state = &server->lists[list];
	bool first = !state->list.text;
	bool differs = tool_list_adopt(&state->list, server->m->loop, elements, capabilities);
	state->live = true;
	state->failed = false;
	state->expires_ms = ttl_ms < 0 ? 0 : loop_now_ms() + (ttl_ms > LIST_FRESH_MS ? ttl_ms : LIST_FRESH_MS);
	if (differs || first || (list == SERVER_TOOLS && server->stored_era != server->era))
		store(server);
	outbox_raise(server, OUTBOX_LISTING);
	if (list == SERVER_TOOLS)
		server_filter_tools(server); /* which tells if another list is shown */
	else if (differs)
		outbox_raise(server, (unsigned)OUTBOX_LIST << list | OUTBOX_SERVER);
}

void server_listing_failed(struct server *server, enum server_list list, const char *message)
{
	struct server_list_state *state = &server->lists[list];
	char *text = xasprintf("%s failed: %s", kinds[list].method, message);
	server_note_error(server, text);
	free(text);
	state->failed = true;
	state->expires_ms = loop_now_ms() + LIST_RETRY_MS;
	outbox_raise(server, OUTBOX_LISTING);
}

void server_forget_era(struct server *server)
{
	server->era = MCP_ERA_UNKNOWN;
	if (server->stored_era != MCP_ERA_UNKNOWN)
		store(server);
}

/* ---- what those above are shown ---- */

/* A connection that can list now, the one with the most capabilities; or NULL. */
static struct instance *lister(const struct server *server)
{
	const struct lane *lane;
	struct instance *best = NULL;
	TAILQ_FOREACH(lane, &server->lanes, link)
	{
		struct instance *inst = lane->instance;
		if (lane->state == SERVER_CONNECTED && inst && !inst->lost &&
		    (!best || inst->capabilities > best->capabilities))
			best = inst;
	}
	return best;
}

static bool is_listing(const struct server *server, enum server_list list)
{
	const struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane->instance && watch_is_listing(lane->instance, list))
		return true;
	return false;
}

static bool is_stale(const struct server_list_state *state)
{
	return state->expires_ms && loop_now_ms() >= state->expires_ms;
}

/* Whether what is known of the list may have changed without a word. */
static bool changes_silently(const struct server *server, enum server_list list)
{
	const struct mcp_server_facts *facts = server_known_facts(server);
	return list != SERVER_TOOLS && facts && !server->lists[list].expires_ms &&
	       !span_is(json_path(facts->capabilities, kinds[list].capability, "listChanged", NULL), "true");
}

/* Sets in motion what a listing that is asked for wants. */
static void want(struct server *server, enum server_list list)
{
	struct server_list_state *state = &server->lists[list];
	struct instance *inst;
	state->wanted = true;
	if (!server->cfg->enabled || server->cfg->error || server->m->phase != MANAGER_RUNNING)
		return;
	if (server->state == SERVER_IDLE && !state->list.text && !server->by_hand) {
		server_start(server, list == SERVER_TOOLS ? "its tools were asked for" : "its lists were asked for");
		return;
	}
	bool missing = list != SERVER_TOOLS && !state->live && !state->failed;
	bool due = missing || is_stale(state) || changes_silently(server, list);
	if (server->state == SERVER_CONNECTED && due && !is_listing(server, list) && (inst = lister(server)))
		watch_list(inst, list);
}

static bool is_settled(const struct server *server, enum server_list list)
{
	const struct server_list_state *state = &server->lists[list];
	switch (server->state) {
	case SERVER_CONNECTED:
		if (is_listing(server, list))
			return state->live && !is_stale(state) && !changes_silently(server, list);
		return list == SERVER_TOOLS || state->list.text || state->failed;
	case SERVER_CONNECTING:
	case SERVER_RECONNECTING:
		return state->list.text != NULL;
	default:
		return list == SERVER_TOOLS || state->list.text || server->state != SERVER_IDLE || server->by_hand;
	}
}

static const char *error_of(const struct server *server, bool deferred)
{
	enum server_state state = server->state;
	bool failing = state == SERVER_FAILED || state == SERVER_NEEDS_AUTH || state == SERVER_RECONNECTING ||
		       state == SERVER_CONNECTED;
	if (server->cfg->error)
		return server->cfg->error;
	return deferred && failing ? server->last_error : NULL;
}

void server_get_list(struct server *server, enum server_list list, bool start, struct server_listing *ret)
{
	const struct server_list_state *state = &server->lists[list];
	const struct mcp_server_facts *facts = server_known_facts(server);
	bool offered = list == SERVER_TOOLS || !facts || server_offers_list(facts, list);
	if (start && offered)
		want(server, list);
	const struct tool_list *shown = server_shown(server, list);
	memset(ret, 0, sizeof *ret);
	ret->visible = server->state != SERVER_DISABLED;
	ret->deferred = offered && (server->state != SERVER_CONNECTED || !state->live);
	ret->settled = !offered || is_settled(server, list);
	ret->items = offered ? tool_list_text(shown) : SPAN_LIT("[]");
	memcpy(ret->revision, shown->revision, sizeof ret->revision);
	ret->error = offered ? error_of(server, ret->deferred) : NULL;
	int64_t left = state->expires_ms - loop_now_ms();
	ret->ttl_ms = !state->expires_ms || state->failed ? -1 : left > 0 ? left : 0;
	ret->cache_private = state->cache_private;
}

struct span server_find_tool(struct server *server, struct span name)
{
	const struct tool_list *tools = server_shown(server, SERVER_TOOLS);
	struct span found = tool_list_find(tools, name);
	struct buf json = BUF_INIT;
	if (found.ptr)
		return found;
	buf_add_json_string(&json, name);
	if (!buf_failed(&json))
		found = tool_list_find(tools, buf_span(&json));
	buf_done(&json);
	return found;
}

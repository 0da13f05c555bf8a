#include "router/log_level.h"

#include <stdlib.h>

#include "log.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* From the most verbose to the least, as JSON; the index is the level. */
static const char *const names[] = { "\"debug\"", "\"info\"",     "\"notice\"", "\"warning\"",
				     "\"error\"", "\"critical\"", "\"alert\"",  "\"emergency\"" };
#define N_LEVELS ((int)(sizeof names / sizeof names[0]))
#define LEVEL_NONE N_LEVELS
#define LEVEL_INFO 1

struct wish {
	uint64_t client;
	int level;
};

/* One server, or one client's own instance of it. */
struct target {
	struct target *next;
	uint64_t server, owner;
	struct wish *wishes;
	size_t n_wishes;
	int upstream; /* what the server was told last, LEVEL_NONE: nothing */
};

struct log_levels {
	struct manager *manager;
	struct calls *calls;
	const struct clients *clients;
	struct target *list;
};

/* A setLevel on its way. */
struct change {
	struct log_levels *levels;
	uint64_t server, owner;
	uint64_t client; /* 0: the daemon's own */
	int sent, wished, before;
};

struct log_levels *log_levels_new(struct manager *manager, struct calls *calls, const struct clients *clients)
{
	struct log_levels *levels = xnew(struct log_levels);
	levels->manager = manager;
	levels->calls = calls;
	levels->clients = clients;
	return levels;
}

static void free_target(struct target *t)
{
	free(t->wishes);
	free(t);
}

void log_levels_free(struct log_levels *levels)
{
	while (levels && levels->list) {
		struct target *t = levels->list;
		levels->list = t->next;
		free_target(t);
	}
	free(levels);
}

static int parse_level(struct span text)
{
	for (int i = 0; i < N_LEVELS; i++)
		if (json_strings_equal(text, span_of(names[i])))
			return i;
	return LEVEL_NONE;
}

static struct target *find(const struct log_levels *levels, uint64_t server, uint64_t owner)
{
	struct target *t = levels->list;
	while (t && (t->server != server || t->owner != owner))
		t = t->next;
	return t;
}

static struct target *find_or_make(struct log_levels *levels, uint64_t server, uint64_t owner)
{
	struct target *t = find(levels, server, owner);
	if (t)
		return t;
	t = xnew(struct target);
	*t = (struct target){ .next = levels->list, .server = server, .owner = owner, .upstream = LEVEL_NONE };
	levels->list = t;
	return t;
}

static int wish_of(const struct target *t, uint64_t client)
{
	for (size_t i = 0; i < t->n_wishes; i++)
		if (t->wishes[i].client == client)
			return t->wishes[i].level;
	return LEVEL_NONE;
}

/* level LEVEL_NONE takes the wish back. */
static void set_wish(struct target *t, uint64_t client, int level)
{
	size_t i = 0;
	while (i < t->n_wishes && t->wishes[i].client != client)
		i++;
	if (i < t->n_wishes && level == LEVEL_NONE) {
		t->wishes[i] = t->wishes[--t->n_wishes];
	} else if (i < t->n_wishes) {
		t->wishes[i].level = level;
	} else if (level != LEVEL_NONE) {
		t->wishes = xrealloc(t->wishes, t->n_wishes + 1, sizeof *t->wishes);
		t->wishes[t->n_wishes++] = (struct wish){ client, level };
	}
}

static int most_verbose(const struct target *t)
{
	int level = LEVEL_NONE;
	for (size_t i = 0; i < t->n_wishes; i++)
		if (t->wishes[i].level < level)
			level = t->wishes[i].level;
	return level;
}

static void send_own(struct log_levels *levels, struct target *t);

static void on_set(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct change change = *(struct change *)arg;
	free(arg);
	struct target *t = find(change.levels, change.server, change.owner);
	if (!t || reply->code == 0)
		return;
	/* The server is as it was, as far as is known: the next wish is told to it whatever it is. */
	if (t->upstream == change.sent)
		t->upstream = LEVEL_NONE;
	if (change.client && wish_of(t, change.client) == change.wished)
		set_wish(t, change.client,
			 clients_known(change.levels->clients, change.client) ? change.before : LEVEL_NONE);
	if (!change.client)
		log_warning("server %s: the logging level could not be set: %s", info->server_name, reply->message);
	/* Others may have been answered because this was on its way. A lost connection's successor is told anyway. */
	else if (reply->code != MCPD_E_TRANSPORT && most_verbose(t) == change.sent)
		send_own(change.levels, t);
}

static void write_params(struct buf *out, int level)
{
	buf_addf(out, "{\"level\":%s}", names[level]);
}

/* Sends what is wished, with o for the client's own request or as the daemon's. 0 if there was no memory. */
static uint64_t send(struct log_levels *levels, struct target *t, const struct call_options *o,
		     const struct change *how)
{
	struct buf params = BUF_INIT;
	struct call_options options = *o;
	struct change *change = xnew(struct change);
	*change = *how;
	/* The client's own bytes, where they say what the server is to hear. */
	if (how->sent != how->wished || !o->params.ptr) {
		write_params(&params, how->sent);
		options.params = buf_span(&params);
	}
	options.watch = on_set;
	options.watch_arg = change;
	int before = t->upstream;
	t->upstream = how->sent;
	uint64_t row = buf_failed(&params) ? 0 : calls_start(levels->calls, &options);
	if (!row) {
		t->upstream = before;
		free(change);
	}
	buf_done(&params);
	return row;
}

/* Tells a server that is there what is wished now, if it is not what it was told. */
static void send_own(struct log_levels *levels, struct target *t)
{
	struct server *server = manager_by_id(levels->manager, t->server);
	int level = most_verbose(t);
	if (!server || level == LEVEL_NONE || level == t->upstream)
		return;
	struct server_info info;
	server_get_info(server, &info);
	if (info.state != SERVER_CONNECTED || (info.facts && info.facts->era == MCP_ERA_MODERN))
		return;
	struct call_options options = {
		.client = t->owner, .server = server, .timeout_ms = -1, .method = SPAN_LIT("\"logging/setLevel\"")
	};
	struct change change = { levels, t->server, t->owner, 0, level, LEVEL_NONE, LEVEL_NONE };
	if (!send(levels, t, &options, &change))
		log_warning("server %s: out of memory for a logging level", server_name(server));
}

uint64_t log_levels_request(struct log_levels *levels, const struct call_options *o)
{
	struct server_info info;
	server_get_info(o->server, &info);
	int level = parse_level(json_member(o->params, "level"));
	if (level == LEVEL_NONE || (info.facts && !info.facts->has_logging && info.facts->era == MCP_ERA_LEGACY))
		return calls_start(levels->calls, o); /* what the server says to that */
	uint64_t owner = info.config->sharing == CONFIG_SHARED ? 0 : o->client;
	struct target *t = find_or_make(levels, server_id(o->server), owner);
	struct change change = { levels, t->server, owner, o->client, 0, level, wish_of(t, o->client) };
	set_wish(t, o->client, level);
	change.sent = most_verbose(t);
	bool modern = info.facts && info.facts->era == MCP_ERA_MODERN;
	uint64_t row = modern || change.sent == t->upstream ? calls_start_settled(levels->calls, o, "{}") :
							      send(levels, t, o, &change);
	if (!row)
		set_wish(t, o->client, change.before);
	return row;
}

/* The client's wish counts no longer, here. */
static void leave(struct log_levels *levels, struct target *t, uint64_t client)
{
	set_wish(t, client, LEVEL_NONE);
	if (t->owner != client)
		send_own(levels, t);
}

/* Removes the targets that nothing is known of any more: of servers and clients that have gone. */
static void sweep(struct log_levels *levels)
{
	struct target **at = &levels->list;
	while (*at) {
		struct target *t = *at;
		bool alive = manager_by_id(levels->manager, t->server) &&
			     (!t->owner || clients_known(levels->clients, t->owner));
		if (alive) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free_target(t);
	}
}

void log_levels_client_gone(struct log_levels *levels, uint64_t client)
{
	for (struct target *t = levels->list; t; t = t->next)
		leave(levels, t, client);
	sweep(levels);
}

void log_levels_on_server_removed(struct log_levels *levels)
{
	sweep(levels);
}

void log_levels_release(struct log_levels *levels, uint64_t client, uint64_t server)
{
	struct target *t = find(levels, server, client);
	if (!t)
		return;
	t->upstream = LEVEL_NONE;
	leave(levels, t, client);
}

void log_levels_on_reconnected(struct log_levels *levels, struct server *server, uint64_t owner)
{
	struct target *t = find(levels, server_id(server), owner);
	if (!t)
		return;
	t->upstream = LEVEL_NONE;
	send_own(levels, t);
}

/* The target that the client's wish stands in: its own instance, or the shared one. */
static const struct target *target_of(const struct log_levels *levels, uint64_t client, uint64_t server)
{
	const struct target *own = find(levels, server, client);
	return own ? own : find(levels, server, 0);
}

struct span log_levels_of(const struct log_levels *levels, uint64_t client, uint64_t server)
{
	const struct target *t = target_of(levels, client, server);
	int level = t ? wish_of(t, client) : LEVEL_NONE;
	return level == LEVEL_NONE ? SPAN_NONE : span_of(names[level]);
}

bool log_levels_wanted(const struct log_levels *levels, uint64_t client, uint64_t server, uint64_t owner,
		       struct span level)
{
	const struct target *t = find(levels, server, owner);
	int own = t ? wish_of(t, client) : LEVEL_NONE;
	int message = parse_level(level);
	if (message == LEVEL_NONE || !t)
		return true;
	if (own != LEVEL_NONE)
		return message >= own;
	return (t->upstream == LEVEL_NONE && !t->n_wishes) || message >= LEVEL_INFO;
}

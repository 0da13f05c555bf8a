#include "router/log_level.h"

#include <stdlib.h>

#include "idmap.h"
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

/* What one client wants here. */
struct wish {
	uint64_t client;
	int level;                   /* what it has set, or LEVEL_NONE */
	unsigned requests[N_LEVELS]; /* in flight, by the level that each asks for */
};

/* One server, or one client's own instance of it. */
struct target {
	struct log_levels *levels;
	struct target *next;
	uint64_t server, owner;
	struct wish *wishes;
	size_t n_wishes;
	int upstream;        /* what the server was told last, LEVEL_NONE: nothing */
	bool refused;        /* by the server when the daemon told it: not told again unless a client asks for it */
	struct timer *lower; /* set while it was told more than is wanted now; NULL until first needed */
};

/* A request in flight that has a level of its own. */
struct leveled {
	uint64_t server, owner, client;
	int level;
};

struct log_levels {
	struct loop *loop;
	struct manager *manager;
	struct calls *calls;
	const struct clients *clients;
	struct target *list;
	struct idmap requests; /* struct leveled by row */
};

/* A setLevel on its way. */
struct change {
	struct log_levels *levels;
	uint64_t server, owner;
	uint64_t client; /* 0: the daemon's own */
	int sent, wished, before;
};

struct log_levels *log_levels_new(struct loop *loop, struct manager *manager, struct calls *calls,
				  const struct clients *clients)
{
	struct log_levels *levels = xnew(struct log_levels);
	levels->loop = loop;
	levels->manager = manager;
	levels->calls = calls;
	levels->clients = clients;
	return levels;
}

static void free_target(struct target *t)
{
	timer_free(t->lower);
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
	if (levels)
		idmap_done(&levels->requests);
	free(levels);
}

static int parse_level(struct span text)
{
	for (int i = 0; i < N_LEVELS; i++)
		if (json_strings_equal(text, span_of(names[i])))
			return i;
	return LEVEL_NONE;
}

bool log_levels_is_level(struct span level)
{
	return parse_level(level) != LEVEL_NONE;
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
	*t = (struct target){
		.levels = levels, .next = levels->list, .server = server, .owner = owner, .upstream = LEVEL_NONE
	};
	levels->list = t;
	return t;
}

static struct wish *find_wish(const struct target *t, uint64_t client)
{
	for (size_t i = 0; i < t->n_wishes; i++)
		if (t->wishes[i].client == client)
			return &t->wishes[i];
	return NULL;
}

static struct wish *find_or_make_wish(struct target *t, uint64_t client)
{
	struct wish *w = find_wish(t, client);
	if (w)
		return w;
	t->wishes = xrealloc(t->wishes, t->n_wishes + 1, sizeof *t->wishes);
	w = &t->wishes[t->n_wishes++];
	*w = (struct wish){ .client = client, .level = LEVEL_NONE };
	return w;
}

static void forget_wish(struct target *t, struct wish *w)
{
	*w = t->wishes[--t->n_wishes];
}

/* The most verbose of what the client has set and of what its requests ask for. */
static int verbosity_of(const struct wish *w)
{
	for (int level = 0; level < w->level && level < N_LEVELS; level++)
		if (w->requests[level])
			return level;
	return w->level;
}

/* What the client has set. */
static int level_of(const struct target *t, uint64_t client)
{
	const struct wish *w = find_wish(t, client);
	return w ? w->level : LEVEL_NONE;
}

/* level LEVEL_NONE takes it back. */
static void set_level(struct target *t, uint64_t client, int level)
{
	struct wish *w = find_or_make_wish(t, client);
	w->level = level;
	if (verbosity_of(w) == LEVEL_NONE)
		forget_wish(t, w);
}

static int most_verbose(const struct target *t)
{
	int level = LEVEL_NONE;
	for (size_t i = 0; i < t->n_wishes; i++) {
		int own = verbosity_of(&t->wishes[i]);
		if (own < level)
			level = own;
	}
	return level;
}

/* What the server should be told: LEVEL_NONE if it has been told nothing and need not be. */
static int wanted_upstream(const struct target *t)
{
	int level = most_verbose(t);
	return level == LEVEL_NONE && t->upstream != LEVEL_NONE ? LEVEL_INFO : level;
}

static void send_own(struct target *t);
static void review(struct target *t);

static const struct transport_reply *on_set(void *arg, const struct call_info *info,
					    const struct transport_reply *reply)
{
	struct change change = *(struct change *)arg;
	free(arg);
	struct target *t = find(change.levels, change.server, change.owner);
	if (!t || reply->code == 0)
		return reply;
	/* The server is as it was, as far as is known: the next wish is told to it whatever it is. */
	if (t->upstream == change.sent)
		t->upstream = LEVEL_NONE;
	if (change.client && level_of(t, change.client) == change.wished)
		set_level(t, change.client,
			  clients_known(change.levels->clients, change.client) ? change.before : LEVEL_NONE);
	if (!change.client) {
		log_server(LOG_LEVEL_WARNING, info->server_name, "the logging level could not be set: %s",
			   reply->message);
		t->refused |= reply->code == MCPD_E_SERVER;
	} else if (reply->code != MCPD_E_TRANSPORT && most_verbose(t) == change.sent) {
		/* Others may have been answered because this was on its way. A lost connection's successor is told
		 * anyway. */
		send_own(t);
	}
	return reply;
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
	t->refused = false;
	options.kept = true;
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
static void send_own(struct target *t)
{
	struct log_levels *levels = t->levels;
	struct server *server = manager_by_id(levels->manager, t->server);
	int level = wanted_upstream(t);
	if (!server || level == t->upstream || t->refused)
		return;
	struct server_info info;
	server_get_info(server, &info);
	if (info.state != SERVER_CONNECTED || !info.facts || info.facts->era == MCP_ERA_MODERN ||
	    !info.facts->has_logging)
		return;
	struct call_options options = {
		.client = t->owner, .server = server, .timeout_ms = -1, .method = SPAN_LIT("\"logging/setLevel\"")
	};
	struct change change = { levels, t->server, t->owner, 0, level, LEVEL_NONE, LEVEL_NONE };
	if (!send(levels, t, &options, &change))
		log_server(LOG_LEVEL_WARNING, server_name(server), "out of memory for a logging level");
}

static void on_lower(void *arg)
{
	struct target *t = arg;
	send_own(t);
}

/* The wishes have changed: the server is told at once where it has to say more, and after a while where less would do,
 * so that the next request of the kind finds it as it is. */
static void review(struct target *t)
{
	int level = wanted_upstream(t);
	if (level < t->upstream)
		send_own(t);
	if (level <= t->upstream) {
		if (t->lower)
			timer_cancel(t->lower);
		return;
	}
	if (!t->lower)
		t->lower = timer_new(t->levels->loop, on_lower, t);
	if (!timer_is_set(t->lower))
		timer_set(t->lower, loop_now_ms() + LOG_LEVEL_LINGER_MS);
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
	struct change change = { levels, t->server, owner, o->client, 0, level, level_of(t, o->client) };
	set_level(t, o->client, level);
	change.sent = most_verbose(t);
	bool modern = info.facts && info.facts->era == MCP_ERA_MODERN;
	uint64_t row = modern || change.sent == t->upstream ? calls_start_settled(levels->calls, o, &calls_nothing) :
							      send(levels, t, o, &change);
	if (!row)
		set_level(t, o->client, change.before);
	review(t);
	return row;
}

/* ---- levels of requests ---- */

void log_levels_begin(struct log_levels *levels, const struct call_options *o)
{
	struct server_info info;
	int level = parse_level(o->request_log_level);
	if (level == LEVEL_NONE)
		return;
	server_get_info(o->server, &info);
	struct target *t =
		find_or_make(levels, server_id(o->server), info.config->sharing == CONFIG_SHARED ? 0 : o->client);
	find_or_make_wish(t, o->client)->requests[level]++;
	review(t);
}

/* A request that has been counted has ended, or was not made. */
static void uncount(struct log_levels *levels, const struct leveled *request)
{
	struct target *t = find(levels, request->server, request->owner);
	struct wish *w = t ? find_wish(t, request->client) : NULL;
	if (!w || !w->requests[request->level])
		return;
	w->requests[request->level]--;
	if (verbosity_of(w) == LEVEL_NONE)
		forget_wish(t, w);
	review(t);
}

void log_levels_begun(struct log_levels *levels, const struct call_options *o, uint64_t row)
{
	struct server_info info;
	int level = parse_level(o->request_log_level);
	if (level == LEVEL_NONE)
		return;
	server_get_info(o->server, &info);
	struct leveled request = { server_id(o->server), info.config->sharing == CONFIG_SHARED ? 0 : o->client,
				   o->client, level };
	if (!row) {
		uncount(levels, &request);
		return;
	}
	struct leveled *kept = xnew(struct leveled);
	*kept = request;
	idmap_put(&levels->requests, row, kept);
}

void log_levels_ended(struct log_levels *levels, uint64_t row)
{
	struct leveled *request = levels->requests.count ? idmap_remove(&levels->requests, row) : NULL;
	if (!request)
		return;
	uncount(levels, request);
	free(request);
}

/* ---- ends ---- */

/* What the client has set, and with it all that it wants, counts no longer, here. */
static void leave(struct target *t, uint64_t client, bool gone)
{
	struct wish *w = find_wish(t, client);
	bool had_set = w && w->level != LEVEL_NONE;
	if (w && gone)
		forget_wish(t, w);
	else if (w)
		set_level(t, client, LEVEL_NONE);
	if (!w || t->owner == client)
		return;
	if (had_set)
		send_own(t);
	review(t);
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
		leave(t, client, true);
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
	t->refused = false;
	leave(t, client, false);
}

void log_levels_on_reconnected(struct log_levels *levels, struct server *server, uint64_t owner)
{
	struct target *t = find(levels, server_id(server), owner);
	if (!t)
		return;
	t->upstream = LEVEL_NONE;
	t->refused = false;
	review(t);
}

/* ---- what it means for the clients ---- */

/* The target that the client's wish stands in: its own instance, or the shared one. */
static const struct target *target_of(const struct log_levels *levels, uint64_t client, uint64_t server)
{
	const struct target *own = find(levels, server, client);
	return own ? own : find(levels, server, 0);
}

struct span log_levels_of(const struct log_levels *levels, uint64_t client, uint64_t server)
{
	const struct target *t = target_of(levels, client, server);
	int level = t ? level_of(t, client) : LEVEL_NONE;
	return level == LEVEL_NONE ? SPAN_NONE : span_of(names[level]);
}

bool log_levels_wanted(const struct log_levels *levels, uint64_t client, uint64_t server, uint64_t owner,
		       struct span level)
{
	const struct target *t = find(levels, server, owner);
	const struct wish *w = t ? find_wish(t, client) : NULL;
	int message = parse_level(level);
	/* What is no level is not held back from those who want any. */
	if (w)
		return message == LEVEL_NONE || message >= verbosity_of(w);
	if (clients_is_modern(levels->clients, client))
		return false;
	return !t || message == LEVEL_NONE || (t->upstream == LEVEL_NONE && !t->n_wishes) || message >= LEVEL_INFO;
}

/* What the modules of this folder share of a server. Nobody outside includes this. */
#pragma once

#include <sys/queue.h>

#include "manager/history.h"
#include "manager/lane.h"
#include "manager/manager_private.h"
#include "manager/server.h"
#include "manager/server_log.h"
#include "manager/server_orders.h"
#include "manager/sharing.h"
#include "manager/timestamp.h"
#include "manager/tool_list.h"

struct server_facts_copy;

/* One of the lists that a server has, as it is known now. */
struct server_list_state {
	struct tool_list list;  /* the server's own bytes */
	struct tool_list shown; /* tools: without those that are not allowed, where any may be; else empty */
	bool wanted;            /* somebody has asked for it: it is kept current. Tools always are */
	bool live;              /* a connection that is there now has listed it */
	bool failed;            /* the last listing of a connection that is there now has */
	int64_t expires_ms;     /* on loop_now_ms(): to be fetched again when asked for after this; 0: never */
	bool cache_private;     /* a modern server's cacheScope, or it has not said */
};

struct server {
	struct manager *m;
	uint64_t id;
	char *name;
	const struct server_config *cfg; /* the manager's configuration's */
	enum server_state state;         /* of all lanes together, as last worked out */
	unsigned events;                 /* enum outbox_event, not told yet */

	/* Where connections are made. main: the one of a shared or exclusive server, else NULL. catalogue: made when
	 * a list is wanted of a server that has no client yet, else NULL. */
	struct lane_list lanes;
	struct lane *main, *catalogue;
	struct claims claims; /* exclusive */
	struct askers askers;
	unsigned n_instances; /* those that are ending included */

	struct server_list_state lists[SERVER_LIST_COUNT];
	char shown_revision[DIGEST_HEX]; /* of the tools that were told of last */
	enum mcp_era era, stored_era;    /* remembered for the definition, here and on disk */
	struct server_facts_copy *facts;
	bool facts_remembered; /* from the disk: no connection of this life has told them */

	struct server_counters counters; /* without what passes on connections that are there */
	struct server_log log;
	struct history history;
	char connected_at[TIMESTAMP_TEXT];
	char *last_error;
	char last_error_at[TIMESTAMP_TEXT];
	char *advice;
	bool by_hand;    /* disconnected by hand: only a call or an order starts it */
	unsigned pinned; /* enum server_pin */
	struct order_list orders;
	struct server_instance_info *shown; /* of the last server_get_info() */
};

/* ---- server.c: a server as a whole ---- */

struct server *server_new(struct manager *m, const struct server_config *cfg);
/* Ends everything of it and frees it: calls in flight and waiting fail, connections close behind. */
void server_free(struct server *server);
/* Another definition of the same name; touches what has to be touched. environment_changed: the daemon's
 * "environment" has. */
void server_reconfigure(struct server *server, const struct server_config *cfg, bool environment_changed);
/* Starts what a server that is not lazy has running, if it is not. */
void server_start(struct server *server, const char *why);
/* Ends all connections; waiting calls fail, or stay (and start what they wait for) with keep_waiting. */
void server_stop(struct server *server, const char *why, bool keep_waiting);
/* Places a new call, or one that is to be placed anew. */
void server_submit(struct server *server, struct server_call *call);
/* For the end of a shutdown: waiting calls fail, connections close. */
void server_shut(struct server *server);

/* ---- server_state.c: what becomes known of it ---- */

/* Works the state out anew; reason is for the history, may be NULL. */
void server_state_changed(struct server *server, const char *reason);
/* A failure's message without the server's name in front, for places that name the server themselves. */
const char *server_reason(const struct server *server, const char *message);
/* Records what went wrong (lastError) and logs it. */
void server_note_error(struct server *server, const char *message);
void server_add_log(struct server *server, const char *prefix, struct span text);
void server_set_facts(struct server *server, const struct mcp_server_facts *facts, bool remembered);
const struct mcp_server_facts *server_known_facts(const struct server *server);
void server_forget_facts(struct server *server);
/* What has passed on a connection that has closed. */
void server_add_traffic(struct server *server, const struct transport_traffic *traffic);
/* An instance of it has closed for good. */
void server_instance_gone(struct server *server);
unsigned server_count_calls(const struct server *server, unsigned *ret_waiting);

/* ---- server_lists.c: tools, prompts, resources and templates, live and remembered ---- */

void server_lists_init(struct server *server);
void server_lists_done(struct server *server);
/* Takes lists, facts and era from the disk, in place of what is known. */
void server_load_cache(struct server *server);
/* No connection that is there now has listed anything. */
void server_lists_not_live(struct server *server);
/* Works out anew which tools are shown, for another configuration. */
void server_filter_tools(struct server *server);
/* The list as it is shown. */
const struct tool_list *server_shown(const struct server *server, enum server_list list);
/* An instance has listed; of tools one with these capabilities (enum tool_capability). ttl_ms: -1: no limit. */
void server_adopt_list(struct server *server, enum server_list list, struct span elements, int64_t ttl_ms,
		       unsigned capabilities);
void server_listing_failed(struct server *server, enum server_list list, const char *message);
/* Whether such a list is there to be asked for, as far as is known of the server. */
bool server_offers_list(const struct mcp_server_facts *facts, enum server_list list);
/* The remembered era did not work. */
void server_forget_era(struct server *server);

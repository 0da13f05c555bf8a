/* What the files of the MCP dialect share. For facade*.c and view.c only. */
#pragma once

#include <assert.h>

#include "ipc/batch.h"
#include "ipc/facade.h"
#include "ipc/ipc_internal.h"
#include "ipc/request.h"
#include "ipc/view.h"
#include "mcp/era.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"

#define META_KEY(name) "io.modelcontextprotocol/" name

/* What a result must have towards a modern client, beside what the server wrote. */
enum facade_shape {
	SHAPE_PLAIN,     /* resultType */
	SHAPE_CACHEABLE, /* and ttlMs, cacheScope */
};

/* A request of the client that a server is working on. It lives until the server's answer has come, and longer if that
 * waits for the client to ask for it (facade_park.c). */
struct facade_call {
	struct facade_call *next, **at; /* the facade's */
	struct session *session;
	struct request *request; /* NULL: parked, or nobody waits for it any more */
	uint64_t row;            /* the router's; 0: it has ended */
	uint64_t server;
	enum facade_shape shape;
	bool modern;           /* the client asked in the modern era */
	char *method;          /* JSON string, of a modern client; or NULL */
	struct parked *parked; /* NULL: nothing was asked */
};

/* A request that waits for servers' lists. */
struct facade_wait {
	struct facade_wait *next, **at;
	struct request *request;
	struct timer *timer;
	unsigned lists; /* bit per enum server_list: what must be settled */
	/* Goes on with the request. The wait is over, and valid during the call. */
	void (*go)(struct session *session, struct facade_wait *wait, bool timed_out);
	bool modern;
	size_t offset;         /* facade_lists.c */
	enum server_list list; /* facade_lists.c */
	char *text;            /* facade_route.c: the message that waits */
};

/* A modern client's subscriptions/listen. */
struct listen {
	struct listen *next, **at;
	struct session *session;
	struct request *request;
	bool lists[SERVER_LIST_COUNT];
	char **uris; /* decoded */
	size_t n_uris;
	size_t pending; /* subscriptions at servers that are not answered yet */
	bool acknowledged;
};

struct facade {
	struct session *session;
	struct requests requests;
	char *only;          /* the one server's name; NULL: the aggregate */
	char *client;        /* what mcp/attach called the client, JSON string; or NULL */
	const char *version; /* of a legacy client, from initialize; NULL: none yet */
	bool initialized;    /* a legacy client that may be told of changes */
	bool modern;         /* it has sent a request of the modern era */
	char *described;     /* what the router was told of a modern client: its capabilities as text */
	char *level;         /* a legacy client's log level, JSON string; NULL: never set */
	uint64_t *levelled;  /* ids of servers that were told */
	size_t n_levelled;
	struct view_revision seen[SERVER_LIST_COUNT]; /* what the client was shown last */
	struct facade_call *calls;
	struct facade_wait *waits;
	struct listen *listens;
	struct subscribing *subscribing;
	unsigned n_listens;
	struct timer *park_timer;
};

/* One message on its way through the dispatch. */
struct facade_message {
	struct session *session;
	struct facade *facade;
	struct batch *batch; /* or NULL */
	const struct jsonrpc_message *m;
	bool modern;
	bool waited; /* for lists: what is known by now decides */
};

static inline struct facade *facade_of(const struct session *session)
{
	assert(session_dialect(session) == &facade_dialect);
	return session_state(session);
}

/* A request's handler: answers it, now or later. */
typedef void facade_fn(struct request *r, const struct facade_message *fm);

/* facade_open.c */
facade_fn facade_initialize, facade_discover, facade_ping;
/* facade_lists.c */
facade_fn facade_list_tools, facade_list_prompts, facade_list_resources, facade_list_templates;
/* facade_route.c */
facade_fn facade_call_tool, facade_get_prompt, facade_use_resource, facade_complete, facade_use_task, facade_pass,
	facade_set_level;
/* facade_listen.c */
facade_fn facade_listen;

/* Tells the router who the client is and what it can. As router_client_describe(). */
int facade_describe(struct facade *facade, struct span client_info, struct span capabilities);
/* What the client sees, as it is now. */
struct view facade_view(const struct facade *facade);
/* For request_pend(): a cancelled request gets no answer. */
void facade_on_cancel_silently(struct request *r, uint64_t arg, const char *reason);
/* The request of a session that may have gone, or NULL. */
struct request *facade_find_request(struct ipc *ipc, uint64_t session, uint64_t number);
/* The view's one server, or NULL and the request is answered. Not for the aggregate. */
struct server *facade_find_server(struct request *r);
/* An error of the daemon's own: -32603 with data.mcpd (PROTOCOL "MCP dialect"). data: members for it beside `code`,
 * without braces; may be absent. */
void facade_fail(struct request *r, int code, const char *message, struct span data);
/* What became of a call that has failed. */
void facade_answer_failure(struct request *r, uint64_t server, const char *server_name, unsigned queue_position,
			   const struct transport_reply *reply);
/* A result of mcpd's own, or of a server of any era, in the shape that the client's era wants. */
void facade_answer_result(struct request *r, bool modern, enum facade_shape shape, struct span result);

/* facade_calls.c: the request goes to the server with these params. */
void facade_forward(struct request *r, const struct facade_message *fm, struct server *server, struct span params);
void facade_free_call(struct facade_call *call);
void facade_calls_done(struct facade *facade);
/* facade_route.c: tells the server the client's log level, if it was not told yet. */
void facade_apply_level(struct facade *facade, struct server *server);
/* facade_wait.c: waits at most until deadline_ms; what the caller fills in is zero. */
struct facade_wait *facade_wait_new(struct request *r, unsigned lists, int64_t deadline_ms,
				    void (*go)(struct session *session, struct facade_wait *wait, bool timed_out));
void facade_waits_check(struct facade *facade);
/* facade_listen.c */
void facade_listens_finish(struct facade *facade);
void facade_listens_done(struct facade *facade);
void facade_listens_tell_list(struct facade *facade, enum server_list list);
void facade_listens_tell_update(struct facade *facade, const struct router_notification *notification);
/* facade_calls.c: the call's answer is for this request. */
void facade_attach_request(struct facade_call *call, struct request *r);
/* facade_park.c */
void facade_park_ask(struct facade *facade, const struct client_question *question);
void facade_park_withdraw(struct facade *facade, uint64_t question);
void parked_free(struct facade_call *call);
/* The call's end: true if its answer is kept for the client to fetch. */
bool facade_park_keep(struct facade_call *call, bool is_error, struct span payload);
/* Whether the message repeats a parked call, which it then does; otherwise nothing has happened. */
bool facade_park_resume(struct request *r, const struct facade_message *fm);
/* A legacy server's -32042 becomes an input-required result; false if it cannot. */
bool facade_park_url_error(struct request *r, struct span error);

/* What the files of the control dialect share. For control*.c only. */
#pragma once

#include <assert.h>

#include "ipc/control.h"
#include "ipc/ipc_internal.h"
#include "ipc/request.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"
#include "proto/methods.h"

/* One subscription to events. */
struct event_filter {
	enum event_topic topic;
	char *server; /* NULL: of all servers */
};

/* A control session's state. */
struct control {
	struct requests requests;
	struct event_filter *filters;
	size_t n_filters;
};

static inline struct control *control_of(const struct session *session)
{
	assert(session_dialect(session) == &control_dialect);
	return session_state(session);
}

/* A method: answers the request, now or later. Its parameters have the types of the table. */
typedef void control_fn(struct request *r, const struct jsonrpc_message *m);
control_fn control_hello, control_status, control_reload, control_shutdown, control_discover; /* control_daemon.c */
control_fn control_metrics;                                                                   /* control_metrics.c */
control_fn control_servers_list, control_servers_get, control_servers_connect, control_servers_disconnect,
	control_servers_reconnect, control_servers_release, control_servers_logs; /* control_servers.c */
control_fn control_tools_list;                                                    /* control_tools.c */
control_fn control_tools_call, control_mcp_request, control_mcp_notify;           /* control_calls.c */
control_fn control_attach;                                                        /* control_attach.c */
control_fn control_subscribe, control_unsubscribe;                                /* control_events.c */

/* An attach that is refused ends the connection, once that is told. */
void control_attach_refused(struct session *session);
void control_free(struct control *control);
/* The server that a JSON string names; or NULL, and the request is answered -32001. */
struct server *control_find_server(struct request *r, struct span name);
/* The request of a session that may have gone, or NULL. */
struct request *control_find_request(struct ipc *ipc, uint64_t session, uint64_t number);
/* An integer parameter that was checked, or its default. */
int64_t control_integer(struct span value, int64_t otherwise);
/* Whether one more subscription is too many; the request is then answered -32009. */
bool control_too_many_subscriptions(struct request *r, size_t more);
void control_answer_limit(struct request *r, enum mcpd_limit limit, const char *message);

/* Resident memory of the daemon in bytes, 0 if it cannot be told. */
int64_t control_resident_bytes(void);

/* control_events.c: frees what the session has subscribed to. */
void control_events_done(struct control *control);
/* control_tools.c, control_events.c: what the manager has to tell. */
void control_listing_changed(struct ipc *ipc);
void control_tell_server(struct ipc *ipc, struct server *server);
void control_tell_removed(struct ipc *ipc, const char *name);
void control_tell_tools(struct ipc *ipc, struct server *server);
void control_tell_log(struct ipc *ipc, struct server *server, const char *at, struct span text);
void control_tell_notification(struct ipc *ipc, const struct router_notification *notification);
void control_tell_call(struct ipc *ipc, const struct call_info *info);
/* control.c: a server's question, with the server's name in its `_meta`. */
void control_ask(struct session *session, const struct client_question *question);

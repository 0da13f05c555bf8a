/*
 * The MCP dialect: after mcp/attach the daemon is an MCP server to that client, in the era the client speaks (PROTOCOL
 * "MCP dialect").
 *
 * A facade shows one server as it is, or all of them as one (the aggregate). What the daemon knows it answers itself:
 * the handshake, from what is remembered of the server, and the lists. Everything else goes to the server through the
 * router with the client's own bytes, and its answer comes back the same way. The eras are bridged here where the
 * client's differs from the server's: a server's question to a modern client becomes an input-required result
 * (facade_park.c); the other direction is the work of mcp/calling.c.
 */
#pragma once

#include "ipc/session.h"
#include "manager/manager.h"
#include "router/router.h"

extern const struct dialect facade_dialect;

struct facade;

/* The state of a session that was attached to the server, or to all (NULL). client: what mcp/attach called the client, a
 * JSON string, or absent. Both are copied. */
struct facade *facade_new(struct session *session, const char *server, struct span client);

/* What the router has to tell, for every attached client. */
void facade_tell_removed(struct ipc *ipc);
void facade_tell_list(struct ipc *ipc, struct server *server, enum server_list list);
void facade_tell_notification(struct ipc *ipc, const struct router_notification *notification);
/* A listing that was waited for may be there. */
void facade_listing_changed(struct ipc *ipc);
/* Progress of the client's task, behind the answer of its call. */
void facade_task_progress(struct session *session, struct span params);
/* A question to the session's client, and its withdrawal. */
void facade_ask(struct session *session, const struct client_question *question);
void facade_withdraw(struct session *session, uint64_t question, const char *reason);
/* The daemon is about to close all sessions: open subscriptions end as the protocol says. */
void facade_tell_closing(struct ipc *ipc);

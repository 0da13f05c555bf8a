/* What mcp_client.c (life, and what comes from the server) and calling.c (calls to it) share. For those two alone. */
#pragma once

#include "mcp/calls.h"
#include "mcp/facts.h"
#include "mcp/handshake.h"
#include "mcp/mcp_client.h"
#include "mcp/server_questions.h"
#include "mcp/server_tasks.h"
#include "proto/buf.h"

enum client_state {
	CLIENT_NEW,
	CLIENT_OPENING, /* connecting, handshake */
	CLIENT_READY,
	CLIENT_CLOSING, /* the transport has been told to close */
	CLIENT_CLOSED,  /* it has; on_closed is due */
	CLIENT_GONE,    /* on_closed has been called: nothing is called back any more */
};

struct mcp_client {
	struct loop *loop;
	struct transport *transport;
	struct mcp_client_callbacks callbacks;
	void *arg;
	enum client_state state;

	char *server, *capabilities, *client_info;
	int64_t max_timeout_ms;
	const struct limits *limits;

	struct handshake handshake;
	struct facts facts;
	struct call_table calls;
	struct server_questions questions;
	struct server_tasks tasks;
	struct buf scratch; /* params being written, for the length of one call of ours to the transport */
	struct task *task;  /* calls in CALL_ENDING, and on_closed */
	char *close_reason;
	uint64_t dropped;
};

static inline bool client_is_modern(const struct mcp_client *client)
{
	return client->facts.pub.era == MCP_ERA_MODERN;
}

/* Parts of a request are repeated in headers (mcp/http_headers.h), and closing its stream cancels it. */
static inline bool client_uses_headers(const struct mcp_client *client)
{
	return client_is_modern(client) && client->transport && transport_kind_of(client->transport) == TRANSPORT_HTTP;
}

/* Completes the calls whose failure is due. */
void calling_end_due(struct mcp_client *client);
/* The transport has closed: completes what no request is out for. */
void calling_end_all(struct mcp_client *client);
void calling_progress(struct mcp_client *client, struct span params);
/* A modern server has ended a subscription with notifications/cancelled (stdio). */
void calling_listen_ended(struct mcp_client *client, struct span request_id);
/* The asker's answer to an input request. The question is taken out and freed. */
void calling_input_answered(struct mcp_client *client, struct server_question *question, struct span result,
			    struct span error);
/* Takes a question out and tells that it is void. */
void client_void_question(struct mcp_client *client, struct server_question *question, struct span reason);

/* What HTTP responses and failed transfers mean, as replies (contract H2, H4, H9, H10; R30): no I/O, no state. */
#pragma once

#include <stdbool.h>

#include "config/redact.h"
#include "loop/transfer.h"
#include "proto/buf.h"
#include "proto/json_scan.h"
#include "proto/limits.h"
#include "proto/span.h"
#include "transport/transport.h"

/* A response that is no success. */
struct http_error {
	int code; /* MCPD_E_HTTP or MCPD_E_NEEDS_AUTH */
	int status;
	char *message;                            /* H9 */
	char *www_authenticate, *mcp_auth_server; /* NULL: not sent */
	struct buf body;
	bool session_lost, era_modern, sent;
};

/* The parts of the response that matter; absent spans for absent headers. */
struct http_response {
	int status;
	struct span reason;
	struct span body;
	struct span www_authenticate, mcp_auth_server, location;
	bool had_session; /* the request carried one */
};

void http_error_init(struct http_error *error, const struct http_response *response);
/* The same from a transfer whose head has come; without what the redactor (or NULL) knows to be secret. */
void http_error_of(struct http_error *error, const struct redactor *redactor, const struct transfer *t,
		   struct span body, bool had_session);
void http_error_done(struct http_error *error);
/* Valid as long as the error. */
void http_error_reply(const struct http_error *error, struct transport_reply *ret);

/* A refusal that tells of a session that is gone or unknown, or of a server that has forgotten having been
 * initialized. */
bool http_is_session_error(int status, struct span body);
/* A JSON-RPC error that only a server of 2026-07-28 sends with that status. */
bool http_is_modern_error(int status, struct span body);
/* The `error` member of a JSON-RPC response, or absent. */
struct span http_body_error(struct span body);

/* What became of a transfer that did not end well, for people, naming the URL (as it may be shown); *ret_code is the
 * reply's. free() it. */
char *http_transfer_message(const char *shown_url, const struct transfer_end *end, int64_t connect_timeout_ms,
			    const struct limits *limits, int *ret_code);
/* Of a response or event that is no JSON. free() it. */
char *http_parse_message(const char *what, const struct json_error *error);
/* Whether a Content-Type is that media type, parameters aside. */
bool http_is_media_type(struct span content_type, const char *type);

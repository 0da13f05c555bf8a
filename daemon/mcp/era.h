/*
 * Which era a server is of, read from its answers (contract L2): pure functions, no state, no I/O.
 *
 * `server/discover` is the probe. What it can find is the table at era_judge_probe(); the order of messages around it
 * is mcp/handshake.h's part. Legacy: 2024-11-05 to 2025-11-25, with `initialize`. Modern: 2026-07-28, with per-request
 * `_meta`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/buf.h"
#include "proto/span.h"
#include "transport/transport.h"

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_LEGACY_OFFER "2025-11-25" /* what initialize asks for */
#define MCP_E_UNSUPPORTED_VERSION (-32022)
#define MCP_E_MISSING_CAPABILITY (-32021)

/* The version with that name as static text, or NULL if mcpd does not speak it. Quotes are part of the span. */
const char *era_legacy_version(struct span json);
const char *era_modern_version(struct span json);
/* The versions of the modern era that mcpd speaks, as a JSON array, the newest first. */
void era_write_modern_versions(struct buf *out);

enum era_verdict {
	ERA_MODERN,       /* `version` is to be spoken */
	ERA_LEGACY,       /* initialize at once: not a modern server's answer, or it names a legacy version of ours */
	ERA_INCOMPATIBLE, /* modern, and none of its versions is ours: `message` names them */
	ERA_REFUSED,      /* it takes no request of ours: HTTP 403, or a modern error that is about something else */
	ERA_NEEDS_AUTH,
	ERA_LOST, /* nothing reached it, or it cut the connection */
	ERA_TIMEOUT,
};

struct era_finding {
	enum era_verdict verdict;
	const char *version; /* ERA_MODERN; static */
	char *message; /* for people, naming the server; NULL with ERA_MODERN and ERA_LEGACY; era_finding_done() */
};

/*
 * What an answer to server/discover says:
 *   result with `supportedVersions`   that version of ours; else ERA_LEGACY if a legacy one of ours is listed; else
 *                                     ERA_INCOMPATIBLE
 *   result without                    ERA_LEGACY
 *   UnsupportedProtocolVersion        as a result with its `data.supported`, also in the body of an HTTP refusal
 *   any other JSON-RPC error          ERA_LEGACY
 *   HTTP refusal of a modern server   ERA_REFUSED, but for "Method not found", which says nothing of the era
 *   HTTP 403                          ERA_REFUSED; 401: ERA_NEEDS_AUTH
 *   any other status, broken answer   ERA_LEGACY
 *   transport failure                 ERA_LEGACY if the probe may have arrived (it was cut off over it), else ERA_LOST
 */
void era_judge_probe(const char *server, const struct transport_reply *reply, struct era_finding *ret);
/* What an answer to initialize says: ERA_LEGACY with its version, or one of the failures with a message. */
void era_judge_initialize(const char *server, const struct transport_reply *reply, struct era_finding *ret);
void era_finding_done(struct era_finding *finding);

/* The params of the two opening requests; capabilities and client_info are JSON object texts. */
void era_write_probe_params(struct buf *out, struct span capabilities, struct span client_info);
void era_write_initialize_params(struct buf *out, struct span capabilities, struct span client_info);

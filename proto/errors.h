/* Error codes of the socket protocol (PROTOCOL.md, "Errors"), listed once. */
#pragma once

/* X(name, code, title) */
#define MCPD_ERROR_TABLE(X)                                                                                            \
	X(PARSE, -32700, "Parse error")                                                                                \
	X(INVALID_REQUEST, -32600, "Invalid request")                                                                  \
	X(METHOD_NOT_FOUND, -32601, "Method not found")                                                                \
	X(INVALID_PARAMS, -32602, "Invalid params")                                                                    \
	X(INTERNAL, -32603, "Internal error")                                                                          \
	X(UNKNOWN_SERVER, -32001, "Unknown server")                                                                    \
	X(UNAVAILABLE, -32002, "Server unavailable")                                                                   \
	X(TRANSPORT, -32003, "Transport closed")                                                                       \
	X(TIMEOUT, -32004, "Request timeout")                                                                          \
	X(CANCELLED, -32005, "Cancelled")                                                                              \
	X(SERVER, -32006, "MCP error")                                                                                 \
	X(HTTP, -32007, "HTTP error")                                                                                  \
	X(PROTOCOL, -32008, "The server broke the protocol")                                                           \
	X(LIMIT, -32009, "A limit was reached")                                                                        \
	X(NEEDS_AUTH, -32010, "Authorization needed")

enum mcpd_error {
#define MCPD_ERROR_MEMBER(name, code, title) MCPD_E_##name = (code),
	MCPD_ERROR_TABLE(MCPD_ERROR_MEMBER)
#undef MCPD_ERROR_MEMBER
};

/* The table's title, or "Error" for a code that is not in it. */
const char *mcpd_error_title(int code);

/* What became of a call, as events, the log and the metrics name it. X(name, text, code): the code of the table above,
 * 0 for what no code stands for. */
#define MCPD_OUTCOME_TABLE(X)                                                                                          \
	X(OK, "ok", 0)                                                                                                 \
	X(ERROR, "error", MCPD_E_SERVER)                                                                               \
	X(TIMEOUT, "timeout", MCPD_E_TIMEOUT)                                                                          \
	X(CANCELLED, "cancelled", MCPD_E_CANCELLED)                                                                    \
	X(CLOSED, "closed", MCPD_E_TRANSPORT)                                                                          \
	X(UNAVAILABLE, "unavailable", MCPD_E_UNAVAILABLE)                                                              \
	X(HTTP_ERROR, "http-error", MCPD_E_HTTP)                                                                       \
	X(PROTOCOL_ERROR, "protocol-error", MCPD_E_PROTOCOL)                                                           \
	X(LIMIT, "limit", MCPD_E_LIMIT)                                                                                \
	X(NEEDS_AUTH, "needs-auth", MCPD_E_NEEDS_AUTH)                                                                 \
	X(CLIENT_GONE, "client-gone", 0) /* whatever came of it, nobody was told */                                    \
	X(FAILED, "failed", 0)           /* any other code */

enum mcpd_outcome {
#define MCPD_OUTCOME_MEMBER(name, text, code) OUTCOME_##name,
	MCPD_OUTCOME_TABLE(MCPD_OUTCOME_MEMBER)
#undef MCPD_OUTCOME_MEMBER
		OUTCOME_COUNT,
};

const char *mcpd_outcome_name(enum mcpd_outcome outcome);
/* Of a call that ended with this code, 0 for a result, while its client was there. */
enum mcpd_outcome mcpd_outcome_of(int code);

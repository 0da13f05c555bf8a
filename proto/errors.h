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

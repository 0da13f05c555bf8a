/*
 * MCP values in HTTP headers (MCP 2026-07-28, Streamable HTTP, "Request Metadata"), for the daemon and for `mcpctl
 * rpc`.
 *
 * What is no safe header value (anything but visible ASCII with single-byte spaces inside) is carried as
 * `=?base64?..?=` ("Value Encoding").
 */
#pragma once

#include <stdbool.h>

#include "proto/buf.h"
#include "proto/span.h"

/* Whether a name can be a header's (RFC 9110, 5.6.2: token). */
bool http_header_is_token(struct span name);
/* Appends text as a header value. Tabs and the empty text are encoded too: what lies between likes to change or drop
 * them. */
void http_header_add_value(struct buf *out, struct span text);
/* The JSON string in params that `Mcp-Name` repeats for this method (a JSON string): params.name or params.uri;
 * absent where it has none. */
struct span http_header_name_source(struct span method, struct span params);
/* The JSON string `params._meta["io.modelcontextprotocol/protocolVersion"]`: only requests of the modern era have it. */
struct span http_header_version_source(struct span params);
/* Appends the value of `Mcp-Name`; 0, or -EINVAL if the source is no JSON string, -ENOMEM, -E2BIG: out has then failed,
 * too. */
int http_header_add_json(struct buf *out, struct span json_string);

/*
 * The request headers of the modern era that repeat parts of the body (MCP 2026-07-28, Streamable HTTP, "Request
 * Metadata"): `Mcp-Name`, and `Mcp-Param-*` for the properties of a tool's inputSchema that carry `x-mcp-header`.
 * (`MCP-Protocol-Version` and `Mcp-Method` are the transport's.)
 *
 * Pure functions on spans. An annotation counts where it is reached from the schema's root through `properties`
 * alone; anywhere else, and on anything but a string, integer or boolean property, it makes the whole tool invalid,
 * and such a tool must not be shown to anybody (only over HTTP to a modern server; elsewhere annotations have no
 * meaning).
 */
#pragma once

#include <stdbool.h>

#include "proto/span.h"

/* Annotated properties of one tool. HTTP servers commonly take about a hundred headers; a tool with more than this is
 * invalid. */
#define HTTP_HEADERS_PER_TOOL 64

/* NULL if the tool (its object in tools/list, valid JSON) can be used; else why not, for people, naming the property
 * but not the tool. free() it. */
char *http_headers_check_tool(struct span tool);

/*
 * The header lines for a request, "Name: value" with a NULL at the end: for transport_options.headers. input_schema
 * is the called tool's, or absent for other methods; of an invalid schema no `Mcp-Param-*` is made. A value that is
 * null or absent has no header. 0, -ENOMEM or -E2BIG (nothing is returned).
 */
int http_headers_make(struct span method, struct span params, struct span input_schema, char ***ret_headers);
void http_headers_free(char **headers); /* NULL is fine */

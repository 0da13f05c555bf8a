/* One MCP request straight to an HTTP server (contract H13): no daemon, no session, no timeout, no handshake. */
#pragma once

#include <stdio.h>

/*
 * POSTs the request, reads the whole answer, and writes the JSON-RPC envelope to out as it came, with a newline: the
 * first `data:` line of the text, or else the text. params_json may be NULL. Params with
 * `_meta["io.modelcontextprotocol/protocolVersion"]` make it a request of that era, with its headers. An exit status;
 * failures are told on standard error. Redirects are not followed.
 */
int rpc_main(const char *url, const char *method, const char *params_json, FILE *out);

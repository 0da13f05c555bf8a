#include "mcp/request_meta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "mcp/era.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc_meta.h"

#define KEY(name) "io.modelcontextprotocol/" name

int request_meta_apply(const struct request_meta *meta, struct span params, struct buf *scratch,
		       struct span *ret_params)
{
	char token[24];
	struct span version = SPAN_LIT("\"" MCP_MODERN_VERSION "\"");
	/* Towards a legacy server they are only removed: one that speaks both eras would take the request for a modern
	 * one. */
	struct jsonrpc_meta_edit edits[] = {
		{ "progressToken", SPAN_NONE },
		{ KEY("protocolVersion"), meta->modern ? version : SPAN_NONE },
		{ KEY("clientInfo"), meta->modern ? meta->client_info : SPAN_NONE },
		{ KEY("clientCapabilities"), meta->modern ? meta->capabilities : SPAN_NONE },
		{ KEY("logLevel"), meta->modern ? meta->log_level : SPAN_NONE },
		{ KEY("subscriptionId"), SPAN_NONE },
	};
	if (meta->token) {
		snprintf(token, sizeof(token), "%" PRIu64, meta->token);
		edits[0].value = span_of(token);
	}
	if (params.len && json_type_of(params) != JSON_OBJECT)
		return -EINVAL;
	if (!meta->modern && !meta->token && !json_member(params, "_meta").ptr) {
		*ret_params = params;
		return 0;
	}
	buf_reset(scratch);
	int r = jsonrpc_edit_meta(scratch, params, edits, sizeof(edits) / sizeof(edits[0]));
	*ret_params = buf_span(scratch);
	return r;
}

uint64_t request_meta_token(struct span token)
{
	int64_t number;
	if (json_int64(token, &number) < 0 || number <= 0)
		return 0;
	return (uint64_t)number;
}

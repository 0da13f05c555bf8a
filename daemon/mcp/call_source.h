/* What a call is made of; and a copy of it, kept while a modern server may want it sent again with more input
 * (mcp/input_required.h). */
#pragma once

#include "mcp/mcp_client.h"

struct call_parts {
	struct span method, params, capabilities, log_level, input_schema;
};

struct call_source {
	struct call_parts parts;
	char text[]; /* what its spans lie in */
};

/* Copies the parts; NULL when memory is short. */
struct call_source *call_source_new(const struct call_parts *parts);
void call_source_free(struct call_source *source);

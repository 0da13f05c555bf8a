#include "mcp/call_source.h"

#include <stdlib.h>
#include <string.h>

static struct span copy(char **at, struct span from)
{
	if (!from.ptr)
		return SPAN_NONE;
	struct span to = { *at, from.len };
	memcpy(*at, from.ptr, from.len);
	*at += from.len;
	return to;
}

struct call_source *call_source_new(const struct call_parts *parts)
{
	size_t len = parts->method.len + parts->params.len + parts->capabilities.len + parts->log_level.len +
		     parts->input_schema.len;
	/* One byte more: an empty span that is present needs an address too. */
	struct call_source *source = malloc(sizeof(*source) + len + 1);
	if (!source)
		return NULL;
	char *at = source->text;
	source->parts = (struct call_parts){
		.method = copy(&at, parts->method),
		.params = copy(&at, parts->params),
		.capabilities = copy(&at, parts->capabilities),
		.log_level = copy(&at, parts->log_level),
		.input_schema = copy(&at, parts->input_schema),
	};
	return source;
}

void call_source_free(struct call_source *source)
{
	free(source);
}

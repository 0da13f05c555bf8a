/* The tools of the time server: what they are called and take, and what they answer. No I/O, no MCP envelope. */
#pragma once

#include <time.h>

#include "proto/buf.h"
#include "proto/span.h"

struct tool {
	const char *name;
	const char *definition; /* the whole tool object, JSON */
	/* `arguments` is a JSON object. Adds either the structured result to `result`, or a text to `error`. */
	void (*call)(struct span arguments, time_t now, struct buf *result, struct buf *error);
};

#define TOOL_COUNT 2
extern const struct tool tools[TOOL_COUNT];

/* NULL if there is none; `name` is a JSON string. */
const struct tool *tool_find(struct span name);

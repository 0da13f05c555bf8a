/* The last lines that a server wrote to stderr: when it dies, they are the most useful thing there is to tell
 * (PITFALLS "Children"). */
#pragma once

#include <stddef.h>

#include "proto/span.h"

#define TAIL_LINES 5
#define TAIL_LINE_BYTES 200

struct tail {
	char *lines[TAIL_LINES]; /* a ring */
	unsigned count;          /* of all lines ever */
};

/* Blank lines are left out, long ones cut. */
void tail_add(struct tail *tail, struct span line);
/* The lines, oldest first, in one text; NULL if there are none. free() it. */
char *tail_text(const struct tail *tail);
void tail_done(struct tail *tail);

/* At most so many bytes of a text, cut before a UTF-8 character, not inside. */
struct span tail_cut(struct span text, size_t max);

/*
 * Changing members of a JSON object that is otherwise copied byte for byte (ARCHITECTURE house rule 3): what is not
 * named keeps its spelling and its order.
 */
#pragma once

#include <stddef.h>

#include "proto/buf.h"
#include "proto/span.h"

enum json_edit_mode {
	JSON_EDIT_REPLACE, /* the value of the member, if it is there; every occurrence */
	JSON_EDIT_DEFAULT, /* a member is added at the end if there is none */
	JSON_EDIT_SET,     /* both */
	JSON_EDIT_DROP,    /* every occurrence goes */
};

struct json_edit {
	const char *name; /* decoded; no two edits of one call have the same, and it needs no escapes */
	enum json_edit_mode mode;
	struct span value; /* JSON; not for JSON_EDIT_DROP */
};

/* Appends the object with the edits. 0; -EINVAL if it is no object (out is then as before); or the buffer's error. */
int json_edit(struct buf *out, struct span object, const struct json_edit *edits, size_t n_edits);

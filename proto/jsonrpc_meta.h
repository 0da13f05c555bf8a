/*
 * Changing the reserved members of `_meta` in params that are otherwise relayed byte for byte (PROTOCOL "Framing": the
 * only bytes exchanged are ids, progress tokens and the reserved members of `_meta`).
 */
#pragma once

#include <stddef.h>

#include "proto/buf.h"
#include "proto/span.h"

/* One change to the `_meta` object of a params object. No two edits of one call have the same name. */
struct jsonrpc_meta_edit {
	const char *name;  /* member of _meta */
	struct span value; /* JSON to put there; absent: the member is removed */
};

/* Appends params with its `_meta` edited: every occurrence of a named member is removed and, where there is a value,
 * one written at the end of `_meta`; all other bytes are copied as they are. An absent params, or a missing `_meta`, is
 * made where there is something to put in, and stays away otherwise. Where `_meta` itself occurs more than once, the
 * values go to the last, which receivers take, and the named members are removed from all. 0, -ENOMEM, -E2BIG, or
 * -EINVAL if params or a `_meta` is no object (out is then as before). */
int jsonrpc_edit_meta(struct buf *out, struct span params, const struct jsonrpc_meta_edit *edits, size_t n_edits);

/*
 * The reserved members of a request's `_meta` (PITFALLS "Relaying", PROTOCOL "Framing"): the asker's own progress token
 * and its own protocol fields never go further; ours stand in their place. All other bytes of params stay as they are,
 * other members of `_meta` included.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"

struct request_meta {
	uint64_t token;                        /* our progress token; 0: none wanted */
	bool modern;                           /* the members below are put in */
	struct span client_info, capabilities; /* JSON objects */
	struct span log_level;                 /* JSON string, or absent */
};

/* The params to send: *ret_params is params itself where nothing is to be changed, else what was written to scratch
 * (which is reset first). 0, -EINVAL if params or its
 * `_meta` is no object, -ENOMEM or -E2BIG. */
int request_meta_apply(const struct request_meta *meta, struct span params, struct buf *scratch,
		       struct span *ret_params);
/* The number of one of our tokens, or 0 if it cannot be ours. */
uint64_t request_meta_token(struct span token);

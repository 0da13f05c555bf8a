/* What a failed call is told as: code, message and data (PROTOCOL "Errors"). */
#pragma once

#include "ipc/request.h"
#include "router/call.h"

/* Whose failure it is. */
struct failure_context {
	uint64_t server; /* its id; it may have gone */
	const char *server_name;
	unsigned queue_position; /* of an exclusive server's queue, 0: none */
};

/* Appends the members of `data` that tell what became of a call, without braces, `server` first; reply->code is not 0.
 * cancel_reason: what the client gave, or NULL. */
void failure_write_data(struct buf *out, struct ipc *ipc, const struct failure_context *context,
			const struct transport_reply *reply, const char *cancel_reason);
/* Ends the request with what became of it; reply->code is not 0. */
void failure_answer(struct request *r, const struct failure_context *context, const struct transport_reply *reply);
/* The same with -32002 in place of the reply's code, for a state that cannot be reached. */
void failure_answer_unavailable(struct request *r, const struct failure_context *context, const char *message);
/* The object that -32002 gives as `lastError`, with its key and a comma in front; nothing if there is none. */
void failure_add_last_error(struct buf *out, const struct server_info *info);

/*
 * The requests of one client that are in flight (PROTOCOL "Framing"): each is answered exactly once, with its id byte
 * for byte, and an id that is in flight is not taken a second time.
 *
 * A request is freed by its answer, or unanswered with its session. Who works on it for longer than one call says so
 * with request_pend() and is told when it is cancelled, and when it is gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/batch.h"
#include "ipc/session.h"
#include "proto/span.h"

struct request;

/* A client's requests, by id. A zeroed struct is empty. */
struct requests {
	struct request **buckets;
	size_t n_buckets; /* a power of two, or 0 */
	size_t count;
};

/* Starts a request; NULL if there is no memory for its id. The id is not in flight (requests_find()). */
struct request *request_new(struct session *session, struct requests *requests, struct span id);
struct request *requests_find(const struct requests *requests, struct span id);
/* By request_number(). */
struct request *requests_find_number(const struct requests *requests, uint64_t number);
/* Frees all of them without an answer: the session ends. */
void requests_done(struct requests *requests);

struct session *request_session(const struct request *request);
struct ipc *request_ipc(const struct request *request);
/* Unique for the daemon's life, never 0: to find the request again when it may have gone (requests_find_number()). */
uint64_t request_number(const struct request *request);

/* The request stays in flight. cancel: it was cancelled, with a reason (plain text, never NULL), and is to be answered,
 * now or later; NULL: it is answered -32005 at once. gone: it is being freed, answered or not; may be NULL. arg: an id,
 * or a pointer as uintptr_t. */
void request_pend(struct request *request, void (*cancel)(struct request *request, uint64_t arg, const char *reason),
		  void (*gone)(uint64_t arg), uint64_t arg);
/* notifications/cancelled came for it. reason: JSON string or absent. */
void request_cancel(struct request *request, struct span reason);
/* Ends it without an answer, as a cancelled request of the MCP dialect ends. */
void request_drop(struct request *request);
/* Its id as the client wrote it. */
struct span request_id(const struct request *request);
/* It belongs to a batch: its answer is collected there. Before anything can answer it. */
void request_join(struct request *request, struct batch *batch);
/* The reason it was cancelled with, or NULL. */
const char *request_cancel_reason(const struct request *request);

/* The answer; the request is gone afterwards. Results are copied once, into the client's line. */
void request_result(struct request *request, struct span result);
/* message NULL: the code's title. data may be absent. */
void request_error(struct request *request, int code, const char *message, struct span data);
/* error: a whole JSON-RPC error object, sent as it is. */
void request_error_object(struct request *request, struct span error);
/* For buffers that may have failed: the result, or -32603. Releases the buffer. */
void request_result_buf(struct request *request, struct buf *result);
void request_error_buf(struct request *request, int code, const char *message, struct buf *data);

/*
 * JSON-RPC 2.0 messages (contract L1): what a line is, where its parts lie, and how lines are written.
 *
 * A message is classified by its members alone: `method` and `id` make a request, `method` alone a notification, `id`
 * with `result` or `error` a response (contract S3 to S5; a line with `method` is never an answer, R23). Payloads are
 * spans into the line and go out byte for byte (house rule 3).
 */
#pragma once

#include "proto/buf.h"
#include "proto/json_scan.h"
#include "proto/jsonrpc_meta.h"
#include "proto/span.h"

enum jsonrpc_kind {
	JSONRPC_INVALID, /* valid JSON, but no message: see problem */
	JSONRPC_REQUEST,
	JSONRPC_NOTIFICATION,
	JSONRPC_RESULT,
	JSONRPC_ERROR,
	JSONRPC_BATCH, /* an array; walk it with json_iter_element() and parse each element */
};

/* The members of `params`, and of `params._meta`, that mcpd itself reads. Taken in the same pass as the envelope. */
enum jsonrpc_param {
	PARAM_SERVER,
	PARAM_NAME,
	PARAM_ARGUMENTS,
	PARAM_METHOD,
	PARAM_PARAMS,
	PARAM_TIMEOUT_MS,
	PARAM_META,                /* _meta */
	PARAM_META_PROGRESS_TOKEN, /* _meta.progressToken */
	PARAM_PROGRESS_TOKEN,
	PARAM_PROGRESS,
	PARAM_REQUEST_ID,
	PARAM_REASON,
	PARAM_URI,
	PARAM_PARAMS_META_PROGRESS_TOKEN, /* params.params._meta.progressToken, of mcp/request */
	JSONRPC_PARAM_COUNT,
};

struct jsonrpc_message {
	enum jsonrpc_kind kind;
	const char *problem; /* static text for JSONRPC_INVALID: what is wrong with the envelope */
	struct span text;    /* the whole message */
	/* as written, quotes included; absent in notifications; of JSONRPC_INVALID too, where it could be found */
	struct span id;
	struct span method; /* as written, quotes included */
	struct span params;
	struct span result;
	struct span error;
	struct span param[JSONRPC_PARAM_COUNT];
	uint64_t doubled_params; /* bit per enum jsonrpc_param that occurred twice */
};

/* 0 with *ret filled, or -EINVAL if the text is not JSON (*ret is then JSONRPC_INVALID without any member). Doubled
 * envelope members make JSONRPC_INVALID. `jsonrpc` must be "2.0" in requests and notifications; in responses a missing
 * one is forgiven, and so is a null beside the other of `result` and `error`. `params` must be an object, or (forgiven
 * by the parser, refused by the control dialect with -32602) an array; `error` an object; `id` a string, a number, or
 * null in error responses. */
int jsonrpc_parse(struct span text, struct jsonrpc_message *ret, struct json_error *ret_error);
/* The same for text that may be nested no deeper than this (limit maxNesting). -E2BIG where it is: *ret is then
 * JSONRPC_INVALID with what was seen of id, method, result and error before; the last one may have only begun (ptr, and
 * len 0). */
int jsonrpc_parse_within(struct span text, int64_t max_depth, struct jsonrpc_message *ret,
			 struct json_error *ret_error);
/* Whose answer a line shows that is no message, or the beginning of one that is too long (contract S7a): true, with the
 * id as written, if its id is complete and the only one, it has begun its `result` or `error`, and no `method` was
 * seen. */
bool jsonrpc_peek_answer(struct span start, struct span *ret_id);

/* Whether two ids are the same: strings compared decoded, numbers by their bytes. */
bool jsonrpc_ids_equal(struct span a, struct span b);
/* A hash that agrees with jsonrpc_ids_equal(). */
uint64_t jsonrpc_id_hash(struct span id);

/* A method name as the writers want it, from a literal. */
#define JSONRPC_METHOD(name) SPAN_LIT("\"" name "\"")

/* Writers. Each appends one line, `\n` included; nothing else in it is a raw line end (contract S1). Spans must be
 * valid JSON, method and id as they are in struct jsonrpc_message: a string with its quotes. An absent params is left
 * out; an absent id is written as null. Errors stay in the buffer: see buf_failed(). */
void jsonrpc_write_request(struct buf *out, struct span id, struct span method, struct span params);
void jsonrpc_write_notification(struct buf *out, struct span method, struct span params);
void jsonrpc_write_result(struct buf *out, struct span id, struct span result);
/* data may be absent. message is plain text; NULL: the code's title. */
void jsonrpc_write_error(struct buf *out, struct span id, int code, const char *message, struct span data);
/* error is a whole JSON-RPC error object. */
void jsonrpc_write_error_object(struct buf *out, struct span id, struct span error);
/* Appends JSON that may be pretty-printed: every raw CR and LF, which valid JSON has only between tokens, becomes a
 * space. The writers do this for params, result, error and data. */
void jsonrpc_add_payload(struct buf *out, struct span payload);

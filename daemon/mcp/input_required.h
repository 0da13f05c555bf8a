/*
 * Input-required results of modern servers (2026-07-28, multi round-trip requests): what the server asks, the answers,
 * and the params of the repeated request. No I/O and no order of events: mcp/calling.c drives it.
 *
 * A round is one such result: its `inputRequests` are questions to the asker, each answered once; its `requestState`
 * goes back byte for byte and is looked into by nobody. Both belong to the repeat of that one call alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"

#define INPUT_ROUNDS_MAX 32   /* repeats of one call */
#define INPUT_REQUESTS_MAX 64 /* questions in one round */

struct input_request {
	struct span key;    /* JSON string as written */
	struct span method; /* JSON string */
	struct span params; /* JSON object, or absent */
	uint64_t number;    /* for the driver */
	char *answer;       /* NULL: not yet */
};

struct input_round {
	char *text;        /* the result, which the spans lie in */
	struct span state; /* requestState as written, or absent */
	struct input_request requests[INPUT_REQUESTS_MAX];
	size_t n_requests;
	bool asks;      /* inputRequests is there, if only empty */
	size_t waiting; /* without an answer */
};

/* Whether a result asks for input. */
bool input_required_is(struct span result);
/* Whether a server may ask for input in answer to that method (a JSON string). */
bool input_required_allowed(struct span method);

/* Reads an input-required result, which is copied. 0; -EPROTO with *ret_problem (static text) if it is not as the
 * protocol wants it; -ENOMEM. */
int input_round_new(struct span result, struct input_round **ret, const char **ret_problem);
void input_round_free(struct input_round *round);
/* The first request that the client capabilities (JSON object, or absent) do not cover, or NULL. */
const struct input_request *input_round_undeclared(const struct input_round *round, struct span capabilities);
/* 0, -EALREADY if it has its answer, -ENOMEM. The result is copied. */
int input_round_answer(struct input_round *round, size_t index, struct span result);
/* Appends the params of the repeat: the original's, with the answers and the state of this round in place of any
 * earlier ones. 0, -EINVAL if params is no object, or the buffer's error. Every request must have its answer. */
int input_round_params(const struct input_round *round, struct span params, struct buf *out);

/*
 * What a line of MCP says, told while its bytes pass by: who asks, whose answer it is. Nothing is kept of a line but the few members below, so
 * that it may have any length, and its id may stand anywhere in it, also behind 60 MiB of arguments.
 *
 * This is no validator: of bytes that are no JSON it says something or nothing, and they pass to the one who will refuse them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/span.h"

enum peek_member {
	PEEK_METHOD,
	PEEK_ID,
	PEEK_PARAMS,
	PEEK_RESULT,
	PEEK_ERROR,
	PEEK_REQUEST_ID, /* params.requestId */
	PEEK_LEVEL,      /* params.level */
	PEEK_URI,        /* params.uri */
	PEEK_META,       /* params._meta */
	PEEK_SUBSCRIPTION_ID,
	PEEK_NOTIFICATIONS, /* params.notifications, of subscriptions/acknowledged */
	PEEK_ACK_TOOLS,
	PEEK_ACK_PROMPTS,
	PEEK_ACK_RESOURCES,
	PEEK_CAPABILITIES, /* result.capabilities, of initialize */
	PEEK_TOOLS,
	PEEK_TOOLS_CHANGE, /* result.capabilities.tools.listChanged */
	PEEK_PROMPTS,
	PEEK_PROMPTS_CHANGE,
	PEEK_RESOURCES,
	PEEK_RESOURCES_CHANGE,
	PEEK_COUNT,
};

/* The longest value that is kept of any member, and of all members of one message together. */
#define PEEK_VALUE_MAX ((size_t)4096)
#define PEEK_VALUES_MAX ((size_t)16384)

struct peek {
	/* where we are */
	unsigned depth; /* open containers */
	unsigned base;  /* containers around a message: 1 in a batch */
	bool in_string, escaped;
	/* paths: the innermost open object whose members are looked at */
	unsigned inside_depth; /* its depth; 0: no message is open */
	int inside;            /* the member whose value it is; -1: the message */
	bool key_next;
	int want;     /* the member whose value comes next, or is being kept; -1: none */
	bool keeping; /* a scalar value is being kept at the end of values */
	bool in_key;
	size_t key_len;
	char key[64]; /* as written, quotes included; longer ones are nobody's */
	/* what was found */
	unsigned seen;    /* bit per member: it is there */
	unsigned doubled; /* it is there twice */
	unsigned lost;    /* its value is too long to be kept */
	struct {
		size_t at, len;
	} found[PEEK_COUNT]; /* in values; only of complete scalars */
	size_t values_len;
	char values[PEEK_VALUES_MAX];
};

/* Before the first byte of a line. */
void peek_begin(struct peek *peek);
/* Takes bytes up to the end of a message: then *ret_message is true, and the accessors speak of that message until the next call. The number
 * of bytes taken; all of them where no message ends in them. */
size_t peek_feed(struct peek *peek, struct span bytes, bool *ret_message);
/* The value of a member of the current message, as far as it was read, as it is written; absent if it is not there, not complete, there twice, no
 * scalar, or too long. */
struct span peek_value(const struct peek *peek, enum peek_member member);
static inline bool peek_has(const struct peek *peek, enum peek_member member)
{
	return peek->seen >> member & 1;
}
/* It is there, but longer than what is kept. */
static inline bool peek_is_lost(const struct peek *peek, enum peek_member member)
{
	return peek->lost >> member & 1;
}

/*
 * A growing byte buffer with a hard maximum, for building messages.
 *
 * Errors are sticky: after a failed allocation or a write past the maximum every further write does nothing and
 * buf_failed() is true, so that a builder checks once, at its end. The bytes are always NUL-terminated behind len (the
 * NUL does not count) once anything was added.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/span.h"

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max; /* bytes; 0: no maximum but SIZE_MAX / 2 */
	int error;  /* 0, -ENOMEM or -E2BIG: sticky until buf_reset() or buf_done() */
};

#define BUF_INIT ((struct buf){ 0 })

void buf_init(struct buf *b, size_t max);
/* Releases the memory; the buffer may be used again afterwards. */
void buf_done(struct buf *b);
/* Forgets the contents and the error, keeps the memory. */
void buf_reset(struct buf *b);
/* Cuts the contents down to len bytes (nothing, if there are fewer); an error stays. */
void buf_truncate(struct buf *b, size_t len);
/* Makes room for extra more bytes; 0, -ENOMEM or -E2BIG (also remembered). */
int buf_reserve(struct buf *b, size_t extra);
/* The added bytes must not lie in the buffer itself: growing moves it. */
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_span(struct buf *b, struct span s);
void buf_add_text(struct buf *b, const char *text);
void buf_add_char(struct buf *b, char c);
__attribute__((format(printf, 2, 3))) void buf_addf(struct buf *b, const char *format, ...);
void buf_add_int(struct buf *b, int64_t value);
/* Adds text as a JSON string, quotes included. Bytes that are no UTF-8 become U+FFFD each; control characters, `"` and
 * `\` are escaped; `/` and everything above U+007F stay as they are. */
void buf_add_json_string(struct buf *b, struct span text);
static inline void buf_add_json_text(struct buf *b, const char *text)
{
	buf_add_json_string(b, span_of(text));
}
static inline bool buf_failed(const struct buf *b)
{
	return b->error != 0;
}
static inline struct span buf_span(const struct buf *b)
{
	return (struct span){ b->data ? b->data : "", b->len };
}
/* Hands the NUL-terminated memory to the caller, who frees it with free(); NULL if the buffer has failed (its memory is
 * then released). The buffer is empty afterwards. */
char *buf_steal(struct buf *b);

/*
 * Lines out of partial reads: one `\n` ends a line, nothing else does (PITFALLS "Relaying", R15).
 *
 * Memory is bounded by max_line and the size of one read, as long as lines are taken out before more is read. Bytes are
 * looked at once: the framer remembers how far it has searched, and a long line in small pieces costs linear time. A
 * line that grows past max_line is reported once, with its first bytes (so that a reader may tell whose answer it was,
 * contract S7a), and then skipped to its end; the stream goes on. Strips one CR before the LF. Does not strip blank
 * lines or a BOM: that is framer_clean()'s part.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/span.h"

struct framer {
	char *data;
	size_t start;   /* first byte not yet handed out */
	size_t end;     /* one behind the last byte read */
	size_t scanned; /* no newline before this offset */
	size_t cap;
	size_t max_line; /* bytes, line end excluded */
	bool skipping;   /* the rest of a line that was too long */
};

enum framer_result {
	FRAMER_NEED_MORE,
	FRAMER_LINE,
	FRAMER_TOO_LONG, /* *ret_line: the first max_line bytes of a line that is longer; the rest is skipped */
};

void framer_init(struct framer *f, size_t max_line);
/* Releases the memory; the framer may be used again afterwards. */
void framer_done(struct framer *f);
/* Where the next bytes may be read to; at least `want` (or 1) bytes, grown as needed. NULL, and *ret_len 0, when memory
 * is short; the framer is then as before. The spans handed out before are invalid afterwards. Call it when
 * framer_next() needs more: what was not taken out is kept beside what is read. */
char *framer_space(struct framer *f, size_t want, size_t *ret_len);
/* That many bytes were read to where framer_space() said. */
void framer_filled(struct framer *f, size_t len);
/* For callers that have the bytes elsewhere: takes all of them; 0, or -ENOMEM and none is taken. Spans handed out
 * before are invalid afterwards. */
int framer_feed(struct framer *f, const void *bytes, size_t len);
/* The next line, valid until framer_space(), framer_feed(), framer_shrink() or framer_done(). */
enum framer_result framer_next(struct framer *f, struct span *ret_line);
/* At the end of the stream: as framer_next(), and at last the unterminated rest (contract S6) as a FRAMER_LINE; then
 * FRAMER_NEED_MORE. */
enum framer_result framer_rest(struct framer *f, struct span *ret_line);
/* Gives memory back after a large line when little is buffered. Spans handed out before are invalid afterwards. */
void framer_shrink(struct framer *f);
/* A line without a leading BOM and JSON white space around it; len 0 for a blank line. */
struct span framer_clean(struct span line);

#include "proto/framer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

/* What a framer starts with, and what framer_shrink() leaves it. */
#define FRAMER_FIRST_BYTES ((size_t)4096)
/* More than this is worth giving back. */
#define FRAMER_KEEP_BYTES ((size_t)64 << 10)

void framer_init(struct framer *f, size_t max_line)
{
	*f = (struct framer){ .max_line = max_line };
}

void framer_done(struct framer *f)
{
	free(f->data);
	framer_init(f, f->max_line);
}

/* Moves what is buffered to the front. */
static void compact(struct framer *f)
{
	if (f->start == 0)
		return;
	memmove(f->data, f->data + f->start, f->end - f->start);
	f->scanned -= f->start;
	f->end -= f->start;
	f->start = 0;
}

/* Doubles, so that a long line in small pieces is copied a bounded number of times, but not past the longest line and
 * the next piece. */
static int grow(struct framer *f, size_t need)
{
	size_t most = f->max_line < SIZE_MAX / 4 ? f->max_line + need - f->end : need;
	size_t cap = f->cap < SIZE_MAX / 4 ? f->cap * 2 : need;
	if (cap > most)
		cap = most;
	if (cap < need)
		cap = need;
	if (cap < FRAMER_FIRST_BYTES)
		cap = FRAMER_FIRST_BYTES;
	char *data = realloc(f->data, cap);
	if (!data)
		return -ENOMEM;
	f->data = data;
	f->cap = cap;
	return 0;
}

char *framer_space(struct framer *f, size_t want, size_t *ret_len)
{
	if (want == 0)
		want = 1;
	if (f->cap - f->end < want) {
		compact(f);
		if (want > SIZE_MAX / 2 - f->end || (f->cap - f->end < want && grow(f, f->end + want) < 0)) {
			*ret_len = 0;
			return NULL;
		}
	}
	*ret_len = f->cap - f->end;
	return f->data + f->end;
}

void framer_filled(struct framer *f, size_t len)
{
	f->end += len;
}

int framer_feed(struct framer *f, const void *bytes, size_t len)
{
	if (len == 0)
		return 0;
	size_t room;
	char *space = framer_space(f, len, &room);
	if (!space)
		return -ENOMEM;
	memcpy(space, bytes, len);
	framer_filled(f, len);
	return 0;
}

/* Nothing is buffered any more; the bytes stay valid until the next read. */
static void forget(struct framer *f)
{
	f->start = f->scanned = f->end = 0;
}

/* The bytes up to `end` without a CR at their end. */
static struct span line_up_to(const struct framer *f, size_t end)
{
	if (end > f->start && f->data[end - 1] == '\r')
		end--;
	return (struct span){ f->data + f->start, end - f->start };
}

/* Reports a line, or the part of it that is known, that passes the maximum. */
static enum framer_result too_long(const struct framer *f, struct span line, struct span *ret_line)
{
	*ret_line = (struct span){ line.ptr, f->max_line };
	return FRAMER_TOO_LONG;
}

/* A line has ended at the newline at this offset. True if it is to be handed out. */
static bool take_line(struct framer *f, size_t newline, struct span *ret_line)
{
	*ret_line = line_up_to(f, newline);
	f->start = f->scanned = newline + 1;
	bool skipped = f->skipping;
	f->skipping = false;
	return !skipped;
}

enum framer_result framer_next(struct framer *f, struct span *ret_line)
{
	while (f->scanned < f->end) {
		struct span line;
		const char *newline = memchr(f->data + f->scanned, '\n', f->end - f->scanned);
		if (newline) {
			if (!take_line(f, (size_t)(newline - f->data), &line))
				continue;
			if (line.len > f->max_line)
				return too_long(f, line, ret_line);
			*ret_line = line;
			return FRAMER_LINE;
		}
		f->scanned = f->end;
		/* A last CR may turn out to belong to the line's end. */
		line = line_up_to(f, f->end);
		if (f->skipping) {
			forget(f);
		} else if (line.len > f->max_line) {
			f->skipping = true;
			forget(f);
			return too_long(f, line, ret_line);
		}
	}
	if (f->start == f->end)
		forget(f);
	return FRAMER_NEED_MORE;
}

enum framer_result framer_rest(struct framer *f, struct span *ret_line)
{
	enum framer_result result = framer_next(f, ret_line);
	if (result != FRAMER_NEED_MORE || f->start == f->end)
		return result;
	*ret_line = line_up_to(f, f->end);
	forget(f);
	return FRAMER_LINE;
}

void framer_shrink(struct framer *f)
{
	size_t buffered = f->end - f->start;
	if (f->cap <= FRAMER_KEEP_BYTES || buffered > f->cap / 4)
		return;
	compact(f);
	size_t cap = buffered > FRAMER_FIRST_BYTES ? buffered : FRAMER_FIRST_BYTES;
	char *data = realloc(f->data, cap);
	if (!data)
		return;
	f->data = data;
	f->cap = cap;
}

struct span framer_clean(struct span line)
{
	static const char bom[] = "\xef\xbb\xbf";
	if (line.len >= 3 && memcmp(line.ptr, bom, 3) == 0) {
		line.ptr += 3;
		line.len -= 3;
	}
	return json_trim(line);
}

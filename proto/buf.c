#include "proto/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/json_lex.h"

/* The least that is allocated, so that short messages do not grow byte by byte. */
#define BUF_FIRST_BYTES 128

static int buf_fail(struct buf *b, int error)
{
	b->error = error;
	return error;
}

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_done(struct buf *b)
{
	free(b->data);
	buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_truncate(struct buf *b, size_t len)
{
	if (len >= b->len)
		return;
	b->len = len;
	b->data[len] = '\0';
}

int buf_reserve(struct buf *b, size_t extra)
{
	if (b->error)
		return b->error;
	size_t max = b->max && b->max < SIZE_MAX / 2 ? b->max : SIZE_MAX / 2;
	if (extra > max - b->len)
		return buf_fail(b, -E2BIG);
	size_t need = b->len + extra + 1; /* the NUL */
	if (need <= b->cap)
		return 0;
	/* Doubled, but never past the maximum; a cap is at most SIZE_MAX / 2 + 1, so this cannot wrap to less than it.
	 */
	size_t cap = b->cap > SIZE_MAX / 2 ? SIZE_MAX : b->cap * 2;
	if (cap > max + 1)
		cap = max + 1;
	if (cap < need)
		cap = need;
	if (cap < BUF_FIRST_BYTES)
		cap = BUF_FIRST_BYTES;
	char *data = realloc(b->data, cap);
	if (!data)
		return buf_fail(b, -ENOMEM);
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
	if (len == 0 || buf_reserve(b, len) < 0)
		return;
	memcpy(b->data + b->len, bytes, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_add_span(struct buf *b, struct span s)
{
	buf_add(b, s.ptr, s.len);
}

void buf_add_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_add_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	va_list again;
	va_copy(again, args);
	size_t room = b->error ? 0 : b->cap - b->len;
	int len = vsnprintf(room ? b->data + b->len : NULL, room, format, args);
	if (len < 0) {
		buf_fail(b, -ENOMEM); /* the one reason there is for the formats of this project */
	} else if (buf_reserve(b, (size_t)len) == 0) {
		if ((size_t)len >= room)
			vsnprintf(b->data + b->len, (size_t)len + 1, format, again);
		b->len += (size_t)len;
	}
	/* A first try that did not fit has left its beginning behind the end. */
	if (b->data)
		b->data[b->len] = '\0';
	va_end(again);
	va_end(args);
}

void buf_add_int(struct buf *b, int64_t value)
{
	char digits[24];
	char *at = digits + sizeof(digits);
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*--at = '-';
	buf_add(b, at, (size_t)(digits + sizeof(digits) - at));
}

static void add_escape(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char names[] = {
		['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
	};
	if (c < sizeof(names) && names[c]) {
		buf_add(b, (char[]){ '\\', names[c] }, 2);
		return;
	}
	buf_add(b, (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 0xf] }, 6);
}

void buf_add_json_string(struct buf *b, struct span text)
{
	const char *at = text.ptr ? text.ptr : "";
	const char *end = at + text.len;
	buf_add_char(b, '"');
	while (at < end && !b->error) {
		const char *run = at;
		size_t step = 0;
		for (;;) {
			at = json_plain_end(at, end);
			if (at == end || (unsigned char)*at < 0x80)
				break;
			step = json_utf8_length(at, end);
			if (step == 0)
				break;
			at += step;
		}
		buf_add(b, run, (size_t)(at - run));
		if (at == end)
			break;
		if ((unsigned char)*at < 0x80)
			add_escape(b, (unsigned char)*at);
		else
			buf_add_text(b, "\xef\xbf\xbd");
		at++;
	}
	buf_add_char(b, '"');
}

char *buf_steal(struct buf *b)
{
	if (buf_reserve(b, 0) < 0) {
		buf_done(b);
		return NULL;
	}
	char *data = b->data;
	data[b->len] = '\0';
	b->data = NULL;
	buf_done(b);
	return data;
}

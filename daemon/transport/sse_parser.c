#include "transport/sse_parser.h"

#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"

/* Memory of this size is kept for the next event; larger is given back. */
#define KEEP_BYTES ((size_t)64 << 10)
/* Longest `retry` that is believed: a day. */
#define RETRY_MAX_MS ((int64_t)24 * 3600 * 1000)

struct sse_parser {
	size_t max_bytes;
	int64_t retry_ms;
	struct buf line; /* the start of a line that was cut */
	struct buf data; /* with a LF behind each `data` line */
	struct buf type;
	struct buf id;      /* of the event being read: it counts once that is complete */
	struct buf last_id; /* NUL-terminated by struct buf */
	bool after_cr;      /* a LF right here belongs to the line end before */
	bool skipping;      /* the rest of an event that was too long */
	bool has_data;
	bool told;    /* the spans of an event that was handed out are still in the buffers */
	unsigned bom; /* bytes of a BOM seen so far, or BOM_OVER */
};

static const char bom_bytes[] = "\xef\xbb\xbf";
#define BOM_OVER 3

struct sse_parser *sse_parser_new(size_t max_bytes)
{
	struct sse_parser *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->max_bytes = max_bytes;
	p->retry_ms = -1;
	return p;
}

void sse_parser_free(struct sse_parser *p)
{
	if (!p)
		return;
	buf_done(&p->line);
	buf_done(&p->data);
	buf_done(&p->type);
	buf_done(&p->id);
	buf_done(&p->last_id);
	free(p);
}

static void reset_buffer(struct buf *b)
{
	if (b->cap > KEEP_BYTES)
		buf_done(b);
	else
		buf_reset(b);
}

static void reset_event(struct sse_parser *p)
{
	reset_buffer(&p->data);
	reset_buffer(&p->type);
	p->has_data = false;
	p->told = false;
}

void sse_parser_restart(struct sse_parser *p)
{
	if (!p)
		return;
	reset_event(p);
	reset_buffer(&p->line);
	p->last_id.error = 0; /* see keep_id(): it is whole */
	buf_reset(&p->id);
	buf_add_span(&p->id, buf_span(&p->last_id));
	p->after_cr = false;
	p->skipping = false;
	p->bom = 0;
}

const char *sse_parser_last_id(const struct sse_parser *p)
{
	return p && p->last_id.len ? p->last_id.data : "";
}

int64_t sse_parser_retry_ms(const struct sse_parser *p)
{
	return p ? p->retry_ms : -1;
}

size_t sse_parser_buffered(const struct sse_parser *p)
{
	return !p ? 0 : p->line.cap + p->data.cap + p->type.cap + p->id.cap + p->last_id.cap;
}

static size_t event_size(const struct sse_parser *p)
{
	return p->line.len + p->data.len + p->type.len + p->id.len;
}

static bool failed(const struct sse_parser *p)
{
	return !p || buf_failed(&p->line) || buf_failed(&p->data) || buf_failed(&p->type) || buf_failed(&p->id) ||
	       buf_failed(&p->last_id);
}

static void set_retry(struct sse_parser *p, struct span value)
{
	int64_t ms = 0;
	if (value.len == 0)
		return;
	for (size_t i = 0; i < value.len; i++) {
		if (value.ptr[i] < '0' || value.ptr[i] > '9')
			return;
		if (ms < RETRY_MAX_MS)
			ms = ms * 10 + (value.ptr[i] - '0');
	}
	p->retry_ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

static void set_field(struct sse_parser *p, struct span name, struct span value)
{
	if (span_is(name, "data")) {
		buf_add_span(&p->data, value);
		buf_add_char(&p->data, '\n');
		p->has_data = true;
	} else if (span_is(name, "event")) {
		buf_reset(&p->type);
		buf_add_span(&p->type, value);
	} else if (span_is(name, "id")) {
		if (memchr(value.ptr, '\0', value.len))
			return;
		buf_reset(&p->id);
		buf_add_span(&p->id, value);
	} else if (span_is(name, "retry")) {
		set_retry(p, value);
	}
}

static void read_field(struct sse_parser *p, struct span line)
{
	const char *colon = memchr(line.ptr, ':', line.len);
	if (colon == line.ptr)
		return; /* a comment */
	if (!colon) {
		set_field(p, line, SPAN_LIT(""));
		return;
	}
	const char *value = colon + 1;
	const char *end = line.ptr + line.len;
	if (value < end && *value == ' ')
		value++;
	set_field(p, (struct span){ line.ptr, (size_t)(colon - line.ptr) },
		  (struct span){ value, (size_t)(end - value) });
}

/* The id of an event that is complete counts. If there is no room for it the event fails, and the id before it stays. */
static void keep_id(struct sse_parser *p)
{
	size_t more = p->id.len > p->last_id.len ? p->id.len - p->last_id.len : 0;
	if (buf_reserve(&p->last_id, more) < 0)
		return;
	buf_reset(&p->last_id);
	buf_add_span(&p->last_id, buf_span(&p->id));
}

/* The blank line: what was read becomes an event, if there is any data. */
static enum sse_result end_event(struct sse_parser *p, struct sse_event *ret_event)
{
	bool skipped = p->skipping;
	p->skipping = false;
	keep_id(p);
	if (skipped || !p->has_data) {
		reset_event(p);
		return SSE_NEED_MORE;
	}
	ret_event->data = buf_span(&p->data);
	ret_event->data.len--; /* the last LF */
	ret_event->type = p->type.len ? buf_span(&p->type) : SPAN_LIT("message");
	p->told = true;
	return SSE_EVENT;
}

/* One whole line, without its end. */
static enum sse_result end_line(struct sse_parser *p, struct span line, struct sse_event *ret_event)
{
	if (line.len == 0)
		return end_event(p, ret_event);
	if (!p->skipping)
		read_field(p, line);
	return SSE_NEED_MORE;
}

static const char *find_line_end(struct span bytes)
{
	const char *lf = memchr(bytes.ptr, '\n', bytes.len);
	const char *cr = memchr(bytes.ptr, '\r', lf ? (size_t)(lf - bytes.ptr) : bytes.len);
	return cr ? cr : lf;
}

static void take(struct span *bytes, size_t n)
{
	bytes->ptr += n;
	bytes->len -= n;
}

/* Skips a BOM at the very start, which may come in pieces; bytes that only looked like one are put into the line. */
static void skip_bom(struct sse_parser *p, struct span *bytes)
{
	while (p->bom < BOM_OVER && bytes->len > 0) {
		if (bytes->ptr[0] != bom_bytes[p->bom]) {
			buf_add(&p->line, bom_bytes, p->bom);
			p->bom = BOM_OVER;
			return;
		}
		take(bytes, 1);
		p->bom++;
	}
}

/* `rest` is what there is of the line that makes the event too long. */
static enum sse_result too_long(struct sse_parser *p, struct span rest, struct sse_event *ret_event)
{
	/* Of a first `data` line too its start is worth having: it may show whose answer this is. */
	size_t room = p->max_bytes > event_size(p) ? p->max_bytes - event_size(p) : 0;
	buf_add(&p->line, rest.ptr, rest.len < room ? rest.len : room);
	if (buf_failed(&p->line))
		return SSE_NO_MEMORY;
	struct span line = buf_span(&p->line);
	if (line.len > 5 && memcmp(line.ptr, "data:", 5) == 0)
		read_field(p, line);
	buf_reset(&p->line);
	p->skipping = true;
	ret_event->data = buf_span(&p->data);
	ret_event->type = p->type.len ? buf_span(&p->type) : SPAN_LIT("message");
	return SSE_TOO_LONG;
}

/* Takes the next line from the front of *bytes, or all of them if its end is not there yet. */
static enum sse_result read_line(struct sse_parser *p, struct span *bytes, struct sse_event *ret_event)
{
	const char *end = find_line_end(*bytes);
	struct span part = { bytes->ptr, end ? (size_t)(end - bytes->ptr) : bytes->len };
	enum sse_result result = SSE_NEED_MORE;

	take(bytes, part.len + (end != NULL));
	if (end)
		p->after_cr = *end == '\r';
	if (!p->skipping && part.len + event_size(p) > p->max_bytes) {
		result = too_long(p, part, ret_event);
		/* Of the line that is now skipped only its end matters: it is not blank. */
		if (!end)
			buf_add_char(&p->line, '.');
		return failed(p) ? SSE_NO_MEMORY : result;
	}
	if (!end) {
		if (!p->skipping)
			buf_add_span(&p->line, part);
		else if (p->line.len == 0 && part.len > 0)
			buf_add_char(&p->line, '.');
	} else if (p->line.len > 0) {
		if (!p->skipping)
			buf_add_span(&p->line, part);
		if (buf_failed(&p->line))
			return SSE_NO_MEMORY;
		result = end_line(p, buf_span(&p->line), ret_event);
		reset_buffer(&p->line);
	} else {
		result = end_line(p, part, ret_event);
	}
	return failed(p) ? SSE_NO_MEMORY : result;
}

enum sse_result sse_parser_next(struct sse_parser *p, struct span *bytes, struct sse_event *ret_event)
{
	*ret_event = (struct sse_event){ SPAN_NONE, SPAN_NONE };
	if (failed(p))
		return SSE_NO_MEMORY;
	if (p->told || (p->skipping && p->data.len > 0))
		reset_event(p);
	skip_bom(p, bytes);
	while (bytes->len > 0) {
		if (p->after_cr) {
			p->after_cr = false;
			if (bytes->ptr[0] == '\n') {
				take(bytes, 1);
				continue;
			}
		}
		enum sse_result result = read_line(p, bytes, ret_event);
		if (result != SSE_NEED_MORE)
			return result;
	}
	return SSE_NEED_MORE;
}

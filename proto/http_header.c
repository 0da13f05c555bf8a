#include "proto/http_header.h"

#include <errno.h>
#include <string.h>

#include "proto/json_iter.h"

#define SENTINEL_START "=?base64?"
#define SENTINEL_END "?="

bool http_header_is_token(struct span name)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	for (size_t i = 0; i < name.len; i++)
		if (name.ptr[i] == '\0' || !strchr(token, name.ptr[i]))
			return false;
	return name.len > 0;
}

static bool begins_with(struct span text, const char *start)
{
	size_t len = strlen(start);
	return text.len >= len && memcmp(text.ptr, start, len) == 0;
}

static bool ends_with(struct span text, const char *end)
{
	size_t len = strlen(end);
	return text.len >= len && memcmp(text.ptr + text.len - len, end, len) == 0;
}

static bool is_plain(struct span text)
{
	if (text.len == 0 || text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' ')
		return false;
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.ptr[i] < 0x20 || (unsigned char)text.ptr[i] > 0x7e)
			return false;
	return !(begins_with(text, SENTINEL_START) && ends_with(text, SENTINEL_END));
}

/* RFC 4648, 4: with padding. */
static void add_base64(struct buf *out, struct span text)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *at = (const unsigned char *)text.ptr;
	for (size_t left = text.len; left > 0;) {
		size_t n = left < 3 ? left : 3;
		unsigned group = (unsigned)at[0] << 16 | (n > 1 ? (unsigned)at[1] << 8 : 0) | (n > 2 ? at[2] : 0);
		buf_add_char(out, digits[group >> 18]);
		buf_add_char(out, digits[group >> 12 & 63]);
		buf_add_char(out, n > 1 ? digits[group >> 6 & 63] : '=');
		buf_add_char(out, n > 2 ? digits[group & 63] : '=');
		at += n;
		left -= n;
	}
}

void http_header_add_value(struct buf *out, struct span text)
{
	if (is_plain(text)) {
		buf_add_span(out, text);
		return;
	}
	buf_add_text(out, SENTINEL_START);
	add_base64(out, text);
	buf_add_text(out, SENTINEL_END);
}

struct span http_header_name_source(struct span method, struct span params)
{
	static const struct {
		const char *method, *member;
	} sources[] = {
		{ "tools/call", "name" },  { "prompts/get", "name" },    { "resources/read", "uri" },
		{ "tasks/get", "taskId" }, { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
	};
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		if (!json_string_is(method, sources[i].method))
			continue;
		struct span value = json_member(params, sources[i].member);
		return json_type_of(value) == JSON_STRING ? value : SPAN_NONE;
	}
	return SPAN_NONE;
}

struct span http_header_version_source(struct span params)
{
	struct span version = json_path(params, "_meta", "io.modelcontextprotocol/protocolVersion", NULL);
	return json_type_of(version) == JSON_STRING ? version : SPAN_NONE;
}

int http_header_add_json(struct buf *out, struct span json_string)
{
	struct buf text;
	buf_init(&text, 0);
	int r = json_string_decode(json_string, &text);
	if (r == 0) {
		http_header_add_value(out, buf_span(&text));
		r = out->error;
	} else if (r != -EINVAL && !out->error) {
		/* Half a line must not pass for one. */
		out->error = r;
	}
	buf_done(&text);
	return r;
}

#include "proto/json_iter.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "proto/json_lex.h"

struct span json_trim(struct span value)
{
	if (!value.ptr)
		return SPAN_NONE;
	const char *end = value.ptr + value.len;
	const char *at = json_skip_space(value.ptr, end);
	while (end > at && json_is_space(end[-1]))
		end--;
	return (struct span){ at, (size_t)(end - at) };
}

enum json_kind json_type_of(struct span value)
{
	value = json_trim(value);
	if (value.len == 0)
		return JSON_ABSENT;
	switch (value.ptr[0]) {
	case 'n':
		return JSON_NULL;
	case 't':
	case 'f':
		return JSON_BOOL;
	case '"':
		return JSON_STRING;
	case '[':
		return JSON_ARRAY;
	case '{':
		return JSON_OBJECT;
	default:
		return JSON_NUMBER;
	}
}

/* Behind the string whose quote is at `at`. */
static const char *skip_string(const char *at, const char *end)
{
	at++;
	while (at < end) {
		at = json_plain_end(at, end);
		while (at < end && (unsigned char)*at >= 0x80)
			at++;
		if (at == end)
			break;
		if (*at == '"')
			return at + 1;
		at += *at == '\\' && end - at > 1 ? 2 : 1;
	}
	return end;
}

/* Behind the value at `at`: brackets are counted, strings skipped, and a scalar ends where no scalar can go on. */
static const char *skip_value(const char *at, const char *end)
{
	size_t depth = 0;
	while (at < end) {
		switch (*at) {
		case '"':
			at = skip_string(at, end);
			break;
		case '{':
		case '[':
			depth++;
			at++;
			break;
		case '}':
		case ']':
			if (depth == 0)
				return at;
			depth--;
			at++;
			break;
		case ',':
		case ':':
		case ' ':
		case '\n':
		case '\r':
		case '\t':
			if (depth == 0)
				return at;
			at++;
			continue;
		default:
			at++;
			continue;
		}
		if (depth == 0)
			return at;
	}
	return end;
}

void json_iter_init(struct json_iter *it, struct span container)
{
	container = json_trim(container);
	*it = (struct json_iter){ container.ptr, container.ptr ? container.ptr + container.len : NULL };
}

/* Moves to the next item of the container, whose bracket `open` is still in front of the first one; false at the end.
 */
static bool iter_advance(struct json_iter *it, char open)
{
	if (it->at == it->end)
		return false;
	char c = *it->at;
	it->at = json_skip_space(it->at + 1, it->end);
	if ((c == open || c == ',') && it->at < it->end && *it->at != '}' && *it->at != ']')
		return true;
	it->at = it->end;
	return false;
}

/* The value at it->at; leaves the iterator at the comma or bracket behind it. */
static struct span iter_value(struct json_iter *it)
{
	const char *start = it->at;
	const char *end = skip_value(start, it->end);
	it->at = json_skip_space(end, it->end);
	return (struct span){ start, (size_t)(end - start) };
}

bool json_iter_element(struct json_iter *it, struct span *ret_value)
{
	if (!iter_advance(it, '['))
		return false;
	*ret_value = iter_value(it);
	return true;
}

bool json_iter_member(struct json_iter *it, struct span *ret_key, struct span *ret_value)
{
	if (!iter_advance(it, '{'))
		return false;
	struct span key = iter_value(it);
	if (it->at == it->end || *it->at != ':') {
		it->at = it->end;
		return false;
	}
	it->at = json_skip_space(it->at + 1, it->end);
	*ret_key = key;
	*ret_value = iter_value(it);
	return true;
}

struct span json_member(struct span object, const char *name)
{
	struct json_iter it;
	struct span key, value;
	json_iter_init(&it, object);
	while (json_iter_member(&it, &key, &value))
		if (json_string_is(key, name))
			return value;
	return SPAN_NONE;
}

struct span json_path(struct span object, ...)
{
	va_list names;
	va_start(names, object);
	const char *name;
	while (object.ptr && (name = va_arg(names, const char *)))
		object = json_member(object, name);
	va_end(names);
	return object;
}

/* What is between the quotes; false for what is no string. */
static bool string_inside(struct span string, struct span *ret_inside)
{
	if (string.len < 2 || string.ptr[0] != '"' || string.ptr[string.len - 1] != '"')
		return false;
	*ret_inside = (struct span){ string.ptr + 1, string.len - 2 };
	return true;
}

static bool is_high_surrogate(int32_t code)
{
	return code >= 0xd800 && code < 0xdc00;
}

static bool is_low_surrogate(int32_t code)
{
	return code >= 0xdc00 && code < 0xe000;
}

/* The code point of the escape at *at, which is moved behind it; a pair of surrogates is one. -1 if it is no escape. */
static int32_t read_escape(const char **at, const char *end)
{
	static const char named[] = "\"\\/bfnrt";
	static const char meant[] = "\"\\/\b\f\n\r\t";
	const char *p = *at;
	size_t len = json_escape_length(p, end);
	if (len == 0)
		return -1;
	*at += len;
	if (len == 2)
		return meant[strchr(named, p[1]) - named];
	int32_t code = json_hex4(p + 2, end);
	if (!is_high_surrogate(code) || end - p < 12 || p[6] != '\\' || p[7] != 'u')
		return code;
	int32_t low = json_hex4(p + 8, end);
	if (!is_low_surrogate(low))
		return code;
	*at += 6;
	return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

/* Reads what a string says, byte by byte. Lone surrogates come as the three bytes that UTF-8 does not allow, so that
 * they are equal to nothing but themselves. */
struct reader {
	const char *at;
	const char *end;
	char queue[4];
	size_t queued, taken;
};

/* 0 to 255, or -1 at the end. */
static int reader_next(struct reader *r)
{
	if (r->taken < r->queued)
		return (unsigned char)r->queue[r->taken++];
	if (r->at == r->end)
		return -1;
	if (*r->at != '\\')
		return (unsigned char)*r->at++;
	int32_t code = read_escape(&r->at, r->end);
	if (code < 0)
		return (unsigned char)*r->at++;
	r->queued = json_utf8_write((uint32_t)code, r->queue);
	r->taken = 1;
	return (unsigned char)r->queue[0];
}

bool json_string_is(struct span string, const char *text)
{
	struct span inside;
	if (!string_inside(string, &inside))
		return false;
	struct reader r = { .at = inside.ptr, .end = inside.ptr + inside.len };
	int c;
	/* A decoded U+0000 ends the loop or meets the end of text; either way it is not equal. */
	while ((c = reader_next(&r)) > 0 && c == (unsigned char)*text)
		text++;
	return c < 0 && *text == '\0';
}

static bool has_escape(struct span s)
{
	return s.len > 0 && memchr(s.ptr, '\\', s.len);
}

bool json_strings_equal(struct span a, struct span b)
{
	struct span in_a, in_b;
	if (!string_inside(a, &in_a) || !string_inside(b, &in_b))
		return false;
	if (!has_escape(in_a) && !has_escape(in_b))
		return span_equal(in_a, in_b);
	struct reader ra = { .at = in_a.ptr, .end = in_a.ptr + in_a.len };
	struct reader rb = { .at = in_b.ptr, .end = in_b.ptr + in_b.len };
	int ca, cb;
	do {
		ca = reader_next(&ra);
		cb = reader_next(&rb);
	} while (ca == cb && ca >= 0);
	return ca == cb;
}

uint64_t json_string_hash(struct span string)
{
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
	struct span inside;
	if (!string_inside(string, &inside))
		return hash;
	struct reader r = { .at = inside.ptr, .end = inside.ptr + inside.len };
	for (int c = reader_next(&r); c >= 0; c = reader_next(&r))
		hash = (hash ^ (uint64_t)c) * 0x100000001b3u;
	return hash;
}

int json_string_decode(struct span string, struct buf *out)
{
	struct span inside;
	if (!string_inside(string, &inside))
		return -EINVAL;
	const size_t before = out->len;
	const char *at = inside.ptr;
	const char *end = at + inside.len;
	while (at < end && !out->error) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		buf_add(out, at, (size_t)((escape ? escape : end) - at));
		if (!escape)
			break;
		at = escape;
		int32_t code = read_escape(&at, end);
		if (code < 0) {
			buf_truncate(out, before);
			return -EINVAL;
		}
		if (is_high_surrogate(code) || is_low_surrogate(code))
			code = 0xfffd;
		char utf8[4];
		buf_add(out, utf8, json_utf8_write((uint32_t)code, utf8));
	}
	return out->error;
}

char *json_string_dup(struct span string)
{
	struct buf text = BUF_INIT;
	if (json_string_decode(string, &text) == 0 && !(text.len > 0 && memchr(text.data, '\0', text.len)))
		return buf_steal(&text);
	buf_done(&text);
	return NULL;
}

/* The exponent at `at` ("e5", "E-3", or nothing), kept between limits that no number of digits reaches. */
static int64_t read_exponent(const char *at, const char *end)
{
	if (at == end)
		return 0;
	at++;
	bool negative = *at == '-';
	if (*at == '-' || *at == '+')
		at++;
	int64_t exponent = 0;
	for (; at < end; at++)
		if (exponent < INT64_MAX / 16)
			exponent = exponent * 10 + (*at - '0');
	return negative ? -exponent : exponent;
}

/* Appends a digit to the negative number *value: those reach one further than the positive ones. */
static bool append_digit(int64_t *value, int digit)
{
	return !__builtin_mul_overflow(*value, 10, value) && !__builtin_sub_overflow(*value, digit, value);
}

int json_int64(struct span number, int64_t *ret_value)
{
	number = json_trim(number);
	if (number.len == 0)
		return -EINVAL;
	const char *end = number.ptr + number.len;
	const char *bad = NULL;
	if (json_number_end(number.ptr, end, &bad) != end)
		return -EINVAL;
	bool negative = *number.ptr == '-';
	const char *at = number.ptr + negative;
	const char *mantissa_end = at;
	int64_t point = 0; /* digits in front of the decimal point, once the exponent has moved it */
	bool fraction = false;
	for (; mantissa_end < end && (*mantissa_end | 0x20) != 'e'; mantissa_end++) {
		fraction |= *mantissa_end == '.';
		point += !fraction;
	}
	point += read_exponent(mantissa_end, end);
	int64_t value = 0;
	for (; at < mantissa_end; at++) {
		if (*at == '.')
			continue;
		int digit = *at - '0';
		if (point > 0 ? !append_digit(&value, digit) : digit != 0)
			return -ERANGE;
		point--;
	}
	for (; point > 0 && value != 0; point--)
		if (!append_digit(&value, 0))
			return -ERANGE;
	if (!negative && value == INT64_MIN)
		return -ERANGE;
	*ret_value = negative ? value : -value;
	return 0;
}

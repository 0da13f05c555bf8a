#include "peek.h"

#include "proto/json_iter.h"

static const struct {
	const char *name;
	int parent;     /* -1: a member of the message itself */
	bool container; /* its members are looked at */
} members[PEEK_COUNT] = {
	[PEEK_METHOD] = { "method", -1, false },
	[PEEK_ID] = { "id", -1, false },
	[PEEK_PARAMS] = { "params", -1, true },
	[PEEK_RESULT] = { "result", -1, true },
	[PEEK_ERROR] = { "error", -1, false },
	[PEEK_REQUEST_ID] = { "requestId", PEEK_PARAMS, false },
	[PEEK_LEVEL] = { "level", PEEK_PARAMS, false },
	[PEEK_URI] = { "uri", PEEK_PARAMS, false },
	[PEEK_META] = { "_meta", PEEK_PARAMS, true },
	[PEEK_SUBSCRIPTION_ID] = { "io.modelcontextprotocol/subscriptionId", PEEK_META, false },
	[PEEK_NOTIFICATIONS] = { "notifications", PEEK_PARAMS, true },
	[PEEK_ACK_TOOLS] = { "toolsListChanged", PEEK_NOTIFICATIONS, false },
	[PEEK_ACK_PROMPTS] = { "promptsListChanged", PEEK_NOTIFICATIONS, false },
	[PEEK_ACK_RESOURCES] = { "resourcesListChanged", PEEK_NOTIFICATIONS, false },
	[PEEK_CAPABILITIES] = { "capabilities", PEEK_RESULT, true },
	[PEEK_TOOLS] = { "tools", PEEK_CAPABILITIES, true },
	[PEEK_TOOLS_CHANGE] = { "listChanged", PEEK_TOOLS, false },
	[PEEK_PROMPTS] = { "prompts", PEEK_CAPABILITIES, true },
	[PEEK_PROMPTS_CHANGE] = { "listChanged", PEEK_PROMPTS, false },
	[PEEK_RESOURCES] = { "resources", PEEK_CAPABILITIES, true },
	[PEEK_RESOURCES_CHANGE] = { "listChanged", PEEK_RESOURCES, false },
};

#define NONE (-1)
#define BIT(member) (1U << (member))

void peek_begin(struct peek *peek)
{
	peek->depth = peek->base = 0;
	peek->in_string = peek->escaped = false;
	peek->inside_depth = 0;
	peek->inside = peek->want = NONE;
	peek->key_next = peek->keeping = peek->in_key = false;
	peek->seen = peek->doubled = peek->lost = 0;
	peek->values_len = 0;
}

static void begin_message(struct peek *peek)
{
	peek->inside_depth = peek->depth;
	peek->inside = peek->want = NONE;
	peek->key_next = true;
	peek->seen = peek->doubled = peek->lost = 0;
	peek->values_len = 0;
}

/* A key of the object inside has ended: is it one of ours? */
static void match_key(struct peek *peek)
{
	struct span key = { peek->key, peek->key_len };
	peek->in_key = peek->key_next = false;
	peek->want = NONE;
	if (peek->key_len >= sizeof peek->key)
		return;
	for (int i = 0; i < PEEK_COUNT; i++) {
		if (members[i].parent != peek->inside || !json_string_is(key, members[i].name))
			continue;
		if (peek->seen & BIT(i)) {
			peek->doubled |= BIT(i);
		} else {
			peek->want = i;
			peek->found[i].len = 0;
		}
		peek->seen |= BIT(i);
		return;
	}
}

static void begin_value(struct peek *peek)
{
	if (peek->want == NONE)
		return;
	peek->keeping = true;
	peek->found[peek->want].at = peek->values_len;
	peek->found[peek->want].len = 0;
}

static void end_value(struct peek *peek)
{
	if (peek->keeping && !(peek->lost & BIT(peek->want)))
		peek->found[peek->want].len = peek->values_len - peek->found[peek->want].at;
	peek->keeping = false;
	peek->want = NONE;
}

static inline bool is_scalar(char c)
{
	switch (c) {
	case '"':
	case '{':
	case '}':
	case '[':
	case ']':
	case ',':
	case ':':
	case ' ':
	case '\t':
	case '\r':
	case '\n':
	case '\0':
		return false;
	default:
		return true;
	}
}

/* Bytes of the value that is being kept. */
static void keep(struct peek *peek, const char *bytes, size_t len)
{
	size_t at = peek->found[peek->want].at, had = peek->values_len - at;
	if (peek->lost & BIT(peek->want))
		return;
	if (had + len > PEEK_VALUE_MAX || at + had + len > PEEK_VALUES_MAX) {
		peek->lost |= BIT(peek->want);
		peek->values_len = at;
		return;
	}
	memcpy(peek->values + peek->values_len, bytes, len);
	peek->values_len += len;
}

static void keep_key(struct peek *peek, const char *bytes, size_t len)
{
	if (len > sizeof peek->key - peek->key_len)
		len = sizeof peek->key - peek->key_len;
	memcpy(peek->key + peek->key_len, bytes, len);
	peek->key_len += len;
}

/* Goes on in a string, up to its quote or the end of the bytes. */
static const char *feed_string(struct peek *peek, const char *at, const char *end)
{
	const char *start = at;
	while (at < end) {
		char c = *at++;
		if (peek->escaped) {
			peek->escaped = false;
		} else if (c == '\\') {
			peek->escaped = true;
		} else if (c == '"') {
			peek->in_string = false;
			break;
		}
	}
	if (peek->in_key)
		keep_key(peek, start, (size_t)(at - start));
	else if (peek->keeping)
		keep(peek, start, (size_t)(at - start));
	if (!peek->in_string && peek->in_key)
		match_key(peek);
	else if (!peek->in_string)
		end_value(peek);
	return at;
}

static void open_string(struct peek *peek)
{
	peek->in_string = true;
	if (peek->depth == peek->inside_depth && peek->key_next) {
		peek->in_key = true;
		peek->key_len = 0;
		keep_key(peek, "\"", 1);
		return;
	}
	begin_value(peek);
	if (peek->keeping)
		keep(peek, "\"", 1);
}

static void open_container(struct peek *peek, char c)
{
	peek->depth++;
	if (peek->depth == 1 && c == '[')
		peek->base = 1;
	if (c == '{' && peek->depth == peek->base + 1) {
		begin_message(peek);
		return;
	}
	if (peek->want != NONE && c == '{' && members[peek->want].container) {
		peek->inside = peek->want;
		peek->inside_depth = peek->depth;
		peek->key_next = true;
	}
	peek->want = NONE;
}

/* True if a message has ended. */
static bool close_container(struct peek *peek)
{
	bool message = false;
	if (peek->depth > 0 && peek->depth == peek->inside_depth) {
		message = peek->inside == NONE;
		peek->inside_depth = message ? 0 : peek->inside_depth - 1;
		if (!message)
			peek->inside = members[peek->inside].parent;
		peek->key_next = false;
	}
	if (peek->depth > 0)
		peek->depth--;
	return message;
}

size_t peek_feed(struct peek *peek, struct span bytes, bool *ret_message)
{
	const char *at = bytes.ptr, *end = bytes.ptr + bytes.len;
	*ret_message = false;
	while (at < end && !*ret_message) {
		if (peek->in_string) {
			at = feed_string(peek, at, end);
			continue;
		}
		char c = *at++;
		bool scalar = is_scalar(c);
		if (peek->keeping && !scalar)
			end_value(peek);
		switch (c) {
		case '"':
			open_string(peek);
			break;
		case '{':
		case '[':
			open_container(peek, c);
			break;
		case '}':
		case ']':
			*ret_message = close_container(peek);
			break;
		case ',':
			peek->key_next = peek->depth == peek->inside_depth;
			peek->want = NONE;
			break;
		default:
			if (scalar && peek->want != NONE && !peek->keeping)
				begin_value(peek);
			if (scalar && peek->keeping)
				keep(peek, &c, 1);
		}
	}
	return (size_t)(at - bytes.ptr);
}

struct span peek_value(const struct peek *peek, enum peek_member member)
{
	unsigned bit = BIT(member);
	if (!(peek->seen & bit) || (peek->doubled | peek->lost) & bit || members[member].container ||
	    peek->found[member].len == 0 || (peek->keeping && peek->want == (int)member))
		return SPAN_NONE;
	return (struct span){ peek->values + peek->found[member].at, peek->found[member].len };
}

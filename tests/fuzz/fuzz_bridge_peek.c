/*
 * Any line through the bridge's peek, whole and in pieces: it says the same of each message. Where the parser finds an
 * id or a method, the peek has found it.
 */
#include <stdint.h>
#include <stdlib.h>

#include "contrib/bridge/peek.h"
#include "proto/jsonrpc.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

/* Feeds up to the end of the next message; false if there is none any more. */
static bool next_message(struct peek *peek, struct span *rest, size_t piece)
{
	bool message = false;
	while (rest->len > 0 && !message) {
		size_t n = peek_feed(peek, (struct span){ rest->ptr, rest->len < piece ? rest->len : piece }, &message);
		REQUIRE(n > 0 && n <= rest->len);
		rest->ptr += n;
		rest->len -= n;
	}
	return message;
}

static void check_same(const struct peek *a, const struct peek *b)
{
	REQUIRE(a->seen == b->seen && a->doubled == b->doubled && a->lost == b->lost && a->base == b->base);
	for (int i = 0; i < PEEK_COUNT; i++) {
		struct span x = peek_value(a, (enum peek_member)i), y = peek_value(b, (enum peek_member)i);
		REQUIRE((x.ptr == NULL) == (y.ptr == NULL) && span_equal(x, y));
		REQUIRE(x.len <= PEEK_VALUE_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct peek whole, pieces;
	if (size == 0)
		return 0;
	struct span line = { (const char *)data + 1, size - 1 }, a = line, b = line;
	struct jsonrpc_message m;
	peek_begin(&whole);
	peek_begin(&pieces);
	while (next_message(&whole, &a, SIZE_MAX)) {
		REQUIRE(next_message(&pieces, &b, 1 + data[0] % 32));
		check_same(&whole, &pieces);
	}
	REQUIRE(!next_message(&pieces, &b, 1 + data[0] % 32));
	if (jsonrpc_parse(line, &m, NULL) < 0 || json_type_of(line) != JSON_OBJECT)
		return 0;
	if (m.id.ptr && m.id.len <= PEEK_VALUE_MAX && !peek_is_lost(&whole, PEEK_ID))
		REQUIRE(span_equal(peek_value(&whole, PEEK_ID), m.id));
	REQUIRE(peek_has(&whole, PEEK_METHOD) == (m.method.ptr != NULL));
	return 0;
}

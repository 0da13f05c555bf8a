/*
 * A stream cut into pieces. The first byte gives the longest line, the next ones, up to a zero, the sizes of the pieces
 * (used in turn); the rest is the stream. What comes out is what a look at the whole stream says.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/framer.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

struct expected {
	const char *at;
	const char *end;
	size_t max_line;
};

/* The next line must be that one. */
static void check(struct expected *e, enum framer_result result, struct span line)
{
	REQUIRE(e->at < e->end);
	const char *stop = e->at;
	while (stop < e->end && *stop != '\n')
		stop++;
	size_t len = (size_t)(stop - e->at);
	len -= len > 0 && e->at[len - 1] == '\r';
	struct span want = { e->at, len > e->max_line ? e->max_line : len };
	REQUIRE(result == (len > e->max_line ? FRAMER_TOO_LONG : FRAMER_LINE));
	REQUIRE(span_equal(line, want));
	struct span clean = framer_clean(line);
	REQUIRE(clean.len <= line.len);
	e->at = stop < e->end ? stop + 1 : stop;
}

static void put(struct framer *f, const char *bytes, size_t len, bool in_place)
{
	if (!in_place) {
		REQUIRE(framer_feed(f, bytes, len) == 0);
		return;
	}
	size_t room;
	char *space = framer_space(f, len, &room);
	REQUIRE(space && room >= len && room > 0);
	/* All of it may be written to. */
	memset(space, '\n', room);
	if (len > 0)
		memcpy(space, bytes, len);
	framer_filled(f, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *sizes_end = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
	if (!sizes_end)
		return 0;
	const uint8_t *sizes = data + 1;
	size_t n_sizes = (size_t)(sizes_end - sizes);
	struct expected e = { (const char *)sizes_end + 1, (const char *)data + size, data[0] };
	struct framer f;
	struct span line;
	enum framer_result result;
	framer_init(&f, e.max_line);
	const char *at = e.at;
	for (size_t turn = 0; at < e.end; turn++) {
		size_t len = n_sizes > 0 ? sizes[turn % n_sizes] : (size_t)(e.end - at);
		if (len > (size_t)(e.end - at))
			len = (size_t)(e.end - at);
		put(&f, at, len, turn % 2 == 0);
		at += len;
		/* Now and then something is left inside. */
		if (turn % 5 == 4)
			continue;
		while ((result = framer_next(&f, &line)) != FRAMER_NEED_MORE)
			check(&e, result, line);
		REQUIRE(f.end - f.start <= e.max_line + 1);
		if (turn % 7 == 6)
			framer_shrink(&f);
	}
	while ((result = framer_rest(&f, &line)) != FRAMER_NEED_MORE)
		check(&e, result, line);
	REQUIRE(e.at == e.end);
	framer_done(&f);
	return 0;
}

/* sse_parser: any bytes, cut anywhere, give the same events as in one piece, within bounded memory. The first byte
 * says how to cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "transport/sse_parser.h"

#define MAX_BYTES 256

static void run(struct buf *log, const uint8_t *data, size_t size, unsigned piece)
{
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	for (size_t at = 0; at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		/* A block of its own, so that the sanitizer sees a step behind the end. */
		char *copy = malloc(n);
		memcpy(copy, data + at, n);
		struct span bytes = { copy, n };
		struct sse_event event;
		enum sse_result result;
		while ((result = sse_parser_next(p, &bytes, &event)) != SSE_NEED_MORE) {
			if (result == SSE_NO_MEMORY)
				abort();
			/* How much there is of an event that is too long depends on the cuts. */
			if (result == SSE_EVENT) {
				buf_add_json_string(log, event.type);
				buf_add_json_string(log, event.data);
				if (event.data.len + event.type.len > MAX_BYTES + sizeof("message"))
					abort();
			}
			buf_addf(log, "%d %s %lld;", result, sse_parser_last_id(p), (long long)sse_parser_retry_ms(p));
		}
		if (bytes.len != 0 || sse_parser_buffered(p) > 16 * MAX_BYTES)
			abort();
		free(copy);
		at += n;
	}
	buf_addf(log, "%s %lld", sse_parser_last_id(p), (long long)sse_parser_retry_ms(p));
	sse_parser_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct buf whole = BUF_INIT, cut = BUF_INIT;
	run(&whole, data + 1, size - 1, UINT32_MAX);
	run(&cut, data + 1, size - 1, data[0] + 1u);
	if (whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, whole.len) != 0))
		abort();
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}

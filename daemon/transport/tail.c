#include "transport/tail.h"

#include <stdlib.h>

#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

struct span tail_cut(struct span text, size_t max)
{
	if (text.len <= max)
		return text;
	while (max > 0 && ((unsigned char)text.ptr[max] & 0xc0) == 0x80)
		max--;
	return (struct span){ text.ptr, max };
}

void tail_add(struct tail *tail, struct span line)
{
	line = tail_cut(json_trim(line), TAIL_LINE_BYTES);
	if (line.len == 0)
		return;
	char **slot = &tail->lines[tail->count++ % TAIL_LINES];
	free(*slot);
	*slot = xstrndup(line.ptr, line.len);
}

char *tail_text(const struct tail *tail)
{
	struct buf text = BUF_INIT;
	unsigned kept = tail->count < TAIL_LINES ? tail->count : TAIL_LINES;
	for (unsigned i = tail->count - kept; i != tail->count; i++) {
		if (text.len > 0)
			buf_add_text(&text, " | ");
		buf_add_text(&text, tail->lines[i % TAIL_LINES]);
	}
	return kept > 0 ? buf_steal(&text) : NULL;
}

void tail_done(struct tail *tail)
{
	for (int i = 0; i < TAIL_LINES; i++)
		free(tail->lines[i]);
	*tail = (struct tail){ 0 };
}

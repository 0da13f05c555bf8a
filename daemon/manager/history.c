#include "manager/history.h"

#include <stdlib.h>
#include <string.h>

#include "manager/server_log.h"
#include "manager/timestamp.h"
#include "xalloc.h"

void history_init(struct history *h)
{
	memset(h, 0, sizeof *h);
}

void history_done(struct history *h)
{
	for (size_t i = 0; i < h->count; i++)
		free(h->entries[i].reason);
	free(h->entries);
	history_init(h);
}

void history_add(struct history *h, enum server_state state, const char *reason, size_t max)
{
	size_t drop = h->count >= max ? h->count - max + 1 : 0;
	for (size_t i = 0; i < drop; i++)
		free(h->entries[i].reason);
	if (drop)
		memmove(h->entries, h->entries + drop, (h->count - drop) * sizeof h->entries[0]);
	h->count -= drop;
	if (h->count == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 8;
		h->entries = xrealloc(h->entries, h->cap, sizeof h->entries[0]);
	}
	struct server_history *entry = &h->entries[h->count++];
	timestamp_now(entry->at);
	entry->state = state;
	entry->reason = reason ? xstrndup(reason, server_log_cut(span_of(reason), HISTORY_REASON_MAX)) : NULL;
}

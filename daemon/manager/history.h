/* A server's last state changes (`servers/get`), bounded by historyEntries. */
#pragma once

#include <stddef.h>

#include "manager/server.h"

#define HISTORY_REASON_MAX 2048

struct history {
	struct server_history *entries; /* oldest first */
	size_t count, cap;
};

void history_init(struct history *h);
void history_done(struct history *h);
/* reason may be NULL; copied, up to HISTORY_REASON_MAX bytes. */
void history_add(struct history *h, enum server_state state, const char *reason, size_t max);

/*
 * Every call's end in the log: who asked which server for what, how long it took, what became of it; never params, results
 * or a server's words (house rule 7).
 *
 * What went well, or was given up by its asker, is for `debug`; the rest is for `info`, where a client that makes
 * failing calls as fast as it can does not drown what else there is to read.
 */
#pragma once

#include <stdint.h>

#include "router/call.h"

/* Lines of failed calls in a second; further ones are counted and told of later. */
#define CALL_LOG_PER_SECOND 20

/* A zeroed struct has told nothing yet. */
struct call_log {
	int64_t second;
	unsigned told, silent;
};

void call_log_ended(struct call_log *log, const struct call_info *info);

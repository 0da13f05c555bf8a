/*
 * The MCP side of the time server: one line in, its answer out. No I/O, so that it is tested without any.
 *
 * Both eras are spoken on one connection, as every request says which it is of: one with a protocol version in its
 * `_meta` is modern (2026-07-28), any other is of the session that `initialize` opened (2024-11-05 to 2025-11-25).
 * Every call is answered before the next line is read, so a cancellation always comes too late and is ignored.
 */
#pragma once

#include <stdbool.h>

#include "proto/buf.h"
#include "proto/span.h"

/* A longer line is refused; no request to this server needs more. */
#define TIME_SERVER_LINE_BYTES ((size_t)1 << 20)

struct time_server {
	bool initialized;
	bool batches; /* the session's version knows them (2025-03-26) */
};

/* Appends what is to be answered, complete lines or nothing. */
void time_server_line(struct time_server *server, struct span line, struct buf *out);
/* Appends the answer to a line that was longer than TIME_SERVER_LINE_BYTES. */
void time_server_too_long(struct buf *out);

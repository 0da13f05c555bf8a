/*
 * The answers to one JSON-RPC batch (MCP 2025-03-26 only): collected, and sent as one array when the last is there.
 *
 * A batch is held by its requests, and by whoever makes it until batch_leave() of its own: it frees itself when the
 * last of them has left. Nothing is sent where nothing was answered (a batch of notifications, or all cancelled).
 */
#pragma once

#include "proto/buf.h"

struct session;
struct batch;

/* Held once, by the caller. The session outlives it: requests end with their session. */
struct batch *batch_new(struct session *session);
void batch_enter(struct batch *batch);
/* One holder less. answer: its line, or NULL if there is none. batch may be NULL. */
void batch_leave(struct batch *batch, const struct buf *answer);

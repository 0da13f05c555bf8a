/*
 * The logging level of a server that several clients set (PITFALLS "Relaying"): the most verbose wish goes to the
 * server, and each client is told only of messages at its own level. A client that never set one is told of `info` and
 * above once others have had a say, and of all that the server sends before that.
 *
 * A wish is a client's logging/setLevel, or the level of one of its requests as long as that is in flight (2026-07-28,
 * `_meta["io.modelcontextprotocol/logLevel"]`). Servers of the modern era have no level of their own: there each request
 * carries its client's. A legacy server is told by the daemon: before the request where that wants more than the server
 * has been told, and less than that only along with another client's wish, or LOG_LEVEL_LINGER_MS after the last
 * request that had wanted it; `info` when nobody has a wish any more. (Over HTTP a request may overtake what was sent
 * before it.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "router/call.h"
#include "router/clients.h"

#define LOG_LEVEL_LINGER_MS 3000

struct log_levels;

struct log_levels *log_levels_new(struct loop *loop, struct manager *manager, struct calls *calls,
				  const struct clients *clients);
void log_levels_free(struct log_levels *levels); /* takes NULL; after calls_free() */
/* Whether it is a level (a JSON string). */
bool log_levels_is_level(struct span level);
/* A client's logging/setLevel: as calls_start(). */
uint64_t log_levels_request(struct log_levels *levels, const struct call_options *options);
/* A request with a request_log_level is made next, and has been made: the row, or 0 if it could not be. */
void log_levels_begin(struct log_levels *levels, const struct call_options *options);
void log_levels_begun(struct log_levels *levels, const struct call_options *options, uint64_t row);
/* A row has ended, of whatever request. */
void log_levels_ended(struct log_levels *levels, uint64_t row);
void log_levels_client_gone(struct log_levels *levels, uint64_t client);
/* As in struct manager_callbacks. */
void log_levels_on_reconnected(struct log_levels *levels, struct server *server, uint64_t owner);
void log_levels_on_server_removed(struct log_levels *levels);
/* Forgets what the client has set at this server (an exclusive one that it gives up). */
void log_levels_release(struct log_levels *levels, uint64_t client, uint64_t server);
/* The level the client has set at this server, as a JSON string for struct call_options; absent if none. */
struct span log_levels_of(const struct log_levels *levels, uint64_t client, uint64_t server);
/* Whether a message of this level (JSON string) is for this client. One of the modern era is told only while a request
 * of its own that asks for the level is in flight. */
bool log_levels_wanted(const struct log_levels *levels, uint64_t client, uint64_t server, uint64_t owner,
		       struct span level);

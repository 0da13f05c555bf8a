/*
 * The logging level of a server that several clients set (PITFALLS "Relaying"): the most verbose wish goes to the
 * server, and each client is told only of messages at its own level. A client that never set one is told of `info` and
 * above once others have had a say, and of all that the server sends before that.
 *
 * Servers of the modern era have no level of their own: there each request carries its client's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "router/call.h"
#include "router/clients.h"

struct log_levels;

struct log_levels *log_levels_new(struct manager *manager, struct calls *calls, const struct clients *clients);
void log_levels_free(struct log_levels *levels); /* takes NULL; after calls_free() */
/* A client's logging/setLevel: as calls_start(). */
uint64_t log_levels_request(struct log_levels *levels, const struct call_options *options);
void log_levels_client_gone(struct log_levels *levels, uint64_t client);
/* As in struct manager_callbacks. */
void log_levels_on_reconnected(struct log_levels *levels, struct server *server, uint64_t owner);
void log_levels_on_server_removed(struct log_levels *levels);
/* Forgets what the client has set at this server (an exclusive one that it gives up). */
void log_levels_release(struct log_levels *levels, uint64_t client, uint64_t server);
/* The level the client has set at this server, as a JSON string for struct call_options; absent if none. */
struct span log_levels_of(const struct log_levels *levels, uint64_t client, uint64_t server);
/* Whether a message of this level (JSON string) is for this client. */
bool log_levels_wanted(const struct log_levels *levels, uint64_t client, uint64_t server, uint64_t owner,
		       struct span level);

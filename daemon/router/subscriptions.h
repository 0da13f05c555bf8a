/*
 * Resource subscriptions, counted per client (PROTOCOL "mcp/request"): a server hears one resources/subscribe for all
 * clients that want a URI, and one resources/unsubscribe when the last has had enough. Later subscribers are answered
 * {} at once. They are made again after a reconnect (M4), and gone with their client.
 *
 * A modern server has no such requests: the manager puts them into its own subscriptions/listen (manager/listen.h).
 *
 * An instance that serves one client only has its subscriptions for that client alone. Where what the server was told
 * may have got out of step with what is wanted (a subscriber left while its request was on its way, a new one came
 * while the last was being unsubscribed), the daemon says once more what it wants; both requests may be repeated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "router/call.h"
#include "router/clients.h"

struct subscriptions;

struct subscriptions *subscriptions_new(struct manager *manager, struct calls *calls, const struct clients *clients);
/* Takes NULL. After calls_free(), so that no row's end is outstanding. */
void subscriptions_free(struct subscriptions *subs);
/* A client's resources/subscribe (or unsubscribe) for the URI, a JSON string: as calls_start(). */
uint64_t subscriptions_request(struct subscriptions *subs, const struct call_options *options, struct span uri,
			       bool subscribe);
void subscriptions_client_gone(struct subscriptions *subs, uint64_t client);
/* As in struct manager_callbacks. */
void subscriptions_on_reconnected(struct subscriptions *subs, struct server *server, uint64_t owner);
/* Forgets what belongs to servers that are no longer there. */
void subscriptions_on_server_removed(struct subscriptions *subs);
/* Forgets what the client has at this server (an exclusive one that it gives up). */
void subscriptions_release(struct subscriptions *subs, uint64_t client, uint64_t server);
/* Whether a notifications/resources/updated for this (decoded) URI is for this client: it subscribed to the URI, or to
 * one that the URI lies below. */
bool subscriptions_wanted(const struct subscriptions *subs, uint64_t client, uint64_t server, const char *uri);
/* Whether a subscription to uri is about updated as well, being the same or below it. Both decoded. */
bool subscriptions_covers(const char *uri, const char *updated);
/* How many the client has. */
size_t subscriptions_count(const struct subscriptions *subs, uint64_t client);

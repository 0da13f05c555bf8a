/*
 * What the router knows of the clients that are connected: how to name one for people, and which questions of servers
 * it said that it answers (PROTOCOL "Requests from the daemon"). A client is its 64-bit id; it is known from
 * clients_add() to clients_remove().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/span.h"

struct clients;

/* What a question needs of its client. */
enum client_ability {
	CLIENT_SAMPLING = 1,
	CLIENT_SAMPLING_TOOLS = 2,
	CLIENT_ELICITATION = 4, /* forms */
	CLIENT_ELICITATION_URL = 8,
	CLIENT_ROOTS = 16,
};

struct clients *clients_new(void);
void clients_free(struct clients *clients); /* takes NULL */
void clients_add(struct clients *clients, uint64_t id);
void clients_remove(struct clients *clients, uint64_t id);
bool clients_known(const struct clients *clients, uint64_t id);
/* What its hello said: name (a JSON string, or absent), capabilities (a JSON object, or absent for none). May be
 * repeated. 0 or -ENOMEM (nothing has changed). */
int clients_describe(struct clients *clients, uint64_t id, struct span name, struct span capabilities);
/* The client speaks the modern era: it gets log messages only for requests that ask for them. */
void clients_set_modern(struct clients *clients, uint64_t id);
bool clients_is_modern(const struct clients *clients, uint64_t id);
/* Bits of enum client_ability. */
unsigned clients_abilities(const struct clients *clients, uint64_t id);
/* The capabilities as JSON text, NULL if it never said any. In the form of manager_set_capabilities(), with the clients
 * as arg. */
const char *clients_capabilities(void *clients, uint64_t id);
/* For people, unique: "NAME#ID", or "#ID" for one that gave no name. Valid until the client is described anew or has
 * gone; "" if unknown. */
const char *clients_label(const struct clients *clients, uint64_t id);
/* The name alone, as the label has it and valid as long; empty if it gave none or is unknown. */
struct span clients_name(const struct clients *clients, uint64_t id);
/* The index of its name in router/accounts.h; 0 if unknown. */
void clients_set_account(struct clients *clients, uint64_t id, unsigned account);
unsigned clients_account(const struct clients *clients, uint64_t id);

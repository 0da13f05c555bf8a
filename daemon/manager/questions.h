/*
 * Questions of servers to clients that are open: which instance waits for which answer.
 *
 * Whose they are is decided above, by the proof that comes with them. `roots/list` outside any client's call is
 * answered here, from the server's configured `roots` (ARCHITECTURE "Sharing").
 */
#pragma once

#include <stdint.h>

#include "mcp/mcp_client.h"

struct instance;

void questions_ask(struct instance *inst, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
		   uint64_t owner, uint64_t mcp_call);
/* The server withdrew it. */
void questions_withdrawn(struct instance *inst, uint64_t number, struct span reason);
/* The instance goes: whoever was asked is told. */
void questions_drop(struct instance *inst);

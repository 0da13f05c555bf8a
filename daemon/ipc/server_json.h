/* The server object of PROTOCOL.md, as servers/list, servers/get and events/server tell it. */
#pragma once

#include <stdbool.h>

#include "ipc/ipc.h"
#include "proto/buf.h"

struct usage_table;

/* details: also config, history and advice, as servers/get tells them. The server's own JSON (serverInfo, capabilities,
 * instructions) is verbatim. */
/* usage: a look at the machine's processes, to tell what the server uses; or NULL. */
void server_json_write(struct buf *out, struct ipc *ipc, struct server *server, const struct usage_table *usage,
		       bool details);

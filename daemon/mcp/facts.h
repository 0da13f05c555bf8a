/* What a server told about itself in its answer to initialize or server/discover, kept as long as the connection. */
#pragma once

#include "mcp/mcp_client.h"

struct facts {
	struct mcp_server_facts pub;
	char *text; /* the result, which the spans of pub lie in */
};

/* Fills in the capabilities (an object, or absent), and what follows from them and the era. Nothing is copied. */
void facts_note_capabilities(struct mcp_server_facts *pub, struct span capabilities);
/* Copies the result; version is static text. 0 or -ENOMEM. */
int facts_set(struct facts *facts, enum mcp_era era, const char *version, struct span result);
void facts_done(struct facts *facts);

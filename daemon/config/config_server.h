/* One server's definition out of the file: its members, what must and must not stand together, and its hashes. For config/ only. */
#pragma once

#include "config/config_loader.h"

/* Reads `value` as the definition of a server. What is wrong is told, and in the result's `error`. Takes name. NULL, or half a definition, without
 * memory (noted). */
struct server_config *server_config_read(struct loader *l, char *name, struct span value);
/* Computes identity and fingerprint, once all files are read. */
void server_config_seal(struct loader *l, struct server_config *sc, char *const *daemon_environment);

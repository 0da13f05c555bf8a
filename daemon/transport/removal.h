/* Containers that an earlier life of the daemon has left behind (transport/container.h): removed when the next begins, by
 * the programs that ran them, each a process like a server's. */
#pragma once

struct loop;
struct process_host;
struct removals;

/* Starts what is to be done for the directory; never NULL. */
struct removals *removals_start(struct process_host *host, struct loop *loop, const char *dir);
/* What is not through is left to its keeper, which ends it. Takes NULL. */
void removals_free(struct removals *removals);

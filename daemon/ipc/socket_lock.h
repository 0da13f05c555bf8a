/* The lock beside the socket that makes its daemon the only one (R11). */
#pragma once

#include <sys/types.h>

/* Opens (makes) the lock file of the socket path; its descriptor, or a negative errno. *ret_lock_path for messages;
 * free() it. */
int socket_lock_open(const char *socket_path, char **ret_lock_path);
/* Takes the lock without waiting and writes our pid into the file, for people: 0, -EWOULDBLOCK, or another negative
 * errno. */
int socket_lock_take(int fd);
/* The process that holds the lock, as the kernel tells it; 0 if nobody does or it cannot be told. */
pid_t socket_lock_holder(int fd);

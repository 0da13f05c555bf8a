/*
 * Where the daemon's socket is (PROTOCOL "Framing", PITFALLS "Sockets"), for the daemon and for its clients alike, so
 * that both always mean the same file: an explicit path, else MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock, else
 * the same below /run/user/UID where that is a directory of ours. There is no fall-back to a shared directory such as
 * /tmp.
 */
#pragma once

/* What sun_path holds without its NUL (R38). */
#define SOCKET_PATH_MAX 107

/*
 * option: the path asked for, or NULL. environment: an environ-like list. 0 with *ret_path, absolute, on the heap; or
 * -EINVAL (an empty or relative setting), -ENAMETOOLONG, -ENOENT (nothing says where), or the errno of getcwd(), each
 * with *ret_problem on the heap: a sentence for people that names the path and what to set. -ENOMEM leaves *ret_problem
 * NULL. Nothing is created.
 */
int socket_path_find(const char *option, const char *const *environment, char **ret_path, char **ret_problem);

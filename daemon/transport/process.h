/*
 * A server's process tree: started as PITFALLS "Children" says and ended whole (ARCHITECTURE "Processes", R3).
 *
 * process_host is the machine-wide part, made once. It forks the guard (transport/guard.h), from which each server gets
 * a keeper (transport/keeper.h): daemon > mcpd-guard > mcpd-keeper > server. Whatever a server starts stays below its
 * keeper, and is ended with it: by process_end(), and by guard and keeper themselves if the daemon is killed. With a
 * delegated cgroup (transport/cgroup.h) each server is in a leaf of its own besides, and cgroup.kill does the last
 * step. Any two of daemon, guard and keeper may be killed at once (transport/adoption.h), and each may have been stopped;
 * for all three only a service manager helps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop/loop.h"

struct process_host;
struct process;

/* Called early in main: before the loop exists, before any thread, before signals are handled, the umask or limits
 * are changed (servers inherit these two as they are now). Forks the guard; moves the daemon into a leaf of its
 * delegated cgroup, if there is one. NULL with errno. */
struct process_host *process_host_new(void);
/* Gives the host its loop; needed before process_start(). A guard that dies is replaced. */
void process_host_attach(struct process_host *host, struct loop *loop);
/* Where the files go by which containers are known (transport/container.h); before process_host_attach(), which removes
 * the containers that an earlier life left there. */
void process_host_set_containers(struct process_host *host, const char *dir);
/* When all processes were freed. Ends and reaps the guard; before the loop is freed. Takes NULL. */
void process_host_free(struct process_host *host);
/* For people and `daemon/status`: "cgroup" or "subreaper". */
const char *process_host_method(const struct process_host *host);

struct process_options {
	const char *name;        /* for messages and the cgroup's name */
	const char *command;     /* with a slash, or to be found along PATH of the resulting environment */
	const char *const *args; /* NULL-terminated, without the zeroth */
	const char *const
		*env;    /* "NAME=value", NULL-terminated; adds to and replaces the daemon's own environment (S8) */
	const char *cwd; /* NULL: $HOME */
	int64_t grace_ms;
	int64_t memory_max;                 /* bytes for the whole tree; 0: no limit */
	int stdin_fd, stdout_fd, stderr_fd; /* the child's ends; closed by process_start() in every case */
};

/* None is called inside process_start() or process_end(). */
struct process_callbacks {
	/* exec has happened (error NULL), or a message for people: the command's name, the system's reason and, for
	 * a command without a slash, the PATH that was searched (S8, R35). permanent: it will fail the same way next
	 * time. Once, but not after process_end(). */
	void (*on_started)(void *arg, const char *error, bool permanent);
	/* The main process has ended: "exit status 1", "killed by signal 9 (Killed)"; signalled: process_end() had
	 * sent it a signal before. Grandchildren may live on and hold the pipes. Once, if on_started told of it. */
	void (*on_exit)(void *arg, const char *how, bool signalled);
	/* process_end() is through: nothing of the tree is left. Once. */
	void (*on_ended)(void *arg);
};

/* Copies what it needs. Never NULL; failures come through on_started. */
struct process *process_start(struct process_host *host, struct loop *loop, const struct process_options *options,
			      const struct process_callbacks *callbacks, void *arg);
/* The server's own main process; 0 before on_started and after on_exit. */
pid_t process_pid(const struct process *process);
/* Ends the tree: the caller has closed stdin; wait grace, SIGTERM to all, wait grace, SIGKILL to all, until nothing
 * is left; then on_ended. For a main process that has exited already, what it left behind gets SIGTERM at once.
 * Bounded: what SIGKILL does not end in some seconds is logged and left to the keeper. Idempotent. */
void process_end(struct process *process);
/* Frees it as it is: nothing is called back any more, its keeper ends what there is of it. */
void process_abandon(struct process *process);
/* After on_ended only; safe inside it. */
void process_free(struct process *process);

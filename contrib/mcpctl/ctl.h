/*
 * mcpctl: the command line for mcpd, on the client library alone.
 *
 *   main.c       options, the table of commands          session.c  the connection, one request at a time, Ctrl-C
 *   output.c     whole writes, tables, colour, terminals content.c  what tools, resources and prompts give, for people
 *   arguments.c  key=value by a tool's schema            cmd_*.c    the commands, by subject
 *   run.c        other programs: mcpd, systemctl
 *   rpc.c        a request straight to an HTTP server, without the daemon
 *
 * Every command has two faces: text for people, and with --json the daemon's own result, verbatim, on one line (proto/PROTOCOL.md
 * describes the shapes). A failure with --json is {"error":{"code":..,"message":..,"data":..}} on standard output.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mcpd-client.h"
#include "proto/buf.h"
#include "proto/json_scan.h"
#include "proto/span.h"

enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,        /* the daemon or the server answered with an error, or output failed */
	EXIT_USAGE = 2,         /* the command line is wrong */
	EXIT_TOOL_ERROR = 3,    /* the tool ran and reported an error (isError) */
	EXIT_NO_DAEMON = 4,     /* no connection to the daemon */
	EXIT_INTERRUPTED = 130, /* Ctrl-C */
};

struct ctl {
	mcpd_client *client;
	const char *socket_path; /* --socket, or NULL */
	const char *output_file; /* -o, or NULL */
	bool json;               /* --json */
	bool no_start;           /* --no-start */
	int timeout_ms;          /* --timeout; -1: the server's own */
	bool follow;             /* -f */
	bool schema;             /* --schema */
	bool prometheus;         /* --prometheus */
	unsigned lines;          /* -n */
	bool now;                /* --now */
};

enum daemon_use {
	DAEMON_RUNNING, /* only one that runs already */
	DAEMON_STARTED, /* start it when none is running */
	DAEMON_NONE,    /* not needed */
};

struct command {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *summary;
	int min_args, max_args; /* max -1: any number */
	enum daemon_use daemon;
	int (*run)(struct ctl *ctl, int argc, char **argv); /* argv[0]: the first argument; returns an exit status */
};

/* cmd_daemon.c, cmd_metrics.c, cmd_restart.c, cmd_service.c, cmd_servers.c, cmd_tools.c, cmd_mcp.c, cmd_events.c */
int cmd_status(struct ctl *ctl, int argc, char **argv);
int cmd_metrics(struct ctl *ctl, int argc, char **argv);
int cmd_reload(struct ctl *ctl, int argc, char **argv);
int cmd_shutdown(struct ctl *ctl, int argc, char **argv);
int cmd_restart(struct ctl *ctl, int argc, char **argv);
int cmd_install_service(struct ctl *ctl, int argc, char **argv);
int cmd_remove_service(struct ctl *ctl, int argc, char **argv);
int cmd_servers(struct ctl *ctl, int argc, char **argv);
int cmd_connect(struct ctl *ctl, int argc, char **argv);
int cmd_disconnect(struct ctl *ctl, int argc, char **argv);
int cmd_reconnect(struct ctl *ctl, int argc, char **argv);
int cmd_logs(struct ctl *ctl, int argc, char **argv);
int cmd_tools(struct ctl *ctl, int argc, char **argv);
int cmd_call(struct ctl *ctl, int argc, char **argv);
int cmd_request(struct ctl *ctl, int argc, char **argv);
int cmd_resources(struct ctl *ctl, int argc, char **argv);
int cmd_read(struct ctl *ctl, int argc, char **argv);
int cmd_prompts(struct ctl *ctl, int argc, char **argv);
int cmd_prompt(struct ctl *ctl, int argc, char **argv);
int cmd_complete(struct ctl *ctl, int argc, char **argv);
int cmd_events(struct ctl *ctl, int argc, char **argv);
/* rpc.c */
int cmd_rpc(struct ctl *ctl, int argc, char **argv);

/* ---- session.c ---- */

/* Connects, starting the daemon if `start`. EXIT_OK, or an exit status with the reason told. */
int session_open(struct ctl *ctl, bool start);
/* The same, again if need be, with a time of its own. */
int session_open_within(struct ctl *ctl, bool start, int timeout_ms);
/* Connects to a daemon that is running; false, and nothing told, if there is none. */
bool session_is_there(struct ctl *ctl);
/* Until the daemon has ended the connection; false: Ctrl-C came first. */
bool session_wait_end(struct ctl *ctl);
/* One request, waited for; Ctrl-C cancels it at the daemon, and so at the server. EXIT_OK with *ret_reply (a result; unref it), or an exit status with the failure
 * told. `progress`: show the progress of the call on a terminal. */
int session_request(struct ctl *ctl, const char *method, const struct buf *params, bool progress,
		    mcpd_reply **ret_reply);
/* Handles events until the connection ends or Ctrl-C. */
int session_follow(struct ctl *ctl, mcpd_event_fn *fn, void *userdata);
bool session_interrupted(void);
/* Tells an error reply, with what to do about it. Returns the exit status for it. */
int session_tell_failure(struct ctl *ctl, const mcpd_reply *reply);
/* Tells a failure of our own: with --json as {"error":..}, else on standard error. */
__attribute__((format(printf, 2, 3))) void fail(const struct ctl *ctl, const char *format, ...);
/* cmd_restart.c: one line on standard error if the daemon we are connected to is older than this program. */
void tell_if_older(const struct ctl *ctl);

/* Building params: begin, members, end. */
void params_begin(struct buf *params);
void params_text(struct buf *params, const char *name, const char *value);
void params_int(struct buf *params, const char *name, int64_t value);
void params_json(struct buf *params, const char *name, struct span value);
void params_end(struct buf *params);

/* ---- run.c ---- */

/* The mcpd that belongs to this program, an absolute path: of MCPD_PROGRAM, else beside us (by its name on PATH, if that is the same file), else on PATH. NULL if there is
 * none; free() it. */
char *find_daemon(void);
/* Runs argv[0] (searched along PATH) to its end, with no input; what it writes goes to *out, which is initialised here, without the last line end. Its exit status, 128 and a
 * signal's number, or a negative errno if it could not be run. */
int run_program(const char *const *argv, struct buf *out);
/* systemctl --user VERB [a [b [c]]]. */
int run_systemctl(struct buf *out, const char *verb, const char *a, const char *b, const char *c);

/* ---- output.c ---- */

void output_init(void);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);      /* to standard output, buffered */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...); /* "mcpctl: ..." to standard error */
/* Text from servers: on a terminal, control characters (escape sequences among them) are made visible. */
void say_text(struct span text);
/* Bytes as they are. */
void say_bytes(struct span bytes);
/* The result with --json: verbatim, one line. */
void say_json(struct span json);
/* The decoded JSON string, or the JSON itself if it is no string. */
void say_json_string(struct span value);
/* Writes out what is buffered. Status, or EXIT_FAILED with the reason told if it could not be written (a closed pipe says nothing). */
int output_flush(int status);
bool output_is_terminal(void);
enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_BAD, COLOUR_BUSY, COLOUR_DIM, COLOUR_BOLD };
/* The escape sequence, or "" without a terminal or with NO_COLOR. */
const char *colour(enum colour which);

/* A table: cells are copied; the last column is cut to the terminal's width, never in a pipe. */
struct table;
struct table *table_new(const char *const *headings); /* NULL-terminated */
void table_cell(struct table *table, struct span text, enum colour colour);
void table_print(struct table *table); /* and frees it */

/* ---- content.c ---- */

/* A decoded string member as span of static or given memory: convenience for printing. The text goes into *buf. */
struct span text_member(struct span object, const char *name, struct buf *buf);
/* Prints content blocks (tools/call content, prompt messages). Binary blocks are described, or written to ctl->output_file. EXIT_OK or a status. */
int content_print(struct ctl *ctl, struct span blocks);
/* Prints one block, or one resource contents object. */
int content_print_block(struct ctl *ctl, struct span block);
int content_print_resource(struct ctl *ctl, struct span contents);

/* ---- arguments.c ---- */

/* Builds the JSON object of a call: argv is one JSON object, or "-" (read it from standard input), or key=value and key:=JSON. schema: the tool's inputSchema, or absent: then every value is
 * text. false with the reason told. */
bool arguments_build(int argc, char **argv, struct span schema, struct buf *out);
/* Whether argv needs the schema at all. */
bool arguments_need_schema(int argc, char **argv);

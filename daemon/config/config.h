/*
 * The configuration: which servers there are, and the daemon's own settings.
 *
 * Files are JSON in the shape that other MCP programs share, {"mcpServers": {NAME: {..}}}, with mcpd's own members beside (config_members.c lists
 * every member once: key, type, default, what it says; loading, --check-config and the README's table are made from it) and the daemon's settings in
 * "mcpd": {..}. Several files are read in order; a server in a later file replaces one of the same name, with a warning that names both, and a
 * daemon setting in a later file one of an earlier file.
 *
 * A bad server never hides a good one: it becomes a definition with `error` set. A file that cannot be read or is no JSON fails the whole load
 * (config_load() returns NULL), so that a reload can keep what it has (R37); and so does a lack of memory, for which no function here aborts. A bad
 * setting in "mcpd" is told as an error and keeps its default; a server whose name cannot be one is told and left out. A config is immutable once
 * loaded, but for its problems, which ipc/reload takes out of it.
 *
 * Messages never show a value that was expanded, nor any value of env and headers; what people are shown of a definition is what was written, masked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/limits.h"
#include "proto/span.h"

/* Fixed, unlike proto/limits.h: they hold for reading the file that could change them. */
#define CONFIG_FILE_MAX_BYTES ((size_t)16 << 20)
#define CONFIG_NAME_MAX_BYTES 128 /* of a server's name */
#define CONFIG_PROBLEMS_MAX 1000  /* past this they are only counted */

enum config_transport { CONFIG_STDIO, CONFIG_HTTP, CONFIG_SSE };
enum config_sharing { CONFIG_SHARED, CONFIG_PER_CLIENT, CONFIG_EXCLUSIVE };

/* One server's definition, all strings expanded. Lists are NULL-terminated, never NULL. Without `error`, a stdio server has its
 * command and an http or sse server its url. */
struct server_config {
	char *name;
	char *source; /* file */
	char *error; /* NULL if the definition is good; else the message for people; such a server is `failed` at once (M5) */
	enum config_transport transport;
	char *command; /* absolute, or a name without a slash to be searched along PATH */
	char **args;
	char **env;      /* "NAME=value"; secret */
	char *cwd;       /* absolute; NULL: $HOME */
	char *url;       /* http, sse; may hold secrets: for people there is url_shown */
	char *url_shown; /* the url as written, before expansion, with userinfo and query masked */
	char **headers;  /* "Name: value" ("Name: " where the value is empty); secret */
	char *ca_file;   /* absolute */
	bool insecure;
	int64_t timeout_ms;     /* `timeout`, default 30000 (C1); 0: none */
	int64_t max_timeout_ms; /* `maxTimeout`: how far progress may extend it; 0: not at all; else at least timeout_ms */
	int64_t connect_timeout_ms; /* `connectTimeout`: whole connect flow */
	int64_t idle_timeout_ms;    /* `idleTimeout`: stop a server without calls after this; 0: never */
	int64_t ping_interval_ms;   /* `pingInterval`; 0: none */
	int64_t grace_ms;           /* `stopGrace` */
	int64_t memory_max;         /* `memoryMax`, bytes; 0: none */
	bool enabled;
	bool lazy;
	enum config_sharing sharing;
	char **tools_allow, **tools_deny; /* `tools`: patterns of names (config/glob.h) */
	bool tools_allow_only;            /* `allow` is there: what it does not name is not allowed */
	char **retry_safe;                /* tools that may be sent again after a loss (M6) */
	char *roots_json; /* configured `roots` as JSON array text, [{"uri": "file:///..", "name"?: ".."}], or NULL */
	char **expanded;  /* what variables stand for in it whose names say that they are secret; secret */
	/* Hash over what defines the server (M3): type, command, args, env, cwd, url, headers, caFile; hex, NUL-terminated. The order of
	 * env and headers means nothing. For the caches. */
	char identity[33];
	/* Hash over everything: differs if any member changed, or (stdio) the daemon's `environment` (reload touches only those). */
	char fingerprint[33];
	char *written; /* what server_config_json() shows of the string members: `,"key":value` each, as written and masked */
};

/* One thing wrong, as told by `daemon/status`, `daemon/reload` and --check-config. */
struct config_problem {
	char *file;
	char *server; /* or NULL */
	char *message;
	bool warning;
};

/* A setting whose default is not a matter of the file. */
#define CONFIG_UNSET ((int64_t)-1)

struct config {
	char **files;                   /* those that were read, absolute */
	char **missing_files;           /* those that were looked for and are not there, absolute */
	struct server_config **servers; /* in the order of the files */
	size_t n_servers;
	struct config_problem *problems;
	size_t n_problems;
	struct limits limits;
	/* "mcpd": {..} */
	char *log_level;      /* error, warning, info, debug; NULL: not set */
	char **environment;   /* "NAME=value" for all servers, below their own env (R35: PATH); secret */
	int64_t idle_exit_ms; /* `idleExit`; 0: never; CONFIG_UNSET: it depends on how the daemon was started */
};

/*
 * Reads the files (NULL-terminated). `environment` is what ${VAR} is expanded from (an environ-like list). A missing file is an error if `must_exist`, else an empty configuration.
 * NULL with *ret_problems / *ret_n set if a file as a whole is unusable, or memory was short, which then is the one problem; free those with
 * config_problems_free(). The caller owns the result.
 * On success *ret_problems is NULL and the problems are in the result. Relative files and commands are taken from the working directory of this call.
 */
struct config *config_load(const char *const *files, bool must_exist, const char *const *environment,
			   struct config_problem **ret_problems, size_t *ret_n);
/* The same for one file's bytes; `file` is its name in messages. */
struct config *config_parse(struct span text, const char *file, const char *const *environment,
			    struct config_problem **ret_problems, size_t *ret_n);
void config_free(struct config *config);
void config_problems_free(struct config_problem *problems, size_t n);
const struct server_config *config_find(const struct config *config, const char *name);

/* Whether any tool may be filtered out; whether clients may have the tool of that (decoded) name. */
bool server_config_filters_tools(const struct server_config *sc);
bool server_config_allows_tool(const struct server_config *sc, struct span name);
/* NULL without memory. */
struct server_config *server_config_copy(const struct server_config *sc);
void server_config_free(struct server_config *sc);
/* The definition as JSON text for `servers/get`, strings as written (`${TOKEN}` stays) and secrets masked ("***"): env values, header values, userinfo and query of url,
 * and what looks like one in args. free() it; NULL without memory. */
char *server_config_json(const struct server_config *sc);

const char *config_transport_name(enum config_transport t); /* "stdio", "http", "sse" */
const char *config_sharing_name(enum config_sharing s);     /* "shared", "per-client", "exclusive" */

/* Default file: $XDG_CONFIG_HOME/mcpd/mcp.json, else ~/.config/mcpd/mcp.json. 0 with *ret to free(); or NULL in it and -ENOENT if neither HOME nor
 * XDG_CONFIG_HOME is set to an absolute path, or -ENOMEM. */
int config_default_file(char **ret);
/* --check-config: prints every problem as `FILE: server NAME: message` (warnings: `FILE: server NAME: warning: message`; without a server that part is
 * absent) to out and a summary; 0 if there is no error (warnings are allowed), else 1. Expands from the process's own environment. */
int config_check(const char *const *files, bool must_exist, FILE *out);
/* --print-config-table: every member and limit as Markdown tables; the README holds the same text between its `config-table` marks. */
void config_print_table(FILE *out);
/* --print-config-man: the same as sections of a manual page, from which the build makes mcpd.json(5). */
void config_print_man(FILE *out);

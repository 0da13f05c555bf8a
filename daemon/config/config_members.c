#include "config/config_members.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define SECONDS(n) ((int64_t)(n)*1000)
#define DAYS(n) SECONDS((int64_t)(n)*24 * 60 * 60)

#define FIELD(field) offsetof(struct server_config, field)

static const struct config_member server_members[] = {
	{ "type", MEMBER_TYPE, FOR_ALL, FIELD(transport), .def_text = "`stdio`",
	  .what = "`stdio`: a program that mcpd starts; `http`: Streamable HTTP; `sse`: the older HTTP+SSE. A `url` needs it" },
	{ "command", MEMBER_STRING, FOR_STDIO, FIELD(command),
	  .what = "the program to start: a name to search along PATH, or a path; `~/` is the home directory, and a relative path with a "
		  "slash begins at `cwd`, or where mcpd was started" },
	{ "args", MEMBER_STRINGS, FOR_STDIO, FIELD(args), .what = "its arguments" },
	{ "env", MEMBER_ENV, FOR_STDIO, FIELD(env),
	  .what = "variables added to those that mcpd itself has; numbers in quotes. Never shown" },
	{ "cwd", MEMBER_PATH, FOR_STDIO, FIELD(cwd), .def_text = "`~`",
	  .what = "the directory it runs in: an absolute path, or one from `~/`" },
	{ "url", MEMBER_URL, FOR_HTTP, FIELD(url), .what = "the server's address, `http://` or `https://`" },
	{ "headers", MEMBER_HEADERS, FOR_HTTP, FIELD(headers),
	  .what = "HTTP headers sent with every request. Never shown" },
	{ "caFile", MEMBER_PATH, FOR_HTTP, FIELD(ca_file), .def_text = "the system's",
	  .what = "certificates (PEM) that the server's is checked against" },
	{ "insecure", MEMBER_BOOL, FOR_HTTP, FIELD(insecure),
	  .what = "`true`: the server's certificate is not checked; for tests only" },
	{ "timeout", MEMBER_DURATION, FOR_ALL, FIELD(timeout_ms), SECONDS(30), 0, DAYS(30),
	  .what = "how long a request may take; 0: for ever" },
	{ "maxTimeout", MEMBER_DURATION, FOR_ALL, FIELD(max_timeout_ms), SECONDS(3600), 0, DAYS(30),
	  .what = "how long a request may take in all while the server reports progress, which starts `timeout` anew; 0: progress "
		  "changes nothing" },
	{ "connectTimeout", MEMBER_DURATION, FOR_ALL, FIELD(connect_timeout_ms), SECONDS(120), 1, DAYS(1),
	  .what = "how long starting the server and the handshake may take together" },
	{ "idleTimeout", MEMBER_DURATION, FOR_ALL, FIELD(idle_timeout_ms), 0, 0, DAYS(365),
	  .what = "a server without calls for so long is stopped until the next one; 0: never" },
	{ "pingInterval", MEMBER_DURATION, FOR_ALL, FIELD(ping_interval_ms), 0, 0, DAYS(1),
	  .what = "how often a quiet server is asked whether it still answers; 0: never" },
	{ "stopGrace", MEMBER_DURATION, FOR_STDIO, FIELD(grace_ms), SECONDS(2), 0, SECONDS(600),
	  .what = "how long a server that is to end is waited for, between the end of its input and SIGTERM, and again before SIGKILL" },
	{ "memoryMax", MEMBER_BYTES, FOR_STDIO, FIELD(memory_max), 0, 1 << 20, INT64_MAX >> 1, .def_text = "none",
	  .what = "how much memory the server may use with all that it starts, in bytes or as `\"512M\"`, `\"2G\"`; needs a cgroup with a "
		  "memory controller, as a systemd service has it; `servers/get` says if it is not enforced" },
	{ "enabled", MEMBER_BOOL, FOR_ALL, FIELD(enabled), 1,
	  .what = "`false`: the server is neither started nor listed" },
	{ "disabled", MEMBER_NOT, FOR_ALL, FIELD(enabled), 1, .def_text = "`false`",
	  .what = "the same the other way round, as some programs write it" },
	{ "lazy", MEMBER_BOOL, FOR_ALL, FIELD(lazy), .what = "`true`: started by the first call, not with the daemon" },
	{ "sharing", MEMBER_SHARING, FOR_ALL, FIELD(sharing), .def_text = "`shared`",
	  .what = "`shared`: one process for all clients; `per-client`: one for each; `exclusive`: one process, one client at a time" },
	{ "retrySafe", MEMBER_STRINGS, FOR_ALL, FIELD(retry_safe),
	  .what = "tools whose calls may be sent once more when the connection was lost in mid-call" },
	{ "tools", MEMBER_TOOLS, FOR_ALL, .def_text = "all",
	  .what = "`{\"allow\": [..], \"deny\": [..]}`: which tools clients see and may call, by name; `*` stands for any text, `?` for one "
		  "character, and `deny` goes in front of `allow`" },
	{ "roots", MEMBER_ROOTS, FOR_ALL, FIELD(roots_json),
	  .what = "what a `roots/list` of the server is answered that belongs to no client's call: paths, `file://` URIs, or "
		  "`{\"uri\": .., \"name\": ..}`" },
	{ "description", MEMBER_NOTE, FOR_ALL, .what = "for the reader of the file" },
};

static const struct config_member daemon_members[] = {
	{ "limits", MEMBER_LIMITS, FOR_ALL, offsetof(struct config, limits), .what = "see the next table" },
	{ "logLevel", MEMBER_LEVEL, FOR_ALL, offsetof(struct config, log_level), .def_text = "`info`",
	  .what = "the least severe lines that are logged: `error`, `warning`, `info` or `debug`; `--log-level` and "
		  "`MCPD_LOG` go in front of it" },
	{ "environment", MEMBER_ENV, FOR_ALL, offsetof(struct config, environment),
	  .what = "variables for all servers, below their own `env`; a service's PATH is not the shell's: set it here" },
	{ "idleExit", MEMBER_DURATION, FOR_ALL, offsetof(struct config, idle_exit_ms), 0, 0, DAYS(365),
	  .def_text = "600000 with a socket unit, else 0",
	  .what = "when no client was connected and no server was running for so long, at least 1000, mcpd ends; the next "
		  "connection starts it again; 0: never" },
};

static const struct config_member file_members[] = {
	{ "mcpServers", MEMBER_SERVERS, FOR_ALL, .what = "the servers by name, see below" },
	{ "mcpd", MEMBER_DAEMON, FOR_ALL, .what = "the daemon's own settings, see below" },
	{ "$schema", MEMBER_NOTE, FOR_ALL, .what = "for editors" },
};

const struct member_table config_file_members = { file_members, sizeof(file_members) / sizeof(*file_members) };
const struct member_table config_server_members = { server_members, sizeof(server_members) / sizeof(*server_members) };
const struct member_table config_daemon_members = { daemon_members, sizeof(daemon_members) / sizeof(*daemon_members) };

/* What other programs call a member. Found before the nearest spelling. */
static const struct {
	const char *foreign, *ours;
} foreign_names[] = {
	{ "serverUrl", "url" },
	{ "httpUrl", "url" },
	{ "endpoint", "url" },
	{ "transport", "type" },
	{ "transportType", "type" },
	{ "environment", "env" },
	{ "envVars", "env" },
	{ "cmd", "command" },
	{ "executable", "command" },
	{ "arguments", "args" },
	{ "workingDirectory", "cwd" },
	{ "dir", "cwd" },
	{ "httpHeaders", "headers" },
	{ "requestTimeout", "timeout" },
	{ "toolTimeoutSec", "timeout" },
	{ "startupTimeoutSec", "connectTimeout" },
	{ "env", "environment" },
	{ "servers", "mcpServers" },
	{ "contextServers", "mcpServers" },
	{ "level", "logLevel" },
};

static const char *const kind_texts[MEMBER_KIND_COUNT] = {
	[MEMBER_TYPE] = "a string",
	[MEMBER_SHARING] = "a string",
	[MEMBER_STRING] = "a string",
	[MEMBER_URL] = "a string",
	[MEMBER_PATH] = "a string",
	[MEMBER_STRINGS] = "a list of strings",
	[MEMBER_ENV] = "an object of strings",
	[MEMBER_HEADERS] = "an object of strings",
	[MEMBER_DURATION] = "a whole number of milliseconds",
	[MEMBER_BYTES] = "a number of bytes, or a string like \"512M\"",
	[MEMBER_BOOL] = "true or false",
	[MEMBER_NOT] = "true or false",
	[MEMBER_ROOTS] = "a list of strings or objects",
	[MEMBER_TOOLS] = "an object of lists of strings",
	[MEMBER_LIMITS] = "an object of whole numbers",
	[MEMBER_LEVEL] = "a string",
	[MEMBER_NOTE] = "a string",
	[MEMBER_SERVERS] = "an object of objects",
	[MEMBER_DAEMON] = "an object",
};

const char *member_kind_text(enum member_kind kind)
{
	return kind_texts[kind];
}

const struct config_member *member_find(const struct member_table *table, const char *key)
{
	for (size_t i = 0; i < table->n; i++)
		if (strcmp(table->members[i].key, key) == 0)
			return &table->members[i];
	return NULL;
}

/* Longer names than this are nobody's misspelling. */
#define SPELLING_MAX 32

/* The name without what people vary: case, `_` and `-`. False if it is too long to be one of ours. */
static bool normalize(const char *name, char out[static SPELLING_MAX + 1])
{
	size_t len = 0;
	for (; *name; name++) {
		if (*name == '_' || *name == '-')
			continue;
		if (len == SPELLING_MAX)
			return false;
		out[len++] = (char)tolower((unsigned char)*name);
	}
	out[len] = '\0';
	return true;
}

/* Letters to add, drop, change or swap with a neighbour to turn a into b (both normalized). */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[SPELLING_MAX + 2][SPELLING_MAX + 2];
	size_t n = strlen(a), m = strlen(b);
	for (size_t i = 0; i <= n; i++)
		row[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			unsigned best = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (row[i - 1][j] + 1 < best)
				best = row[i - 1][j] + 1;
			if (row[i][j - 1] + 1 < best)
				best = row[i][j - 1] + 1;
			bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && row[i - 2][j - 2] + 1 < best)
				best = row[i - 2][j - 2] + 1;
			row[i][j] = best;
		}
	}
	return row[n][m];
}

/* The search for the nearest of several names. */
struct nearest {
	char want[SPELLING_MAX + 1];
	const char *name;
	unsigned distance; /* only what is nearer is taken */
};

static bool nearest_init(struct nearest *n, const char *want)
{
	n->name = NULL;
	if (!normalize(want, n->want))
		return false;
	size_t len = strlen(n->want);
	n->distance = len < 5 ? 2 : len < 10 ? 3 : 4;
	return true;
}

static void nearest_try(struct nearest *n, const char *name)
{
	char normal[SPELLING_MAX + 1];
	if (!normalize(name, normal))
		return;
	unsigned d = distance(n->want, normal);
	/* A name of which nothing is left was not meant. */
	if (d >= n->distance || d >= strlen(n->want))
		return;
	n->distance = d;
	n->name = name;
}

const char *member_suggest(const struct member_table *table, const char *key)
{
	struct nearest nearest;
	if (!nearest_init(&nearest, key))
		return NULL;
	for (size_t i = 0; i < sizeof(foreign_names) / sizeof(*foreign_names); i++) {
		char foreign[SPELLING_MAX + 1];
		if (normalize(foreign_names[i].foreign, foreign) && strcmp(foreign, nearest.want) == 0 &&
		    member_find(table, foreign_names[i].ours))
			return foreign_names[i].ours;
	}
	for (size_t i = 0; i < table->n; i++)
		nearest_try(&nearest, table->members[i].key);
	return nearest.name;
}

const char *limit_suggest(const char *key)
{
	struct nearest nearest;
	if (!nearest_init(&nearest, key))
		return NULL;
	for (int i = 0; i < LIMIT_COUNT; i++)
		nearest_try(&nearest, limit_table[i].key);
	return nearest.name;
}

/*
 * Every member of the configuration, listed once: loading, the masked view of `servers/get`, the hints for misspelt names and the README's table are
 * made from these tables.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

enum member_kind {
	MEMBER_TYPE,     /* enum config_transport */
	MEMBER_SHARING,  /* enum config_sharing */
	MEMBER_STRING,   /* char * */
	MEMBER_URL,      /* char *, and url_shown */
	MEMBER_PATH,     /* char *; absolute or from ~/ */
	MEMBER_STRINGS,  /* char ** */
	MEMBER_ENV,      /* char **, "NAME=value" */
	MEMBER_HEADERS,  /* char **, "Name: value" */
	MEMBER_DURATION, /* int64_t, milliseconds */
	MEMBER_BYTES,    /* int64_t; 0: none */
	MEMBER_BOOL,     /* bool */
	MEMBER_NOT,      /* bool, the opposite of what is written */
	MEMBER_ROOTS,    /* char *, JSON */
	MEMBER_TOOLS,    /* tools_allow, tools_allow_only, tools_deny */
	MEMBER_LIMITS,   /* struct limits */
	MEMBER_LEVEL,    /* char *, one of the log levels */
	MEMBER_NOTE,     /* any string, for the reader of the file */
	MEMBER_SERVERS,  /* the object with the servers */
	MEMBER_DAEMON,   /* the object with the daemon's settings */
	MEMBER_KIND_COUNT,
};

/* For which servers a member means something. */
enum member_use { FOR_ALL, FOR_STDIO, FOR_HTTP };

struct config_member {
	const char *key;
	enum member_kind kind;
	enum member_use use;
	size_t offset;         /* in struct server_config or struct config; for those kinds that have a type above */
	int64_t def, min, max; /* of durations and booleans */
	const char *def_text;  /* in the table, where def is not the default; NULL: none */
	const char *what;      /* in the table */
};

struct member_table {
	const struct config_member *members;
	size_t n;
};

extern const struct member_table config_file_members;   /* top level; no offsets */
extern const struct member_table config_server_members; /* offsets in struct server_config */
extern const struct member_table config_daemon_members; /* "mcpd": offsets in struct config */

/* The member of that (decoded) name, or NULL. */
const struct config_member *member_find(const struct member_table *table, const char *key);
/* The key that was probably meant, or NULL: another program's word for a member, or the nearest in spelling. */
const char *member_suggest(const struct member_table *table, const char *key);
/* The same among the limits. */
const char *limit_suggest(const char *key);
/* What a value of that kind must be, for messages and the table: "a list of strings". */
const char *member_kind_text(enum member_kind kind);

/* The field of a member in its struct. */
#define MEMBER_FIELD(type, base, member) ((type *)(void *)((char *)(base) + (member)->offset))

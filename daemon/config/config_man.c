/* The configuration's tables in the language of manual pages (groff_man(7)), for mcpd.json(5). */
#include <stdbool.h>
#include <stdio.h>

#include "config/config_members.h"

/* Text of the tables, which is Markdown: `..` stands for what is written as it is. No line end. */
static void print_text(FILE *out, const char *text)
{
	bool literal = false;
	for (; *text; text++) {
		switch (*text) {
		case '`':
			literal = !literal;
			fputs(literal ? "\\fB" : "\\fR", out);
			break;
		case '\\':
			fputs("\\e", out);
			break;
		case '-':
			fputs(literal ? "\\-" : "-", out);
			break;
		case '~':
			fputs("\\(ti", out);
			break;
		case '\'':
			fputs("\\(aq", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

/* The head of an entry, with what stands in brackets behind its name; print_end() ends it. */
static void print_entry(FILE *out, const char *key, const char *type)
{
	fprintf(out, ".TP\n\\fB%s\\fR (%s", key, type);
}

static void print_end(FILE *out, const char *what)
{
	fputs(")\n", out);
	/* A paragraph that began with a dot would be a request. */
	fputs("\\&", out);
	print_text(out, what);
	fputs(".\n", out);
}

static void print_default(FILE *out, const struct config_member *m)
{
	if (m->def_text) {
		fputs("; default ", out);
		print_text(out, m->def_text);
	} else if (m->kind == MEMBER_DURATION) {
		fprintf(out, "; default %lld", (long long)m->def);
	} else if (m->kind == MEMBER_BOOL) {
		fprintf(out, "; default \\fB%s\\fR", m->def ? "true" : "false");
	}
}

static void print_members(FILE *out, const struct member_table *table)
{
	static const char *const uses[] = { [FOR_ALL] = "", [FOR_STDIO] = "stdio: ", [FOR_HTTP] = "http, sse: " };
	for (size_t i = 0; i < table->n; i++) {
		const struct config_member *m = &table->members[i];
		print_entry(out, m->key, uses[m->use]);
		fputs(member_kind_text(m->kind), out);
		print_default(out, m);
		print_end(out, m->what);
	}
}

static void print_limits(FILE *out)
{
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_info *info = &limit_table[i];
		print_entry(out, info->key, info->unit);
		fprintf(out, "; default %lld, from %lld to %lld", (long long)info->def, (long long)info->min,
			(long long)info->max);
		print_end(out, info->what);
	}
}

void config_print_man(FILE *out)
{
	fputs(".SS The file\n", out);
	print_members(out, &config_file_members);
	fputs(".SS A server, \\(dqmcpServers\\(dq: {NAME: {..}}\nDurations are milliseconds.\n", out);
	print_members(out, &config_server_members);
	fputs(".SS The daemon, \\(dqmcpd\\(dq: {..}\n", out);
	print_members(out, &config_daemon_members);
	fputs(".SS Limits, \\(dqmcpd\\(dq: {\\(dqlimits\\(dq: {..}}\n", out);
	print_limits(out);
}

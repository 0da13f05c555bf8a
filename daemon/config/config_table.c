#include <stdio.h>

#include "config/config_members.h"

static const char *use_text(const struct config_member *m)
{
	static const char *const texts[] = { [FOR_ALL] = "all", [FOR_STDIO] = "stdio", [FOR_HTTP] = "http, sse" };
	return texts[m->use];
}

static void print_default(FILE *out, const struct config_member *m)
{
	if (m->def_text)
		fputs(m->def_text, out);
	else if (m->kind == MEMBER_DURATION)
		fprintf(out, "%lld", (long long)m->def);
	else if (m->kind == MEMBER_BOOL)
		fputs(m->def ? "`true`" : "`false`", out);
	else
		fputs("-", out);
}

static void print_members(FILE *out, const struct member_table *table)
{
	fputs("| member | type | default | what it says |\n| --- | --- | --- | --- |\n", out);
	for (size_t i = 0; i < table->n; i++) {
		const struct config_member *m = &table->members[i];
		fprintf(out, "| `%s` | %s | ", m->key, member_kind_text(m->kind));
		print_default(out, m);
		fprintf(out, " | %s |\n", m->what);
	}
}

static void print_server_members(FILE *out)
{
	fputs("| member | for | type | default | what it says |\n| --- | --- | --- | --- | --- |\n", out);
	for (size_t i = 0; i < config_server_members.n; i++) {
		const struct config_member *m = &config_server_members.members[i];
		fprintf(out, "| `%s` | %s | %s | ", m->key, use_text(m), member_kind_text(m->kind));
		print_default(out, m);
		fprintf(out, " | %s |\n", m->what);
	}
}

static void print_limits(FILE *out)
{
	fputs("| limit | default | least | most | what it bounds |\n| --- | --- | --- | --- | --- |\n", out);
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_info *info = &limit_table[i];
		fprintf(out, "| `%s` | %lld %s | %lld | %lld | %s |\n", info->key, (long long)info->def, info->unit,
			(long long)info->min, (long long)info->max, info->what);
	}
}

void config_print_table(FILE *out)
{
	fputs("The file:\n\n", out);
	print_members(out, &config_file_members);
	fputs("\nA server, `\"mcpServers\": {NAME: {..}}`; durations are milliseconds:\n\n", out);
	print_server_members(out);
	fputs("\nThe daemon, `\"mcpd\": {..}`:\n\n", out);
	print_members(out, &config_daemon_members);
	fputs("\nLimits, `\"mcpd\": {\"limits\": {..}}`:\n\n", out);
	print_limits(out);
}

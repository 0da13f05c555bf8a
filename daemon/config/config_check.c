#include <stdio.h>
#include <unistd.h>

#include "config/config.h"

/* Also where a file's or server's name has found its way into it, one problem is one line. */
static void print_clean(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		putc(c < 0x20 || c == 0x7f ? ' ' : c, out);
	}
}

/* Prints them; how many of them are errors. */
static size_t print_problems(FILE *out, const struct config_problem *problems, size_t n)
{
	size_t n_errors = 0;
	for (size_t i = 0; i < n; i++) {
		const struct config_problem *p = &problems[i];
		print_clean(out, p->file);
		fputs(": ", out);
		if (p->server) {
			fputs("server ", out);
			print_clean(out, p->server);
			fputs(": ", out);
		}
		if (p->warning)
			fputs("warning: ", out);
		print_clean(out, p->message);
		putc('\n', out);
		n_errors += !p->warning;
	}
	return n_errors;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void print_servers(FILE *out, const struct config *config)
{
	size_t n_bad = 0, n_disabled = 0;
	for (size_t i = 0; i < config->n_servers; i++) {
		n_bad += config->servers[i]->error != NULL;
		n_disabled += !config->servers[i]->enabled;
	}
	fprintf(out, "%zu server%s", config->n_servers, plural(config->n_servers));
	if (n_bad > 0)
		fprintf(out, ", %zu of them unusable", n_bad);
	if (n_disabled > 0)
		fprintf(out, ", %zu disabled", n_disabled);
	fputs("; ", out);
}

int config_check(const char *const *files, bool must_exist, FILE *out)
{
	struct config_problem *problems;
	size_t n;
	struct config *config = config_load(files, must_exist, (const char *const *)environ, &problems, &n);
	const struct config_problem *list = config ? config->problems : problems;
	size_t n_list = config ? config->n_problems : n;
	size_t n_errors = print_problems(out, list, n_list);
	size_t n_warnings = n_list - n_errors;
	if (config && !config->files[0])
		fprintf(out, "no configuration file (%s does not exist): ", files[0] ? files[0] : "the default one");
	if (config)
		print_servers(out, config);
	else
		fputs("not usable; ", out);
	fprintf(out, "%zu error%s, %zu warning%s\n", n_errors, plural(n_errors), n_warnings, plural(n_warnings));
	config_problems_free(problems, n);
	config_free(config);
	return n_errors > 0 ? 1 : 0;
}

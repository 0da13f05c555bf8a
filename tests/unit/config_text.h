/* For the tests of the configuration: a text in, a configuration and its problems out. */
#pragma once

#include <check.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"

static const char *const config_environment[] = {
	"HOME=/home/me", "TOKEN=s3cret", "EMPTY=", "NAME=x", "BAD=a\nb", NULL
};

/* Strings in these tests that must never be in a message. */
static const char *const config_secrets[] = { "s3cret", "hunter2" };

static void no_secret_in(const struct config_problem *problems, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < sizeof(config_secrets) / sizeof(*config_secrets); j++)
			ck_assert_msg(!strstr(problems[i].message, config_secrets[j]), "%s", problems[i].message);
}

/* Loads a text that is usable as a whole. */
static struct config *config_of(const char *text)
{
	struct config_problem *problems;
	size_t n;
	struct config *config = config_parse(span_of(text), "/c/mcp.json", config_environment, &problems, &n);
	ck_assert_msg(config, "%s", n ? problems[0].message : "no message");
	ck_assert_ptr_null(problems);
	ck_assert_uint_eq(n, 0);
	no_secret_in(config->problems, config->n_problems);
	return config;
}

static const struct server_config *server_of(const struct config *config, const char *name)
{
	const struct server_config *sc = config_find(config, name);
	ck_assert_msg(sc, "no server %s", name);
	return sc;
}

/* Whether there is such a problem: `server` may be NULL, `part` is in the message. */
static inline bool has_problem(const struct config *config, const char *server, bool warning, const char *part)
{
	for (size_t i = 0; i < config->n_problems; i++) {
		const struct config_problem *p = &config->problems[i];
		if (p->warning == warning && strcmp(p->server ? p->server : "", server ? server : "") == 0 &&
		    strstr(p->message, part))
			return true;
	}
	return false;
}

#define ASSERT_PROBLEM(config, server, warning, part)                                                                  \
	do {                                                                                                           \
		if (!has_problem((config), (server), (warning), (part)))                                               \
			fail_with_problems((config), (part));                                                          \
	} while (0)
#define ASSERT_ERROR(config, server, part) ASSERT_PROBLEM(config, server, false, part)
#define ASSERT_WARNING(config, server, part) ASSERT_PROBLEM(config, server, true, part)

static inline void fail_with_problems(const struct config *config, const char *part)
{
	char text[8192] = "";
	for (size_t i = 0; i < config->n_problems && strlen(text) < 6000; i++) {
		const struct config_problem *p = &config->problems[i];
		snprintf(text + strlen(text), 1024, "%s%s: %.800s\n", p->warning ? "warning: " : "",
			 p->server ? p->server : "-", p->message);
	}
	ck_abort_msg("'%s' is not among:\n%s", part, text);
}

static inline void assert_list(char *const *list, ...)
{
	va_list wanted;
	va_start(wanted, list);
	const char *want;
	while ((want = va_arg(wanted, const char *))) {
		ck_assert_msg(*list, "'%s' is missing", want);
		ck_assert_str_eq(*list++, want);
	}
	va_end(wanted);
	ck_assert_msg(!*list, "'%s' is too much", *list);
}

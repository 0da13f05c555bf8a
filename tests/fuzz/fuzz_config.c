/*
 * A configuration file. Whatever it says, a load that succeeds keeps the promises of config.h, does not show the secrets of its
 * environment to anybody, and gives the same hashes again; a load that fails says why.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "proto/json_scan.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

/* Bytes that no valid input can hold: only expansion brings them in. Printed as JSON they would be shown as the second form. */
#define SECRET "\xff\xfesecret"
#define SECRET_IN_JSON "\xef\xbf\xbd\xef\xbf\xbdsecret"

static const char *const environment[] = { "HOME=/home/me", "TOKEN=" SECRET, "EMPTY=", "A=a", NULL };

/* strstr() for the fuzzer not to see: what it sees compared it puts into its inputs. */
__attribute__((no_sanitize("coverage"))) static bool contains(const char *text, const char *part)
{
	for (; *text; text++) {
		size_t i = 0;
		while (part[i] && text[i] == part[i])
			i++;
		if (!part[i])
			return true;
	}
	return false;
}

static bool shows_secret(const char *text)
{
	return contains(text, SECRET) || contains(text, SECRET_IN_JSON);
}

static void check_problems(const struct config_problem *problems, size_t n)
{
	REQUIRE(n <= CONFIG_PROBLEMS_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		REQUIRE(problems[i].file && problems[i].message && problems[i].message[0]);
		REQUIRE(!shows_secret(problems[i].message));
	}
}

static void check_list(char *const *list)
{
	REQUIRE(list);
	while (*list)
		list++;
}

static void check_text_json(char *json)
{
	REQUIRE(json);
	REQUIRE(json_check(span_of(json), NULL) == 0);
	REQUIRE(!shows_secret(json));
	free(json);
}

static void check_server(const struct server_config *sc)
{
	REQUIRE(sc->name[0] && strlen(sc->name) <= CONFIG_NAME_MAX_BYTES);
	check_list(sc->args);
	check_list(sc->env);
	check_list(sc->headers);
	check_list(sc->retry_safe);
	if (sc->error) {
		REQUIRE(!shows_secret(sc->error));
	} else {
		REQUIRE(sc->transport == CONFIG_STDIO ? sc->command && sc->command[0] : sc->url && sc->url_shown);
		REQUIRE(sc->transport != CONFIG_STDIO || !strchr(sc->command, '/') || sc->command[0] == '/');
		REQUIRE(!sc->cwd || sc->cwd[0] == '/');
		REQUIRE(!sc->ca_file || sc->ca_file[0] == '/');
		REQUIRE(sc->timeout_ms >= 0 && (sc->max_timeout_ms == 0 || sc->max_timeout_ms >= sc->timeout_ms));
	}
	for (char *const *header = sc->headers; *header; header++)
		REQUIRE(!strpbrk(*header, "\r\n"));
	REQUIRE(!sc->url_shown || !shows_secret(sc->url_shown));
	REQUIRE(!sc->roots_json || json_check(span_of(sc->roots_json), NULL) == 0);
	REQUIRE(strlen(sc->identity) == 32 && strlen(sc->fingerprint) == 32);
	struct server_config *copy = server_config_copy(sc);
	/* Roots are no secret by nature, and are shown as the server will be told them. */
	if (!sc->roots_json)
		check_text_json(server_config_json(copy));
	server_config_free(copy);
}

static void check_config(const struct config *config)
{
	check_list(config->files);
	check_list(config->environment);
	check_problems(config->problems, config->n_problems);
	REQUIRE(config->n_servers <= (size_t)config->limits.value[LIMIT_SERVERS]);
	for (int i = 0; i < LIMIT_COUNT; i++)
		REQUIRE(config->limits.value[i] >= limit_table[i].min && config->limits.value[i] <= limit_table[i].max);
	for (size_t i = 0; i < config->n_servers; i++)
		check_server(config->servers[i]);
}

/* The same text gives the same hashes. */
static void check_again(struct span text, const struct config *config)
{
	struct config_problem *problems;
	size_t n;
	struct config *again = config_parse(text, "f", environment, &problems, &n);
	REQUIRE(again && again->n_servers == config->n_servers);
	for (size_t i = 0; i < config->n_servers; i++) {
		REQUIRE(strcmp(again->servers[i]->identity, config->servers[i]->identity) == 0);
		REQUIRE(strcmp(again->servers[i]->fingerprint, config->servers[i]->fingerprint) == 0);
	}
	config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = { (const char *)data, size };
	struct config_problem *problems;
	size_t n;
	struct config *config = config_parse(text, "f", environment, &problems, &n);
	if (config) {
		REQUIRE(!problems && n == 0);
		check_config(config);
		check_again(text, config);
	} else {
		REQUIRE(n > 0);
		check_problems(problems, n);
		config_problems_free(problems, n);
	}
	config_free(config);
	return 0;
}

/* config: what a server's definition means, and what is said of one that means nothing (L4, M3, R10, R35, R36). */
#include "config/config.h"

#include <stdlib.h>
#include <unistd.h>

#include "proto/json_scan.h"
#include "tests/unit/config_text.h"
#include "tests/unit/run.h"

/* A configuration of one server, "s". */
static struct config *one(const char *definition)
{
	char text[4096];
	ck_assert_int_lt(snprintf(text, sizeof(text), "{\"mcpServers\": {\"s\": %s}}", definition), sizeof(text));
	return config_of(text);
}

/* The server's error contains `part`, is told, and the good server beside it is not hidden. */
static void assert_refused(const char *definition, const char *part)
{
	char text[4096];
	snprintf(text, sizeof(text), "{\"mcpServers\": {\"s\": %s, \"good\": {\"command\": \"x\"}}}", definition);
	struct config *config = config_of(text);
	const struct server_config *sc = server_of(config, "s");
	ck_assert_msg(sc->error, "%s is taken", definition);
	ASSERT_ERROR(config, "s", part);
	ck_assert_str_eq(config->problems[0].file, "/c/mcp.json");
	ck_assert_ptr_nonnull(sc->args);
	ck_assert_ptr_nonnull(sc->env);
	ck_assert_ptr_nonnull(sc->headers);
	ck_assert_ptr_nonnull(sc->retry_safe);
	ck_assert_ptr_null(server_of(config, "good")->error);
	config_free(config);
}

static void assert_warned(const char *definition, const char *part)
{
	struct config *config = one(definition);
	ck_assert_msg(!config->servers[0]->error, "%s: %s", definition, config->servers[0]->error);
	ASSERT_WARNING(config, "s", part);
	config_free(config);
}

static void assert_good(const char *definition)
{
	struct config *config = one(definition);
	ck_assert_msg(config->n_problems == 0, "%s: %s", definition, config->problems[0].message);
	ck_assert_ptr_null(config->servers[0]->error);
	config_free(config);
}

START_TEST(a_command_alone_has_all_the_defaults)
{
	struct config *config = one("{\"command\": \"npx\"}");
	const struct server_config *sc = server_of(config, "s");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_int_eq(sc->transport, CONFIG_STDIO);
	ck_assert_str_eq(sc->command, "npx");
	ck_assert_str_eq(sc->source, "/c/mcp.json");
	assert_list(sc->args, NULL);
	assert_list(sc->env, NULL);
	ck_assert_ptr_null(sc->cwd);
	ck_assert_ptr_null(sc->url);
	ck_assert_int_eq(sc->timeout_ms, 30000); /* C1 */
	ck_assert_int_ge(sc->max_timeout_ms, sc->timeout_ms);
	ck_assert_int_gt(sc->connect_timeout_ms, 15000); /* R8 */
	ck_assert_int_eq(sc->idle_timeout_ms, 0);
	ck_assert_int_eq(sc->ping_interval_ms, 0);
	ck_assert_int_gt(sc->grace_ms, 0);
	ck_assert(sc->enabled);
	ck_assert(!sc->lazy && !sc->insecure);
	ck_assert_int_eq(sc->sharing, CONFIG_SHARED);
	ck_assert_ptr_null(sc->roots_json);
	config_free(config);
}
END_TEST

START_TEST(every_member_of_a_stdio_server)
{
	struct config *config =
		one("{\"type\": \"stdio\", \"command\": \"/bin/x\", \"args\": [\"-a\", \"\", \"b c\"],"
		    "\"env\": {\"A\": \"1\", \"X\": \"\"}, \"cwd\": \"/w\", \"timeout\": 1000, \"maxTimeout\": 2000,"
		    "\"connectTimeout\": 3000, \"idleTimeout\": 4000, \"pingInterval\": 5000, \"stopGrace\": 6000,"
		    "\"enabled\": true, \"lazy\": true, \"sharing\": \"per-client\", \"retrySafe\": [\"t\"],"
		    "\"roots\": [], \"description\": \"d\"}");
	const struct server_config *sc = server_of(config, "s");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_str_eq(sc->command, "/bin/x");
	assert_list(sc->args, "-a", "", "b c", NULL);
	assert_list(sc->env, "A=1", "X=", NULL);
	ck_assert_str_eq(sc->cwd, "/w");
	ck_assert_int_eq(sc->timeout_ms, 1000);
	ck_assert_int_eq(sc->max_timeout_ms, 2000);
	ck_assert_int_eq(sc->connect_timeout_ms, 3000);
	ck_assert_int_eq(sc->idle_timeout_ms, 4000);
	ck_assert_int_eq(sc->ping_interval_ms, 5000);
	ck_assert_int_eq(sc->grace_ms, 6000);
	ck_assert(sc->enabled && sc->lazy);
	ck_assert_int_eq(sc->sharing, CONFIG_PER_CLIENT);
	assert_list(sc->retry_safe, "t", NULL);
	ck_assert_str_eq(sc->roots_json, "[]");
	config_free(config);
}
END_TEST

START_TEST(every_member_of_an_http_server)
{
	struct config *config =
		one("{\"type\": \"http\", \"url\": \"https://h/mcp\", \"headers\": {\"X-A\": \" v \", \"B\": \"\"},"
		    "\"caFile\": \"~/ca.pem\", \"insecure\": false, \"sharing\": \"exclusive\"}");
	const struct server_config *sc = server_of(config, "s");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_int_eq(sc->transport, CONFIG_HTTP);
	ck_assert_str_eq(sc->url, "https://h/mcp");
	ck_assert_str_eq(sc->url_shown, "https://h/mcp");
	assert_list(sc->headers, "X-A: v", "B: ", NULL);
	ck_assert_str_eq(sc->ca_file, "/home/me/ca.pem");
	ck_assert_int_eq(sc->sharing, CONFIG_EXCLUSIVE);
	config_free(config);
	config = one("{\"type\": \"sse\", \"url\": \"HTTP://h\"}");
	ck_assert_int_eq(config->servers[0]->transport, CONFIG_SSE);
	ck_assert_uint_eq(config->n_problems, 0);
	config_free(config);
}
END_TEST

START_TEST(l4_another_type_is_refused_to_the_letter)
{
	struct config *config = one("{\"type\": \"streamable-http\", \"url\": \"http://h\"}");
	ck_assert_str_eq(config->servers[0]->error, "Unknown server type: streamable-http");
	ck_assert_str_eq(config->problems[0].message, "Unknown server type: streamable-http");
	ASSERT_WARNING(config, "s", "\"http\" (Streamable HTTP");
	config_free(config);
	config = one("{\"type\": \"\", \"command\": \"x\"}");
	ck_assert_str_eq(config->servers[0]->error, "Unknown server type: ");
	config_free(config);
	assert_refused("{\"type\": \"HTTP\", \"url\": \"http://h\"}", "Unknown server type: HTTP");
	/* As written, not as expanded. */
	assert_refused("{\"type\": \"${TOKEN}\", \"url\": \"http://h\"}", "Unknown server type: ${TOKEN}");
	assert_refused("{\"type\": 1, \"url\": \"http://h\"}", "\"type\": expected a string, found a number");
}
END_TEST

START_TEST(l4_a_url_without_a_type_is_refused_with_a_hint)
{
	assert_refused("{\"url\": \"http://h\"}", "add \"type\": \"http\"");
	assert_refused("{\"url\": \"http://h\", \"headers\": {}}", "add \"type\": \"http\"");
}
END_TEST

START_TEST(command_and_url_must_fit_the_type)
{
	assert_refused("{}", "has neither \"command\"");
	assert_refused("{\"command\": \"x\", \"url\": \"http://h\"}", "exclude each other");
	assert_refused("{\"type\": \"http\", \"command\": \"x\", \"url\": \"http://h\"}", "exclude each other");
	assert_refused("{\"type\": \"http\", \"command\": \"x\"}", "a \"command\" and no \"url\"");
	assert_refused("{\"type\": \"sse\"}", "there is no \"url\"");
	assert_refused("{\"type\": \"stdio\", \"url\": \"http://h\"}", "write \"type\": \"http\"");
	assert_refused("{\"type\": \"stdio\"}", "has neither");
	assert_refused("5", "expected an object with \"command\", or with \"type\" and \"url\", found a number");
	assert_refused("null", "found null");
	assert_refused("[]", "found a list");
}
END_TEST

START_TEST(r10_an_empty_command_is_refused)
{
	assert_refused("{\"command\": \"\"}", "\"command\": is empty");
	assert_refused("{\"command\": \" \\t\"}", "\"command\": is empty");
	assert_refused("{\"command\": \"${EMPTY}\"}", "\"command\": is empty");
}
END_TEST

/* Each member with a value of a wrong type: the message names file, server, member, what was expected and what was found. */
START_TEST(a_wrong_type_is_refused_with_what_was_expected)
{
	static const struct {
		const char *member, *part;
	} cases[] = {
		{ "\"command\": 1", "\"command\": expected a string, found a number" },
		{ "\"command\": null", "\"command\": expected a string, found null (leave the member out instead)" },
		{ "\"args\": \"a\"", "\"args\": expected a list of strings, found a string" },
		{ "\"args\": [\"a\", 1]", "\"args\"[1]: expected a string, found a number; write it in double quotes" },
		{ "\"args\": [[]]", "\"args\"[0]: expected a string, found a list" },
		{ "\"env\": [\"A=hunter2\"]", "\"env\": expected an object of strings, found a list" },
		{ "\"env\": {\"PORT\": 8080}",
		  "\"env\": \"PORT\": expected a string, found a number; write it in double quotes" },
		{ "\"env\": {\"ON\": true}",
		  "\"env\": \"ON\": expected a string, found true or false; write it in double quotes" },
		{ "\"env\": {\"O\": {\"k\": \"hunter2\"}}", "\"env\": \"O\": expected a string, found an object" },
		{ "\"env\": {\"\": \"hunter2\"}", "\"env\": \"\": is no name for a variable" },
		{ "\"env\": {\"A=B\": \"hunter2\"}", "\"env\": \"A=B\": is no name for a variable" },
		{ "\"cwd\": {}", "\"cwd\": expected a string, found an object" },
		{ "\"timeout\": \"hunter2\"", "\"timeout\": expected a whole number of milliseconds, found a string" },
		{ "\"timeout\": -1",
		  "\"timeout\": expected a whole number of milliseconds from 0 to 2592000000, found -1" },
		{ "\"timeout\": 1.5", "found 1.5" },
		{ "\"timeout\": 18446744073709551616", "found 18446744073709551616" },
		{ "\"timeout\": 1e400", "found 1e400" },
		{ "\"connectTimeout\": 0", "from 1 to" },
		{ "\"stopGrace\": null", "\"stopGrace\": expected a whole number of milliseconds, found null" },
		{ "\"enabled\": \"false\"",
		  "\"enabled\": expected true or false, found a string; write it without quotes" },
		{ "\"disabled\": 1", "\"disabled\": expected true or false, found a number" },
		{ "\"lazy\": []", "\"lazy\": expected true or false, found a list" },
		{ "\"sharing\": \"mine\"", "\"sharing\": expected \"shared\", \"per-client\" or \"exclusive\"" },
		{ "\"sharing\": false", "\"sharing\": expected a string" },
		{ "\"retrySafe\": true", "\"retrySafe\": expected a list of strings, found true or false" },
		{ "\"roots\": {}", "\"roots\": expected a list of strings or objects, found an object" },
		{ "\"roots\": [1]",
		  "\"roots\"[0]: expected a path, a file:// URI, or an object with a \"uri\", found a number" },
		{ "\"roots\": [{\"name\": \"n\"}]", "\"roots\"[0]: expected a path" },
		{ "\"roots\": [{\"uri\": 5}]", "\"roots\"[0]: \"uri\": expected a string" },
		{ "\"roots\": [\"src\"]", "\"roots\"[0]: expected an absolute path" },
		{ "\"roots\": [\"http://h\"]", "\"roots\"[0]: expected an absolute path" },
		{ "\"description\": 5", "\"description\": expected a string" },
		{ "\"args\": [\"a\\u0000b\"]", "\"args\"[0]: contains U+0000" },
		{ "\"args\": [\"\\ud800\"]", "\"args\"[0]: contains half a surrogate pair" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char definition[512];
		bool is_command = strncmp(cases[i].member, "\"command\"", 9) == 0;
		snprintf(definition, sizeof(definition), "{%s%s}", is_command ? "" : "\"command\": \"x\", ",
			 cases[i].member);
		assert_refused(definition, cases[i].part);
	}
}
END_TEST

START_TEST(headers_and_url_are_checked)
{
	static const struct {
		const char *member, *part;
	} cases[] = {
		{ "\"headers\": {\"A B\": \"hunter2\"}", "\"headers\": \"A B\": is no name for a header" },
		{ "\"headers\": {\"A:\": \"hunter2\"}", "is no name for a header" },
		{ "\"headers\": {\"\": \"hunter2\"}", "is no name for a header" },
		{ "\"headers\": {\"A\\r\\nB\": \"hunter2\"}", "is no name for a header" },
		{ "\"headers\": {\"A\\u0000B\": \"hunter2\"}", "is no name for a header" },
		{ "\"headers\": {\"A\": \"hunter2\\r\\nX: y\"}", "\"headers\": \"A\": contains a line break" },
		{ "\"headers\": {\"A\": \"${BAD}\"}", "\"headers\": \"A\": contains a line break" },
		{ "\"headers\": {\"A\": \"hunter2\\u0001\"}", "contains a control character" },
		{ "\"headers\": {\"A\": 31337}", "\"headers\": \"A\": expected a string, found a number" },
		{ "\"headers\": [\"A: hunter2\"]", "\"headers\": expected an object of strings, found a list" },
		{ "\"caFile\": \"ca.pem\"", "\"caFile\": is a relative path" },
		{ "\"insecure\": \"true\"", "write it without quotes" },
		{ "\"url\": \"h/hunter2\"", "\"url\": expected an address" },
		{ "\"url\": \"ftp://h\"", "\"url\": expected an address" },
		{ "\"url\": \"http://\"", "\"url\": expected an address" },
		{ "\"url\": \"http:///p\"", "\"url\": expected an address" },
		{ "\"url\": \"http://h/a b\"", "\"url\": expected an address" },
		{ "\"url\": \"http://h/${BAD}\"", "\"url\": expected an address" },
		{ "\"url\": 5", "\"url\": expected a string" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char definition[512];
		bool is_url = strncmp(cases[i].member, "\"url\"", 5) == 0;
		snprintf(definition, sizeof(definition), "{\"type\": \"http\", %s%s}",
			 is_url ? "" : "\"url\": \"http://h\", ", cases[i].member);
		assert_refused(definition, cases[i].part);
	}
	/* Which value stands there is never said. */
	struct config *config = one("{\"type\": \"http\", \"url\": \"http://h\", \"headers\": {\"A\": 31337}}");
	ck_assert_ptr_null(strstr(config->servers[0]->error, "31337"));
	config_free(config);
}
END_TEST

START_TEST(headers_that_mcpd_sets_are_ignored_and_doubled_ones_told)
{
	struct config *config = one(
		"{\"type\": \"http\", \"url\": \"http://h\", \"headers\": {\"accept\": \"x\", \"Authorization\": \"a\","
		"\"X\": \"1\", \"authorization\": \"b\", \"Mcp-Session-Id\": \"y\"}}");
	ck_assert_ptr_null(config->servers[0]->error);
	ASSERT_WARNING(config, "s", "\"headers\": \"accept\": is set by mcpd itself");
	ASSERT_WARNING(config, "s", "\"headers\": \"Mcp-Session-Id\": is set by mcpd itself");
	ASSERT_WARNING(config, "s", "\"headers\": Authorization is there twice, in different case");
	assert_list(config->servers[0]->headers, "X: 1", "authorization: b", NULL);
	config_free(config);
}
END_TEST

START_TEST(unknown_members_are_warned_about_with_the_nearest_name)
{
	static const struct {
		const char *member, *meant;
	} cases[] = {
		{ "comand", "command" },
		{ "Command", "command" },
		{ "arg", "args" },
		{ "evn", "env" },
		{ "environment", "env" },
		{ "workingDirectory", "cwd" },
		{ "cdw", "cwd" },
		{ "max_timeout", "maxTimeout" },
		{ "idle-timeout", "idleTimeout" },
		{ "timeot", "timeout" },
		{ "serverUrl", "url" },
		{ "http_headers", "headers" },
		{ "transport", "type" },
		{ "enable", "enabled" },
		{ "disable", "disabled" },
		{ "retrysafe", "retrySafe" },
		{ "sharng", "sharing" },
		{ "startup_timeout_sec", "connectTimeout" },
		{ "pingInterva", "pingInterval" },
		{ "root", "roots" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char definition[256], part[256];
		snprintf(definition, sizeof(definition), "{\"command\": \"x\", \"%s\": {}}", cases[i].member);
		snprintf(part, sizeof(part), "\"%s\": unknown member, ignored; is \"%s\" meant?", cases[i].member,
			 cases[i].meant);
		assert_warned(definition, part);
	}
	static const char *const unlike_any[] = {
		"autoApprove", "x", "", "a\\u0000b", "gallery", "an unreasonably long name that none wanted"
	};
	for (size_t i = 0; i < sizeof(unlike_any) / sizeof(*unlike_any); i++) {
		char definition[256];
		snprintf(definition, sizeof(definition), "{\"command\": \"x\", \"%s\": {}}", unlike_any[i]);
		struct config *config = one(definition);
		ASSERT_WARNING(config, "s", ": unknown member, ignored");
		ck_assert_msg(!strstr(config->problems[0].message, "meant"), "%s", config->problems[0].message);
		config_free(config);
	}
}
END_TEST

START_TEST(what_is_probably_a_mistake_is_warned_about)
{
	assert_warned("{\"command\": \"x\", \"url\\u0000\": 1}", "unknown member");
	assert_warned("{\"command\": \"npx -y thing\"}", "\"command\": contains a space");
	assert_warned("{\"command\": \"x\", \"headers\": {}}", "\"headers\": means nothing for a stdio server");
	assert_warned("{\"type\": \"http\", \"url\": \"http://h\", \"env\": {}}",
		      "\"env\": means nothing for an http or sse server");
	assert_warned("{\"type\": \"http\", \"url\": \"https://h\", \"insecure\": true}", "certificate is not checked");
	assert_warned("{\"command\": \"x\", \"timeout\": 60}",
		      "60 is in milliseconds; if seconds are meant, write 60000");
	assert_warned("{\"command\": \"x\", \"timeout\": 5000, \"maxTimeout\": 4000}", "\"maxTimeout\": is less than");
	assert_warned("{\"command\": \"bin/x\"}", "\"command\": a relative path depends on where mcpd was started");
	assert_warned("{\"command\": \"x\", \"roots\": [{\"uri\": \"/r\", \"_meta\": 1}]}",
		      "\"roots\"[0]: \"_meta\": unknown member");
	assert_good("{\"command\": \"/opt/My App/x\"}");
	assert_good("{\"command\": \"my app\", \"args\": []}");
	assert_good("{\"command\": \"x\", \"timeout\": 0}");
	assert_good("{\"command\": \"x\", \"timeout\": 1e3}");
	assert_good("{\"command\": \"x\", \"timeout\": 7200000}"); /* more than maxTimeout's default */
}
END_TEST

START_TEST(max_timeout_is_never_less_than_timeout)
{
	struct config *config = one("{\"command\": \"x\", \"timeout\": 7200000}");
	ck_assert_int_eq(config->servers[0]->max_timeout_ms, 7200000);
	config_free(config);
	config = one("{\"command\": \"x\", \"timeout\": 5000, \"maxTimeout\": 0}");
	ck_assert_int_eq(config->servers[0]->max_timeout_ms, 0);
	ck_assert_uint_eq(config->n_problems, 0);
	config_free(config);
}
END_TEST

START_TEST(a_server_is_disabled_by_either_spelling)
{
	static const struct {
		const char *members;
		bool enabled;
	} cases[] = {
		{ "\"enabled\": false", false },
		{ "\"disabled\": true", false },
		{ "\"disabled\": false", true },
		{ "\"enabled\": true, \"disabled\": true", false },
		{ "\"disabled\": true, \"enabled\": true", false },
		{ "\"enabled\": false, \"disabled\": false", false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char definition[256];
		snprintf(definition, sizeof(definition), "{\"command\": \"x\", %s}", cases[i].members);
		struct config *config = one(definition);
		ck_assert_msg(config->servers[0]->enabled == cases[i].enabled, "%s", cases[i].members);
		ck_assert_uint_eq(config->n_problems, 0);
		config_free(config);
	}
}
END_TEST

START_TEST(r36_variables_are_expanded_in_all_strings)
{
	struct config *config = config_of(
		"{\"mcpServers\": {"
		"\"a\": {\"type\": \"${TYPE:-stdio}\", \"command\": \"/b/${NAME}\", \"args\": [\"${env:NAME}\", \"$${NAME}\"],"
		"  \"env\": {\"T\": \"${TOKEN}\", \"${NAME}\": \"k\"}, \"cwd\": \"${HOME}/w\", \"sharing\": \"${SH:-exclusive}\","
		"  \"retrySafe\": [\"t-${NAME}\"], \"roots\": [\"${HOME}/r\"]},"
		"\"b\": {\"type\": \"http\", \"url\": \"https://u:${TOKEN}@h/${NAME}?k=${TOKEN}\","
		"  \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}, \"caFile\": \"${HOME}/ca\"},"
		"\"unset\": {\"command\": \"x\", \"args\": [\"${NOPE}\"]},"
		"\"header\": {\"type\": \"http\", \"url\": \"http://h\", \"headers\": {\"Authorization\": \"Bearer ${NOPE}\"}}}}");
	const struct server_config *a = server_of(config, "a"), *b = server_of(config, "b");
	ck_assert_ptr_null(a->error);
	ck_assert_int_eq(a->sharing, CONFIG_EXCLUSIVE);
	ck_assert_str_eq(a->command, "/b/x");
	assert_list(a->args, "x", "${NAME}", NULL);
	assert_list(a->env, "T=s3cret", "${NAME}=k", NULL); /* names are names */
	ck_assert_str_eq(a->cwd, "/home/me/w");
	assert_list(a->retry_safe, "t-x", NULL);
	ck_assert_str_eq(a->roots_json, "[{\"uri\":\"file:///home/me/r\"}]");
	ck_assert_ptr_null(b->error);
	ck_assert_str_eq(b->url, "https://u:s3cret@h/x?k=s3cret");
	assert_list(b->headers, "Authorization: Bearer s3cret", NULL);
	ck_assert_str_eq(b->ca_file, "/home/me/ca");
	/* Unset fails that server only, and a header is never dropped silently. */
	ck_assert_ptr_nonnull(strstr(server_of(config, "unset")->error, "\"args\"[0]: the variable NOPE is not set"));
	ck_assert_ptr_nonnull(
		strstr(server_of(config, "header")->error, "\"Authorization\": the variable NOPE is not set"));
	config_free(config);
}
END_TEST

START_TEST(paths_begin_at_the_home_directory_or_are_absolute)
{
	struct config *config = config_of(
		"{\"mcpServers\": {"
		"\"a\": {\"command\": \"~/bin/x\", \"cwd\": \"~\"},"
		"\"b\": {\"command\": \"./run\", \"cwd\": \"~/w\"},"
		"\"c\": {\"command\": \"~user\"},"
		"\"d\": {\"command\": \"x\", \"roots\": [\"~/a b\", {\"uri\": \"file:///u\", \"name\": \"N\"},"
		"  {\"uri\": \"/p\\u00e9\"}]}}}");
	ck_assert_str_eq(config->servers[0]->command, "/home/me/bin/x");
	ck_assert_str_eq(config->servers[0]->cwd, "/home/me");
	ck_assert_str_eq(config->servers[1]->command, "/home/me/w/./run");
	ck_assert_str_eq(config->servers[2]->command, "~user");
	ck_assert_str_eq(
		config->servers[3]->roots_json,
		"[{\"uri\":\"file:///home/me/a%20b\"},{\"uri\":\"file:///u\",\"name\":\"N\"},{\"uri\":\"file:///p%C3%A9\"}]");
	ck_assert_uint_eq(config->n_problems, 0);
	config_free(config);
	/* A relative command means the same before and after the daemon or the server changes its directory. */
	char here[4096], want[4200];
	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(want, sizeof(want), "%s/bin/x", here);
	config = one("{\"command\": \"bin/x\"}");
	ck_assert_str_eq(config->servers[0]->command, want);
	config_free(config);
	assert_refused("{\"command\": \"x\", \"cwd\": \"w\"}", "\"cwd\": is a relative path");
	assert_refused("{\"command\": \"x\", \"cwd\": \"./\"}", "\"cwd\": is a relative path");
	assert_refused("{\"command\": \"x\", \"cwd\": \"~user/w\"}", "\"cwd\": is a relative path");
	assert_refused("{\"command\": \"x\", \"cwd\": \"\"}", "\"cwd\": is empty");
}
END_TEST

START_TEST(a_tilde_without_a_home_is_refused)
{
	static const char text[] =
		"{\"mcpServers\": {\"s\": {\"command\": \"~/x\"}, \"t\": {\"command\": \"x\", \"cwd\": \"~\"}}}";
	static const char *const homeless[] = { "HOME=relative", NULL };
	const char *const *environments[] = { homeless, homeless + 1, NULL };
	for (size_t i = 0; i < 3; i++) {
		struct config_problem *problems;
		size_t n;
		struct config *config = config_parse(SPAN_LIT(text), "f", environments[i], &problems, &n);
		ck_assert_str_eq(config->servers[0]->error,
				 "\"command\": begins with ~, but HOME is not set in mcpd's environment");
		ck_assert_str_eq(config->servers[1]->error,
				 "\"cwd\": begins with ~, but HOME is not set in mcpd's environment");
		config_free(config);
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS("config", a_command_alone_has_all_the_defaults, every_member_of_a_stdio_server,
			 every_member_of_an_http_server, l4_another_type_is_refused_to_the_letter,
			 l4_a_url_without_a_type_is_refused_with_a_hint, command_and_url_must_fit_the_type,
			 r10_an_empty_command_is_refused, a_wrong_type_is_refused_with_what_was_expected,
			 headers_and_url_are_checked, headers_that_mcpd_sets_are_ignored_and_doubled_ones_told,
			 unknown_members_are_warned_about_with_the_nearest_name,
			 what_is_probably_a_mistake_is_warned_about, max_timeout_is_never_less_than_timeout,
			 a_server_is_disabled_by_either_spelling, r36_variables_are_expanded_in_all_strings,
			 paths_begin_at_the_home_directory_or_are_absolute, a_tilde_without_a_home_is_refused);
}

/* config: whole files - JSON that is none, doubled names, "mcpd", limits, several files, --check-config (R35, R37, M3). */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "proto/json_scan.h"
#include "tests/unit/config_text.h"
#include "tests/unit/run.h"

/* The text makes the whole load fail; the first message contains `part`. */
static void assert_unusable(struct span text, const char *part)
{
	struct config_problem *problems;
	size_t n;
	struct config *config = config_parse(text, "/c/mcp.json", config_environment, &problems, &n);
	ck_assert_msg(!config, "%.*s is taken", (int)text.len, text.ptr);
	ck_assert_uint_ge(n, 1);
	ck_assert_msg(strstr(problems[0].message, part), "'%s' lacks '%s'", problems[0].message, part);
	ck_assert_str_eq(problems[0].file, "/c/mcp.json");
	ck_assert(!problems[0].warning);
	no_secret_in(problems, n);
	config_problems_free(problems, n);
}

START_TEST(r37_what_is_no_json_is_unusable_and_says_where)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{ "", "is empty; without any server it would be {\"mcpServers\": {}}" },
		{ " \n", "is empty" },
		{ "{", "line 1, column 2: the text ends too early" },
		{ "{\n  \"mcpServers\": {\n    \"\xc3\xa9\": x}}", "line 3, column 10: a value is expected" },
		{ "{\"a\": 1 // why\n}",
		  "line 1, column 9: a comma or } is expected (JSON has no comments: remove it)" },
		{ "/* x */ {}", "(JSON has no comments: remove it)" },
		{ "# x\n{}", "line 1, column 1: a value is expected (JSON has no comments: remove it)" },
		{ "{\"a\": 1,\n}", "line 2, column 1: a member's name is expected (remove the comma in front of it)" },
		{ "{\"a\": [1, ]}", "(remove the comma in front of it)" },
		{ "{'a': 1}", "(strings are written in double quotes)" },
		{ "{\"a\": 1\n\"b\": 2}",
		  "line 2, column 1: a comma or } is expected (is a comma missing in front of it?)" },
		{ "{\"a\": NaN}", "a value is expected" },
		{ "{}{}", "something follows the value" },
		{ "{\"a\": \"\xff\"}", "a string that is not UTF-8" },
		{ "{\"a\": \"x\ny\"}", "a raw control character in a string" },
		{ "{\"a\": \"\xc0\x80\"}", "a string that is not UTF-8" },
		{ "[]", "expected an object, {\"mcpServers\": {..}}, found a list" },
		{ "\"hunter2\"", "found a string" },
		{ "null", "found null" },
		{ "{\"mcpServers\": []}", "\"mcpServers\": expected an object of objects, found a list" },
		{ "{\"mcpServers\": null}", "\"mcpServers\": expected an object of objects, found null" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_unusable(span_of(cases[i].text), cases[i].part);
	assert_unusable(SPAN_LIT("\xff\xfe{\0}\0"), "is UTF-16; save it as UTF-8");
	assert_unusable(SPAN_LIT("\0"), "line 1, column 1");
	assert_unusable(SPAN_NONE, "is empty");
}
END_TEST

START_TEST(nesting_has_a_limit_and_a_byte_order_mark_is_taken)
{
	char deep[600] = "{\"mcpServers\": ";
	for (int i = 0; i < 200; i++)
		strcat(deep, "[");
	assert_unusable(span_of(deep), "nested too deeply");
	struct config *config = config_of("\xef\xbb\xbf{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_uint_eq(config->n_servers, 1);
	config_free(config);
	/* Not twice, and the column is counted behind it. */
	assert_unusable(span_of("\xef\xbb\xbf\xef\xbb\xbf{}"), "line 1, column 1");
}
END_TEST

START_TEST(an_empty_configuration_is_one)
{
	static const char *const texts[] = { "{}", "{\"mcpServers\": {}}", "{\"mcpd\": {}}", "{\"$schema\": \"x\"}",
					     "{\"mcpd\": {\"limits\": {}, \"environment\": {}}}" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct config *config = config_of(texts[i]);
		ck_assert_uint_eq(config->n_problems, 0);
		ck_assert_uint_eq(config->n_servers, 0);
		ck_assert_ptr_null(config->log_level);
		assert_list(config->environment, NULL);
		assert_list(config->files, "/c/mcp.json", NULL);
		ck_assert_ptr_null(config_find(config, "a"));
		config_free(config);
	}
}
END_TEST

START_TEST(doubled_names_are_warned_about_and_the_last_one_counts)
{
	struct config *config = config_of(
		"{\"mcpServers\": {\n"
		" \"a\": {\"command\": \"1\"},\n"
		" \"b\": {\"command\": \"x\",\n \"\\u0063ommand\": \"y\", \"env\": {\"K\": \"1\",\n \"K\": \"2\"}},\n"
		" \"\\u0061\": {\"command\": \"2\"},\n"
		" \"a\": {\"command\": \"3\"}},\n"
		" \"mcpd\": {\"logLevel\": \"info\", \"limits\": {\"logLines\": 10, \"logLines\": 20}, \"logLevel\": \"debug\"},\n"
		" \"mcpd\": {\"logLevel\": \"error\", \"limits\": {\"logLines\": 10, \"logLines\": 20}}}");
	ASSERT_WARNING(config, NULL, "\"mcpServers\": \"a\" is there twice (lines 2 and 6)");
	ASSERT_WARNING(config, NULL, "\"mcpServers\": \"\\u0061\" is there twice (lines 6 and 7)");
	ASSERT_WARNING(config, "b", "\"command\" is there twice (lines 3 and 4); the last one counts");
	ASSERT_WARNING(config, "b", "\"env\": \"K\" is there twice (lines 4 and 5)");
	ASSERT_WARNING(config, NULL, "\"mcpd\" is there twice (lines 8 and 9)");
	ASSERT_WARNING(config, NULL, "\"mcpd\": \"limits\": \"logLines\" is there twice");
	ck_assert_uint_eq(config->n_servers, 2);
	ck_assert_str_eq(server_of(config, "a")->command, "3");
	ck_assert_str_eq(server_of(config, "b")->command, "y");
	assert_list(server_of(config, "b")->env, "K=2", NULL);
	ck_assert_str_eq(config->log_level, "error");
	ck_assert_int_eq(config->limits.value[LIMIT_LOG_LINES], 20);
	config_free(config);
}
END_TEST

START_TEST(a_name_that_cannot_be_one_is_told_and_left_out)
{
	char longest[CONFIG_NAME_MAX_BYTES + 1], longer[CONFIG_NAME_MAX_BYTES + 2], text[4096];
	memset(longest, 'n', sizeof(longest));
	memset(longer, 'm', sizeof(longer));
	longest[sizeof(longest) - 1] = longer[sizeof(longer) - 1] = '\0';
	snprintf(
		text, sizeof(text),
		"{\"mcpServers\": {\"\": {}, \"a\\nb\": {}, \"\\u007f\": {}, \"c\\u0085\": {}, \"d\\u0000e\": {}, \"\\udc00\": {},"
		"\"%s\": {}, \"%s\": {\"command\": \"x\"}, \" \\u00e9/\\ud83d\\ude00 __\": {\"command\": \"x\"}}}",
		longer, longest);
	struct config *config = config_of(text);
	ck_assert_uint_eq(config->n_servers, 2);
	ASSERT_ERROR(config, NULL, "server \"\": the name is empty");
	ASSERT_ERROR(config, NULL, "server \"a\\nb\": the name contains a control character; the server is left out");
	ASSERT_ERROR(config, NULL, "server \"\\u007f\": the name contains a control character");
	ASSERT_ERROR(config, NULL, "server \"c\\u0085\": the name contains a control character");
	ASSERT_ERROR(config, NULL, "server \"d\\u0000e\": the name contains U+0000");
	ASSERT_ERROR(config, NULL, "server \"\\udc00\": the name contains U+0000 or half a surrogate pair");
	ASSERT_ERROR(config, NULL, "mmm...: the name is longer than 128 bytes");
	server_of(config, longest);
	server_of(config, " \xc3\xa9/\xf0\x9f\x98\x80 __");
	config_free(config);
}
END_TEST

START_TEST(the_daemons_settings)
{
	struct config *config = config_of(
		"{\"mcpd\": {\"logLevel\": \"warning\", \"idleExit\": 60000, \"limits\": {\"maxClients\": 1, \"maxMessageBytes\": 4096},"
		"\"environment\": {\"PATH\": \"${HOME}/bin:/usr/bin\", \"X\": \"\"}}}");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_str_eq(config->log_level, "warning");
	ck_assert_int_eq(config->limits.value[LIMIT_CLIENTS], 1);
	ck_assert_int_eq(config->limits.value[LIMIT_MESSAGE_BYTES], 4096);
	ck_assert_int_eq(config->limits.value[LIMIT_SERVERS], limit_table[LIMIT_SERVERS].def);
	assert_list(config->environment, "PATH=/home/me/bin:/usr/bin", "X=", NULL); /* R35 */
	ck_assert_int_eq(config->idle_exit_ms, 60000);
	config_free(config);
}
END_TEST

START_TEST(coming_and_going_all_the_time_is_not_on)
{
	struct config *config = config_of("{\"mcpd\": {\"idleExit\": 5}}");
	ASSERT_WARNING(config, NULL, "\"idleExit\": 5 is too little, 1000 is taken");
	ck_assert_int_eq(config->idle_exit_ms, 1000);
	config_free(config);
	config = config_of("{\"mcpd\": {\"idleExit\": 0}}");
	ck_assert_uint_eq(config->n_problems, 0);
	ck_assert_int_eq(config->idle_exit_ms, 0);
	config_free(config);
}
END_TEST

START_TEST(a_bad_setting_is_told_and_keeps_its_default)
{
	struct config *config = config_of(
		"{\"mcpd\": {\"logLevel\": \"loud\", \"limits\": {\"maxClients\": 0, \"logLines\": \"hunter2\", \"maxclient\": 5,"
		"\"zzz\": 1, \"historyEntries\": 4097, \"maxSubscriptionsPerClients\": 1}, \"environment\": {\"A\": 5, \"B\": \"${NOPE}\", \"C\": \"c\"},"
		"\"loglevel\": 1, \"other\": 1, \"idleExit\": -1}, \"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
	ASSERT_ERROR(config, NULL, "\"mcpd\": \"logLevel\": expected \"error\", \"warning\", \"info\" or \"debug\"");
	ASSERT_ERROR(config, NULL, "\"limits\": \"maxClients\": expected a whole number from 1 to 65536, found 0");
	ASSERT_ERROR(config, NULL, "\"limits\": \"logLines\": expected a whole number, found a string");
	ASSERT_ERROR(config, NULL,
		     "\"limits\": \"historyEntries\": expected a whole number from 4 to 4096, found 4097");
	ASSERT_ERROR(config, NULL, "\"environment\": \"A\": expected a string, found a number");
	ASSERT_ERROR(config, NULL, "\"environment\": \"B\": the variable NOPE is not set");
	ASSERT_WARNING(config, NULL, "\"limits\": \"maxclient\": unknown limit, ignored; is \"maxClients\" meant?");
	ASSERT_WARNING(config, NULL, "is \"maxSubscriptionsPerClient\" meant?");
	ASSERT_WARNING(config, NULL, "\"limits\": \"zzz\": unknown limit, ignored");
	ASSERT_WARNING(config, NULL, "\"loglevel\": unknown member, ignored; is \"logLevel\" meant?");
	ASSERT_WARNING(config, NULL, "\"mcpd\": \"other\": unknown member, ignored");
	ASSERT_ERROR(config, NULL,
		     "\"mcpd\": \"idleExit\": expected a whole number of milliseconds from 0 to 31536000000, found -1");
	ck_assert_ptr_null(config->log_level);
	ck_assert_int_eq(config->idle_exit_ms, CONFIG_UNSET);
	ck_assert_int_eq(config->limits.value[LIMIT_CLIENTS], limit_table[LIMIT_CLIENTS].def);
	ck_assert_int_eq(config->limits.value[LIMIT_LOG_LINES], limit_table[LIMIT_LOG_LINES].def);
	assert_list(config->environment, "C=c", NULL);
	ck_assert_ptr_null(server_of(config, "a")->error);
	config_free(config);
	static const char *const wrong[] = { "[]", "null", "{\"limits\": []}", "{\"environment\": \"PATH=x\"}",
					     "{\"logLevel\": 3}" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char text[256];
		snprintf(text, sizeof(text), "{\"mcpd\": %s, \"mcpServers\": {\"a\": {\"command\": \"x\"}}}", wrong[i]);
		config = config_of(text);
		ASSERT_ERROR(config, NULL, "\"mcpd\"");
		ck_assert_ptr_null(server_of(config, "a")->error);
		config_free(config);
	}
}
END_TEST

START_TEST(limits_that_contradict_each_other_are_warned_about)
{
	struct config *config = config_of("{\"mcpd\": {\"limits\": {\"clientQueueHardBytes\": 1048576}}}");
	ASSERT_WARNING(config, NULL, "the limit \"clientQueueSoftBytes\" is more than \"clientQueueHardBytes\"");
	ASSERT_WARNING(config, NULL, "the limit \"maxMessageBytes\" is more than \"clientQueueHardBytes\"");
	config_free(config);
}
END_TEST

START_TEST(unknown_top_level_members_are_told_together)
{
	struct config *config = config_of(
		"{\"servers\": {}, \"p1\": 1, \"p2\": 1, \"p3\": 1, \"p4\": 1, \"p5\": 1, \"p6\": 1, \"p7\": 1}");
	ck_assert_uint_eq(config->n_problems, 2);
	ASSERT_WARNING(config, NULL, "\"servers\": unknown member, ignored; is \"mcpServers\" meant?");
	ASSERT_WARNING(config, NULL, "unknown members, ignored: \"p1\", \"p2\", \"p3\", \"p4\", \"p5\" and 2 more");
	config_free(config);
}
END_TEST

START_TEST(max_servers_is_a_limit)
{
	struct config *config =
		config_of("{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"b\": {\"command\": \"x\"}, \"c\": {}},"
			  "\"mcpd\": {\"limits\": {\"maxServers\": 1}}}");
	ck_assert_uint_eq(config->n_servers, 1);
	ck_assert_str_eq(config->servers[0]->name, "a");
	ASSERT_ERROR(config, NULL,
		     "there are 3 servers and the limit \"maxServers\" is 1: \"b\" and what follows it is left out");
	config_free(config);
}
END_TEST

/* Many servers, names of one length. */
static char *many_servers(int n, const char *definition)
{
	char *text = malloc(64 + (size_t)n * (strlen(definition) + 16));
	char *at = text + sprintf(text, "{\"mcpd\": {\"limits\": {\"maxServers\": 4096}}, \"mcpServers\": {");
	for (int i = 0; i < n; i++)
		at += sprintf(at, "%s\"s%d\":%s", i ? "," : "", i, definition);
	strcpy(at, "}}");
	return text;
}

START_TEST(a_flood_of_servers_and_problems_is_bounded)
{
	char *text = many_servers(4200, "{\"a\":1,\"command\":5}");
	struct config *config = config_of(text);
	ck_assert_uint_eq(config->n_servers, 4096);
	ck_assert_uint_eq(config->n_problems, CONFIG_PROBLEMS_MAX + 1);
	/* Errors are kept with their servers also where the list is full. */
	ck_assert_str_eq(config->servers[4095]->error,
			 "\"command\": expected a string, found a number; write it in double quotes");
	ASSERT_ERROR(config, NULL, "more problems are not listed");
	config_free(config);
	free(text);
	text = many_servers(1100, "{\"a\":1,\"command\":\"x\"}");
	config = config_of(text);
	ASSERT_WARNING(config, NULL, "100 more problems are not listed");
	config_free(config);
	free(text);
}
END_TEST

/* Identity and fingerprint of the definition "s", with the daemon's environment. */
static void hashes(const char *definition, const char *daemon, char identity[33], char fingerprint[33])
{
	char text[1024];
	snprintf(text, sizeof(text), "{\"mcpd\": {\"environment\": {%s}}, \"mcpServers\": {\"s\": %s}}", daemon,
		 definition);
	struct config *config = config_of(text);
	strcpy(identity, config->servers[0]->identity);
	strcpy(fingerprint, config->servers[0]->fingerprint);
	ck_assert_uint_eq(strlen(identity), 32);
	ck_assert_uint_eq(strlen(fingerprint), 32);
	config_free(config);
}

static void assert_hashes(const char *a, const char *b, bool same_identity, bool same_fingerprint)
{
	char ia[33], fa[33], ib[33], fb[33];
	hashes(a, "", ia, fa);
	hashes(b, "", ib, fb);
	ck_assert_msg((strcmp(ia, ib) == 0) == same_identity, "identity of %s and %s", a, b);
	ck_assert_msg((strcmp(fa, fb) == 0) == same_fingerprint, "fingerprint of %s and %s", a, b);
}

START_TEST(m3_the_identity_is_what_defines_the_server)
{
	static const char stdio[] = "{\"command\": \"x\"}";
	static const char *const others[] = {
		"{\"command\": \"y\"}",
		"{\"command\": \"x\", \"args\": [\"\"]}",
		"{\"command\": \"x\", \"env\": {\"A\": \"\"}}",
		"{\"command\": \"x\", \"cwd\": \"/w\"}",
		"{\"type\": \"http\", \"url\": \"http://x\"}",
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_hashes(stdio, others[i], false, false);
	assert_hashes("{\"command\": \"x\", \"args\": [\"a\", \"b\"]}",
		      "{\"command\": \"x\", \"args\": [\"b\", \"a\"]}", false, false);
	assert_hashes("{\"command\": \"x\", \"args\": [\"a\", \"b\"]}", "{\"command\": \"x\", \"args\": [\"ab\"]}",
		      false, false);
	assert_hashes("{\"command\": \"x\", \"env\": {\"A\": \"1\"}}", "{\"command\": \"x\", \"env\": {\"A\": \"2\"}}",
		      false, false);
	/* What is expanded counts, not how it is written; the order of variables, and of members, means nothing. */
	assert_hashes("{\"command\": \"${NAME}\", \"type\": \"stdio\"}", "{\"type\": \"stdio\", \"command\": \"x\"}",
		      true, true);
	assert_hashes("{\"command\": \"x\", \"env\": {\"A\": \"1\", \"B\": \"2\"}}",
		      "{\"env\": {\"B\": \"2\", \"A\": \"1\"}, \"command\": \"x\"}", true, true);
	static const char http[] = "{\"type\": \"http\", \"url\": \"http://x\"}";
	assert_hashes(http, "{\"type\": \"sse\", \"url\": \"http://x\"}", false, false);
	assert_hashes(http, "{\"type\": \"http\", \"url\": \"http://x/\"}", false, false);
	assert_hashes(http, "{\"type\": \"http\", \"url\": \"http://x\", \"headers\": {\"A\": \"\"}}", false, false);
	assert_hashes(http, "{\"type\": \"http\", \"url\": \"http://x\", \"caFile\": \"/c\"}", false, false);
}
END_TEST

START_TEST(m3_the_fingerprint_is_everything)
{
	static const char *const members[] = {
		"\"timeout\": 5000",   "\"maxTimeout\": 3600001",    "\"connectTimeout\": 1",  "\"idleTimeout\": 1",
		"\"pingInterval\": 1", "\"stopGrace\": 1",           "\"enabled\": false",     "\"disabled\": true",
		"\"lazy\": true",      "\"sharing\": \"exclusive\"", "\"retrySafe\": [\"t\"]", "\"roots\": []",
	};
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		char other[128];
		snprintf(other, sizeof(other), "{\"command\": \"x\", %s}", members[i]);
		assert_hashes("{\"command\": \"x\"}", other, true, false);
	}
	assert_hashes("{\"type\": \"http\", \"url\": \"http://x\"}",
		      "{\"type\": \"http\", \"url\": \"http://x\", \"insecure\": true}", true, false);
	/* Notes and what is unknown change nothing. */
	assert_hashes("{\"command\": \"x\"}", "{\"command\": \"x\", \"description\": \"d\", \"unknown\": 1}", true,
		      true);
	/* An error that has come or gone is a change. */
	assert_hashes("{\"command\": \"x\"}", "{\"command\": \"x\", \"timeout\": null}", true, false);
	/* The daemon's environment is a change for the servers that get it; their caches outlive it. */
	char i0[33], f0[33], i1[33], f1[33];
	hashes("{\"command\": \"x\"}", "", i0, f0);
	hashes("{\"command\": \"x\"}", "\"PATH\": \"/b\"", i1, f1);
	ck_assert_str_eq(i0, i1);
	ck_assert_str_ne(f0, f1);
	hashes("{\"type\": \"http\", \"url\": \"http://x\"}", "", i0, f0);
	hashes("{\"type\": \"http\", \"url\": \"http://x\"}", "\"PATH\": \"/b\"", i1, f1);
	ck_assert_str_eq(f0, f1);
}
END_TEST

int main(void)
{
	return RUN_TESTS("config_load", r37_what_is_no_json_is_unusable_and_says_where,
			 nesting_has_a_limit_and_a_byte_order_mark_is_taken, an_empty_configuration_is_one,
			 doubled_names_are_warned_about_and_the_last_one_counts,
			 a_name_that_cannot_be_one_is_told_and_left_out, the_daemons_settings,
			 coming_and_going_all_the_time_is_not_on, a_bad_setting_is_told_and_keeps_its_default,
			 limits_that_contradict_each_other_are_warned_about,
			 unknown_top_level_members_are_told_together, max_servers_is_a_limit,
			 a_flood_of_servers_and_problems_is_bounded, m3_the_identity_is_what_defines_the_server,
			 m3_the_fingerprint_is_everything);
}

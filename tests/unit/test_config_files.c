/* config: files on disk, several of them, --check-config, what people are shown of a definition, and the README's table. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/config_mask.h"
#include "config/config_members.h"
#include "proto/json_scan.h"
#include "tests/unit/config_text.h"
#include "tests/unit/run.h"

/* A folder that is gone at the end of the test. */
static char folder[] = "/tmp/mcpd-config-XXXXXX";

static char *path_of(const char *name)
{
	char *path = NULL;
	ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
	return path;
}

static void setup(void)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
	static const char *const names[] = { "a.json", "b.json", "fifo", "dir" };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char *path = path_of(names[i]);
		remove(path);
		free(path);
	}
	ck_assert_int_eq(rmdir(folder), 0);
}

static char *write_file(const char *name, const char *text)
{
	char *path = path_of(name);
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
	return path;
}

/* Loads files that cannot be used; returns all messages, `FILE: MESSAGE` each on a line. */
static char *load_failure(const char *const *files, bool must_exist)
{
	struct config_problem *problems;
	size_t n;
	struct config *config = config_load(files, must_exist, config_environment, &problems, &n);
	ck_assert_ptr_null(config);
	ck_assert_uint_gt(n, 0);
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s: %s\n", problems[i].file, problems[i].message);
	fclose(out);
	config_problems_free(problems, n);
	return text;
}

static void assert_unreadable(char *path, const char *want)
{
	char *got = load_failure((const char *const[]){ path, NULL }, true), *line = NULL;
	ck_assert_int_gt(asprintf(&line, "%s: %s", path, want), 0);
	ck_assert_msg(strncmp(got, line, strlen(line)) == 0, "'%s', not '%s'", got, line);
	free(line);
	free(got);
	free(path);
}

START_TEST(r37_what_cannot_be_read_is_told_with_path_and_reason)
{
	assert_unreadable(path_of("missing.json"), "does not exist");
	char *dir = path_of("dir");
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	assert_unreadable(dir, "is a directory; name the file itself");
	char *fifo = path_of("fifo");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	assert_unreadable(fifo, "is no regular file");
	char *file = write_file("a.json", "{}");
	char *below = NULL;
	ck_assert_int_gt(asprintf(&below, "%s/x", file), 0);
	assert_unreadable(below, "cannot be read: Not a directory");
	free(file);
}
END_TEST

START_TEST(r37_a_file_without_permission_is_told)
{
	char *path = write_file("a.json", "{}");
	ck_assert_int_eq(chmod(path, 0), 0);
	bool root = geteuid() == 0;
	/* Root may read everything: somebody else asks. */
	ck_assert(!root || (chmod(folder, 0755) == 0 && seteuid(65534) == 0));
	assert_unreadable(path, "cannot be read: Permission denied; look at its owner and mode");
	ck_assert(!root || seteuid(0) == 0);
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused)
{
	char *path = write_file("a.json", "{}");
	ck_assert_int_eq(truncate(path, (off_t)CONFIG_FILE_MAX_BYTES + 1), 0);
	assert_unreadable(path, "is larger than 16 MiB");
	/* At the limit it is read: the zeros are what is wrong with it. */
	path = path_of("a.json");
	ck_assert_int_eq(truncate(path, (off_t)CONFIG_FILE_MAX_BYTES), 0);
	assert_unreadable(path, "line 1, column 3: something follows the value");
}
END_TEST

START_TEST(a_missing_file_that_need_not_exist_is_an_empty_configuration)
{
	char *path = path_of("missing.json");
	struct config_problem *problems;
	size_t n;
	struct config *config =
		config_load((const char *const[]){ path, NULL }, false, config_environment, &problems, &n);
	ck_assert_ptr_nonnull(config);
	ck_assert_uint_eq(config->n_servers, 0);
	ck_assert_uint_eq(config->n_problems, 0);
	assert_list(config->files, NULL);
	assert_list(config->missing_files, path, NULL);
	config_free(config);
	config = config_load((const char *const[]){ NULL }, true, config_environment, &problems, &n);
	ck_assert_uint_eq(config->n_servers, 0);
	config_free(config);
	free(path);
}
END_TEST

START_TEST(a_later_file_replaces_and_adds)
{
	char *a = write_file("a.json",
			     "{\"mcpServers\": {\"one\": {\"command\": \"1\"}, \"two\": {\"command\": \"2\"}},"
			     "\"mcpd\": {\"logLevel\": \"debug\", \"environment\": {\"A\": \"a\", \"AB\": \"ab\"},"
			     "\"limits\": {\"logLines\": 11, \"historyEntries\": 11}}}");
	char *b = write_file(
		"b.json", "{\"mcpServers\": {\"three\": {\"command\": \"3\"}, \"one\": {\"command\": \"4\"}},"
			  "\"mcpd\": {\"environment\": {\"A\": \"b\", \"C\": \"c\"}, \"limits\": {\"logLines\": 12}}}");
	struct config_problem *problems;
	size_t n;
	struct config *config =
		config_load((const char *const[]){ a, b, NULL }, true, config_environment, &problems, &n);
	assert_list(config->files, a, b, NULL);
	ck_assert_uint_eq(config->n_servers, 3);
	ck_assert_str_eq(config->servers[0]->name, "one");
	ck_assert_str_eq(config->servers[0]->command, "4");
	ck_assert_str_eq(config->servers[0]->source, b);
	ck_assert_str_eq(config->servers[1]->source, a);
	ck_assert_str_eq(config->servers[2]->name, "three");
	/* The warning names both files. */
	ck_assert_uint_eq(config->n_problems, 1);
	ASSERT_WARNING(config, "one", "replaces the server of the same name in ");
	ck_assert_ptr_nonnull(strstr(config->problems[0].message, a));
	ck_assert_str_eq(config->problems[0].file, b);
	ck_assert_str_eq(config->log_level, "debug");
	ck_assert_int_eq(config->limits.value[LIMIT_LOG_LINES], 12);
	ck_assert_int_eq(config->limits.value[LIMIT_HISTORY], 11);
	assert_list(config->environment, "A=b", "C=c", "AB=ab", NULL);
	config_free(config);
	free(a);
	free(b);
}
END_TEST

START_TEST(r37_one_broken_file_fails_the_load_and_all_that_is_wrong_is_told)
{
	char *a = write_file("a.json", "{\"mcpServers\": {\"one\": {\"command\": 1}}}");
	char *b = write_file("b.json", "{");
	char *missing = path_of("c.json");
	char *got = load_failure((const char *const[]){ b, missing, a, NULL }, true);
	ck_assert_ptr_nonnull(strstr(got, "b.json: line 1, column 2"));
	ck_assert_ptr_nonnull(strstr(got, "c.json: does not exist"));
	ck_assert_ptr_nonnull(strstr(got, "a.json: \"command\": expected a string"));
	free(got);
	free(missing);
	free(a);
	free(b);
}
END_TEST

START_TEST(a_relative_file_is_told_with_its_whole_path)
{
	free(write_file("a.json", "{}"));
	int here = open(".", O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(chdir(folder), 0);
	struct config_problem *problems;
	size_t n;
	struct config *config =
		config_load((const char *const[]){ "a.json", NULL }, true, config_environment, &problems, &n);
	char *want = path_of("a.json");
	assert_list(config->files, want, NULL);
	free(want);
	config_free(config);
	ck_assert_int_eq(fchdir(here), 0);
	close(here);
}
END_TEST

START_TEST(the_default_file_follows_the_xdg_specification)
{
	static const struct {
		const char *xdg, *home, *want;
	} cases[] = {
		{ "/x", "/h", "/x/mcpd/mcp.json" },
		{ NULL, "/h", "/h/.config/mcpd/mcp.json" },
		{ "", "/h", "/h/.config/mcpd/mcp.json" },
		{ "relative", "/h", "/h/.config/mcpd/mcp.json" },
		{ NULL, NULL, NULL },
		{ NULL, "relative", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		unsetenv("XDG_CONFIG_HOME");
		unsetenv("HOME");
		if (cases[i].xdg)
			setenv("XDG_CONFIG_HOME", cases[i].xdg, 1);
		if (cases[i].home)
			setenv("HOME", cases[i].home, 1);
		char *got;
		ck_assert_int_eq(config_default_file(&got), cases[i].want ? 0 : -ENOENT);
		ck_assert_pstr_eq(got, cases[i].want);
		free(got);
	}
}
END_TEST

static char *check(const char *const *files, bool must_exist, int want)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	ck_assert_int_eq(config_check(files, must_exist, out), want);
	fclose(out);
	return text;
}

START_TEST(check_config_prints_every_problem_and_a_summary)
{
	char *a = write_file(
		"a.json",
		"{\"mcpServers\": {\"bad\": {\"command\": 1, \"comand\": \"x\"}, \"off\": {\"command\": \"x\", "
		"\"disabled\": true}}}");
	char *got = check((const char *const[]){ a, NULL }, true, 1), *want = NULL;
	ck_assert_int_gt(
		asprintf(&want,
			 "%s: server bad: \"command\": expected a string, found a number; write it in double quotes\n"
			 "%s: server bad: warning: \"comand\": unknown member, ignored; is \"command\" meant?\n"
			 "2 servers, 1 of them unusable, 1 disabled; 1 error, 1 warning\n",
			 a, a),
		0);
	ck_assert_str_eq(got, want);
	free(got);
	free(want);
	free(write_file("a.json", "{\"mcpServers\": {\"one\": {\"command\": \"x\", \"extra\": 1}}}"));
	got = check((const char *const[]){ a, NULL }, true, 0);
	ck_assert_ptr_nonnull(strstr(got, "\n1 server; 0 errors, 1 warning\n"));
	free(got);
	free(write_file("a.json", "{"));
	got = check((const char *const[]){ a, NULL }, true, 1);
	ck_assert_ptr_nonnull(strstr(got, "\nnot usable; 1 error, 0 warnings\n"));
	free(got);
	remove(a);
	got = check((const char *const[]){ a, NULL }, false, 0);
	ck_assert_ptr_nonnull(strstr(got, "no configuration file ("));
	free(got);
	got = check((const char *const[]){ a, NULL }, true, 1);
	ck_assert_ptr_nonnull(strstr(got, "a.json: does not exist\n"));
	free(got);
	free(a);
}
END_TEST

START_TEST(check_config_keeps_a_problem_on_one_line)
{
	char *a = write_file("a.json",
			     "{\"mcpServers\": {\"s\": {\"type\": \"x\\n\\u001b[31m\", \"url\": \"http://h\"}}}");
	char *got = check((const char *const[]){ a, NULL }, true, 1);
	ck_assert_ptr_nonnull(strstr(got, "Unknown server type: x  [31m\n"));
	free(got);
	free(a);
}
END_TEST

START_TEST(what_is_shown_of_a_definition_holds_no_secret)
{
	struct config *config = config_of(
		"{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"--api-key\", \"hunter2\", \"--token=hunter2\", \"${TOKEN}\", \"-v\"],"
		"\"env\": {\"K\": \"hunter2\"}, \"cwd\": \"~/w\", \"roots\": [\"/r\"], \"description\": \"d\", \"retrySafe\": [\"t\"]},"
		"\"b\": {\"type\": \"http\", \"url\": \"https://me:hunter2@h/${TOKEN}/p?key=hunter2#f\","
		"\"headers\": {\"Authorization\": \"hunter2\"}}, \"bad\": {\"command\": \"x\", \"args\": [\"--token\", 5], \"env\": {\"A\": 1}}}}");
	char *json = server_config_json(server_of(config, "a"));
	ck_assert_str_eq(
		json,
		"{\"type\":\"stdio\",\"command\":\"x\",\"args\":[\"--api-key\",\"***\",\"--token=***\",\"${TOKEN}\",\"-v\"],"
		"\"env\":{\"K\":\"***\"},\"cwd\":\"~/w\",\"roots\":[{\"uri\":\"file:///r\"}],\"description\":\"d\","
		"\"retrySafe\":[\"t\"],\"timeout\":30000,\"maxTimeout\":3600000,\"connectTimeout\":120000,"
		"\"idleTimeout\":0,\"pingInterval\":0,\"stopGrace\":2000,\"enabled\":true,\"lazy\":false,"
		"\"sharing\":\"shared\"}");
	free(json);
	ck_assert_str_eq(server_of(config, "b")->url_shown, "https://***@h/${TOKEN}/p?***");
	for (size_t i = 0; i < config->n_servers; i++) {
		struct server_config *copy = server_config_copy(config->servers[i]);
		json = server_config_json(copy);
		ck_assert_int_eq(json_check(span_of(json), NULL), 0);
		ck_assert_ptr_null(strstr(json, "hunter2"));
		ck_assert_ptr_null(strstr(json, "s3cret"));
		free(json);
		server_config_free(copy);
	}
	config_free(config);
}
END_TEST

START_TEST(arguments_that_look_like_secrets_are_masked)
{
	static const struct {
		const char *before, *argument, *want;
	} cases[] = {
		{ NULL, "plain", "plain" },
		{ NULL, "", "" },
		{ "--port", "80", "80" },
		{ "--api-key", "x", "***" },
		{ "--api-key", "--verbose", "--verbose" },
		{ "--api-key=a", "x", "x" },
		{ "API_KEY", "x", "x" },
		{ "-t", "--secret=x=y", "--secret=***" },
		{ "-e", "GITHUB_TOKEN=x", "GITHUB_TOKEN=***" },
		{ "-e", "LANG=C", "LANG=C" },
		{ "--header", "X-Id: x", "X-Id:***" },
		{ "-H", "X-Id: x", "X-Id:***" },
		{ "-h", "x", "x" },
		{ NULL, "Authorization: Bearer x", "Authorization:***" },
		{ "--db", "postgres://me:pw@h/db?sslmode=x", "postgres://***@h/db?***" },
		{ NULL, "https://h/path", "https://h/path" },
		{ NULL, "--url=https://me:pw@h/", "--url=https://***@h/" },
		{ NULL, "https://h/p#token", "https://h/p" },
		{ NULL, "http://h/a@b?c", "http://h/a@b?***" },
		{ NULL, "ghp_x", "***" },
		{ NULL, "${API_KEY:-x}", "${API_KEY:-x}" },
		{ "--key", "${API_KEY:-x}", "***" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buf got = BUF_INIT;
		mask_argument(&got, cases[i].before, cases[i].argument);
		ck_assert_str_eq(buf_span(&got).ptr, cases[i].want);
		buf_done(&got);
	}
}
END_TEST

static char *table_text(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	config_print_table(out);
	fclose(out);
	return text;
}

/* How often `part` is in text. */
static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;
	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

START_TEST(the_table_lists_every_member_and_limit_once)
{
	char *text = table_text();
	const struct member_table *tables[] = { &config_file_members, &config_server_members, &config_daemon_members };
	for (size_t t = 0; t < 3; t++) {
		for (size_t i = 0; i < tables[t]->n; i++) {
			char row[64];
			snprintf(row, sizeof(row), "\n| `%s` | ", tables[t]->members[i].key);
			ck_assert_msg(count(text, row) == 1, "%s", row);
			ck_assert_ptr_null(strchr(tables[t]->members[i].what, '|'));
			ck_assert_ptr_eq(member_find(tables[t], tables[t]->members[i].key), &tables[t]->members[i]);
		}
	}
	for (int i = 0; i < LIMIT_COUNT; i++) {
		char row[64];
		snprintf(row, sizeof(row), "\n| `%s` | %lld ", limit_table[i].key, (long long)limit_table[i].def);
		ck_assert_msg(count(text, row) == 1, "%s", row);
	}
	free(text);
}
END_TEST

static char *read_readme(void)
{
	FILE *file = fopen(MCPD_README, "r");
	if (!file)
		return NULL;
	char *text = NULL;
	size_t len = 0;
	ck_assert_int_ge(getdelim(&text, &len, '\0', file), 0);
	fclose(file);
	return text;
}

/* Where in the README which table stands, and what is said around it, is free; the tables themselves are not. */
START_TEST(the_readme_has_the_same_tables)
{
	char *readme = read_readme();
	ck_assert_msg(readme, "%s is missing", MCPD_README);
	char *text = table_text();
	unsigned tables = 0;
	for (char *part = text; part;) {
		char *end = strstr(part, "\n\n");
		if (end)
			*end = '\0';
		if (part[0] == '|') {
			tables++;
			ck_assert_msg(strstr(readme, part),
				      "README.md lacks this table (mcpd --print-config-table prints them all):\n%s",
				      part);
		}
		part = end ? end + 2 : NULL;
	}
	ck_assert_uint_eq(tables, 4);
	free(text);
	free(readme);
}
END_TEST

int main(void)
{
	static const TTest *const *const tests[] = {
		&r37_what_cannot_be_read_is_told_with_path_and_reason,
		&r37_a_file_without_permission_is_told,
		&a_file_that_is_too_large_is_refused,
		&a_missing_file_that_need_not_exist_is_an_empty_configuration,
		&a_later_file_replaces_and_adds,
		&r37_one_broken_file_fails_the_load_and_all_that_is_wrong_is_told,
		&a_relative_file_is_told_with_its_whole_path,
		&the_default_file_follows_the_xdg_specification,
		&check_config_prints_every_problem_and_a_summary,
		&check_config_keeps_a_problem_on_one_line,
		&what_is_shown_of_a_definition_holds_no_secret,
		&arguments_that_look_like_secrets_are_masked,
		&the_table_lists_every_member_and_limit_once,
		&the_readme_has_the_same_tables,
	};
	Suite *suite = suite_create("config_files");
	TCase *tc = tcase_create("config_files");
	tcase_set_timeout(tc, RUN_TIMEOUT_SECONDS);
	tcase_add_checked_fixture(tc, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		tcase_add_test(tc, *tests[i]);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}

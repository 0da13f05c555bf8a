/* The configuration with every allocation failed once: a load fails as a whole and says why, and nothing is lost or shown (config/config_memory.h). */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "config/config.h"
#include "config/config_mask.h"
#include "config/expand.h"
#include "config/redact.h"
#include "run.h"

static const char *const environment[] = { "HOME=/home/me", "TOKEN=s3cret-token", "EMPTY=", "NAME=x", NULL };

/* Every member there is, in one that is good; and what can be wrong with them, in others. */
static const char first_file[] =
	"{\"$schema\": \"x\", \"mcpServer\": 1, \"theme\": {}, \"fonts\": [], \"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1,"
	" \"mcpd\": {\"logLevel\": \"debug\", \"logLevel\": \"${EMPTY:-info}\", \"idleExit\": 5, \"loglevel\": 1, \"bad\": 1,"
	"  \"environment\": {\"PATH\": \"/bin:${HOME}\", \"A_TOKEN\": \"written\", \"B\": \"b\", \"=\": \"x\"},"
	"  \"limits\": {\"maxServers\": 8, \"maxClient\": 5, \"nothing\": 1, \"maxCalls\": \"x\"}},"
	" \"mcpServers\": {"
	"  \"stdio\": {\"command\": \"~/bin/tool\", \"args\": [\"--token\", \"${TOKEN}\", \"http://me:pw@h/?key=k\", \"$${x\"],"
	"   \"env\": {\"API_KEY\": \"${TOKEN}\", \"PLAIN\": \"caf\\u00e9\", \"ID\": \"${env:NAME}\"}, \"cwd\": \"~\","
	"   \"timeout\": 30, \"maxTimeout\": 20, \"connectTimeout\": 1000, \"idleTimeout\": 5, \"pingInterval\": 5,"
	"   \"stopGrace\": 100, \"memoryMax\": \"512M\", \"enabled\": true, \"disabled\": false, \"lazy\": true,"
	"   \"sharing\": \"exclusive\", \"retrySafe\": [\"one\", \"two\", \"three\"], \"description\": \"words\","
	"   \"tools\": {\"allow\": [\"a*\", \"b\"], \"deny\": [\"ab\"], \"other\": 1},"
	"   \"roots\": [\"~/w\", \"file:///x\", {\"uri\": \"/a b\", \"name\": \"n\"}, {\"name\": \"n\"}, 5, {\"x\": 1, \"uri\": \"rel\"}]},"
	"  \"http\": {\"type\": \"http\", \"url\": \"https://me:${TOKEN}@host/p?api_key=written\", \"insecure\": true,"
	"   \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\", \"X-A\": \"1\", \"x-a\": \"2\", \"Accept\": \"x\", \"a b\": \"x\"},"
	"   \"caFile\": \"~/ca.pem\", \"cmd\": \"x\", \"args\": []},"
	"  \"sse\": {\"type\": \"sse\", \"url\": \"http://h/${NOT_SET}\", \"caFile\": \"relative\"},"
	"  \"relative\": {\"command\": \"./run\", \"cwd\": \"/srv\"}, \"here\": {\"command\": \"bin/run\"},"
	"  \"type\": {\"type\": \"streamable\", \"url\": \"http://h/\"}, \"both\": {\"command\": \"x\", \"url\": \"http://h/\"},"
	"  \"neither\": {\"sharing\": \"no\", \"memoryMax\": \"much\", \"timeout\": -1, \"lazy\": \"true\", \"env\": {\"PORT\": 80}},"
	"  \"list\": [], \"pair\": {\"command\": \"\\ud800\"}, \"\\u0000\": {}, \"\": {}, \"blank\": {\"command\": \" ${EMPTY}\"},"
	"  \"form\": {\"command\": \"${\", \"args\": {}}, \"many\": {\"command\": \"x\"}, \"more\": {\"command\": \"x\"}}}";
static const char second_file[] =
	"\xef\xbb\xbf{\"mcpd\": {\"environment\": {\"B\": \"other\", \"C\": \"c\"}, \"limits\": {\"maxMessageBytes\": 134217728}},"
	" \"mcpServers\": {\"stdio\": {\"command\": \"again\"}, \"new\": {\"command\": \"x\", \"roots\": [\"/w\", {\"uri\": \"~/x\", \"name\": \"n\"}]},"
	"  \"web\": {\"type\": \"http\", \"url\": \"https://h/\", \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\", \"X-A\": \"1\"}},"
	"  \"words\": {\"type\": 5, \"command\": \"a b\"}}}";
static const char broken_file[] = "{\"mcpServers\": {\"a\": {},}}";

static char directory[] = "/tmp/mcpd-config-alloc-XXXXXX";
static char paths[4][sizeof(directory) + 16];

static void write_file(size_t i, const char *name, const char *text, size_t len)
{
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", directory, name);
	if (!text)
		return;
	FILE *file = fopen(paths[i], "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(text, 1, len, file), len);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(chmod(paths[i], 0644), 0);
}

static void make_files(void)
{
	ck_assert_ptr_nonnull(mkdtemp(directory));
	ck_assert_int_eq(chdir(directory), 0);
	write_file(0, "first.json", first_file, strlen(first_file));
	write_file(1, "second.json", second_file, strlen(second_file));
	write_file(2, "missing.json", NULL, 0);
	write_file(3, "broken.json", broken_file, strlen(broken_file));
}

static void remove_files(void)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		unlink(paths[i]);
	rmdir(directory);
}

/* A load, and what came of it. */
struct load {
	struct config *config;
	struct config_problem *problems;
	size_t n_problems;
	bool failed; /* the allocation that was to */
	unsigned n_allocations;
	long live;
};

/* So many allocations may fail without the load; see fail_each(). */
#define SPARED_MAX 4

typedef void load_fn(struct load *ret);

static void load_watched(load_fn *fn, unsigned nth, struct load *ret)
{
	*ret = (struct load){ .config = NULL };
	alloc_watch(nth);
	fn(ret);
	ret->failed = alloc_done(&ret->live);
	ret->n_allocations = alloc_count();
}

/* Everything is freed again. */
static void free_load(struct load *load)
{
	long freed;
	alloc_watch(0);
	config_problems_free(load->problems, load->n_problems);
	config_free(load->config);
	alloc_done(&freed);
	ck_assert_int_eq(load->live + freed, 0);
}

static void assert_out_of_memory(const struct load *load)
{
	ck_assert_ptr_null(load->config);
	ck_assert_uint_eq(load->n_problems, 1);
	ck_assert_str_eq(load->problems[0].message, "out of memory");
	ck_assert_ptr_nonnull(load->problems[0].file);
	ck_assert_ptr_null(load->problems[0].server);
	ck_assert(!load->problems[0].warning);
}

static void assert_same_problems(const struct config_problem *a, size_t n_a, const struct config_problem *b, size_t n_b)
{
	ck_assert_uint_eq(n_a, n_b);
	for (size_t i = 0; i < n_a; i++) {
		ck_assert_str_eq(a[i].message, b[i].message);
		ck_assert_int_eq(a[i].warning, b[i].warning);
	}
}

static void assert_same(const struct load *a, const struct load *b)
{
	assert_same_problems(a->problems, a->n_problems, b->problems, b->n_problems);
	ck_assert_int_eq(!a->config, !b->config);
	if (!a->config)
		return;
	assert_same_problems(a->config->problems, a->config->n_problems, b->config->problems, b->config->n_problems);
	ck_assert_uint_eq(a->config->n_servers, b->config->n_servers);
	for (size_t i = 0; i < a->config->n_servers; i++)
		ck_assert_str_eq(a->config->servers[i]->fingerprint, b->config->servers[i]->fingerprint);
}

/* Fails each allocation from the first one on. Each time the load as a whole fails, or what comes of it is what always does: the memory was
 * for something that is not looked at in the end, such as the beginning of a string that turns out to be wrong. */
static void fail_each(load_fn *fn, unsigned first, unsigned least)
{
	struct load whole, load;
	load_watched(fn, 0, &whole);
	ck_assert_uint_ge(whole.n_allocations, least);
	unsigned spared = 0;
	for (unsigned nth = first;; nth++) {
		load_watched(fn, nth, &load);
		if (!load.failed)
			break;
		bool same = load.n_problems != 1 || strcmp(load.problems[0].message, "out of memory") != 0;
		if (same)
			assert_same(&load, &whole);
		else
			assert_out_of_memory(&load);
		spared += same;
		free_load(&load);
	}
	ck_assert_uint_le(spared, SPARED_MAX);
	ck_assert_uint_eq(load.n_allocations, whole.n_allocations);
	assert_same(&load, &whole);
	free_load(&load);
	free_load(&whole);
}

static void load_good(struct load *ret)
{
	const char *const files[] = { paths[0], "second.json", paths[2], NULL };
	ret->config = config_load(files, false, environment, &ret->problems, &ret->n_problems);
}

START_TEST(every_allocation_of_a_load)
{
	struct load load;
	load_watched(load_good, 0, &load);
	ck_assert_ptr_nonnull(load.config);
	ck_assert_uint_eq(load.config->n_servers, 8);
	ck_assert_ptr_null(load.config->servers[0]->error);
	ck_assert_uint_ge(load.config->n_problems, 40);
	free_load(&load);
	fail_each(load_good, 1, 800);
}
END_TEST

static void load_broken(struct load *ret)
{
	const char *const files[] = { paths[3], paths[0], NULL };
	ret->config = config_load(files, false, environment, &ret->problems, &ret->n_problems);
}

static void load_missing(struct load *ret)
{
	const char *const files[] = { paths[2], NULL };
	ret->config = config_load(files, true, environment, &ret->problems, &ret->n_problems);
}

static void load_nothing(struct load *ret)
{
	ret->config = config_load((const char *const[]){ NULL }, false, environment, &ret->problems, &ret->n_problems);
}

START_TEST(every_allocation_of_a_load_that_is_of_no_use)
{
	fail_each(load_broken, 1, 800);
	fail_each(load_missing, 1, 8);
	fail_each(load_nothing, 1, 4);
}
END_TEST

/* More problems than are listed: the last line, and the error that is noted without one. */
static char too_many[40 * CONFIG_PROBLEMS_MAX];

static void load_too_many(struct load *ret)
{
	ret->config = config_parse(span_of(too_many), "/f", environment, &ret->problems, &ret->n_problems);
}

START_TEST(the_end_of_a_list_that_is_full)
{
	size_t len = (size_t)sprintf(too_many, "{\"mcpServers\":{\"a\":{\"command\":\"x\"");
	for (int i = 0; i < CONFIG_PROBLEMS_MAX; i++)
		len += (size_t)sprintf(too_many + len, ",\"unknown-member-%d\":1", i);
	sprintf(too_many + len, "},\"b\":{},\"c\":{\"command\":5}}}");
	struct load whole;
	load_watched(load_too_many, 0, &whole);
	ck_assert_uint_eq(whole.config->n_problems, CONFIG_PROBLEMS_MAX + 1);
	ck_assert_ptr_nonnull(whole.config->servers[1]->error);
	fail_each(load_too_many, whole.n_allocations - 60, 1000);
	free_load(&whole);
}
END_TEST

/* What --check-config prints. */
static bool check_watched(unsigned nth, char *text, size_t size)
{
	const char *const files[] = { paths[0], NULL };
	long live;
	FILE *out = fmemopen(text, size, "w");
	ck_assert_ptr_nonnull(out);
	alloc_watch(nth);
	int status = config_check(files, true, out);
	bool failed = alloc_done(&live);
	fclose(out);
	ck_assert_int_eq(live, 0);
	ck_assert_int_eq(status, 1);
	return failed;
}

START_TEST(a_file_that_is_checked)
{
	static char whole[16384], text[16384];
	static const char no_memory[] = "the configuration: out of memory\nnot usable; 1 error, 0 warnings\n";
	check_watched(0, whole, sizeof(whole));
	ck_assert_ptr_nonnull(strstr(whole, ": server here: warning: "));
	for (unsigned nth = 1; check_watched(nth, text, sizeof(text)); nth++)
		ck_assert(strcmp(text, no_memory) == 0 || strcmp(text, whole) == 0);
	ck_assert(strcmp(text, whole) == 0);
}
END_TEST

START_TEST(every_allocation_of_a_copy)
{
	struct load whole;
	load_watched(load_good, 0, &whole);
	const struct server_config *sc = config_find(whole.config, "http");
	char *shown = server_config_json(sc);
	for (unsigned nth = 1;; nth++) {
		long live;
		alloc_watch(nth);
		struct server_config *copy = server_config_copy(sc);
		char *copy_shown = copy ? server_config_json(copy) : NULL;
		server_config_free(copy);
		bool failed = alloc_done(&live);
		ck_assert_int_eq(live, copy_shown ? 1 : 0);
		ck_assert_int_eq(!copy_shown, failed);
		if (copy_shown)
			ck_assert_str_eq(copy_shown, shown);
		free(copy_shown);
		if (!failed) {
			ck_assert_uint_ge(nth, 20);
			break;
		}
	}
	/* And what was copied from is as it was. */
	char *again = server_config_json(sc);
	ck_assert_str_eq(again, shown);
	free(again);
	free(shown);
	free_load(&whole);
}
END_TEST

/* A redactor that does not know everything hides everything. */
static void redact_without_memory(const struct server_config *sc, const char *text, const char *want)
{
	for (unsigned nth = 1;; nth++) {
		struct buf room = BUF_INIT;
		long live;
		alloc_watch(nth);
		struct redactor *r = redactor_new(sc, (const char *const *)sc->env);
		struct span shown = redact(r, span_of(text), &room);
		bool failed = alloc_done(&live);
		ck_assert_msg(span_is(shown, failed ? MASK_TEXT : want), "%u: %.*s", nth, (int)shown.len, shown.ptr);
		alloc_watch(0);
		buf_done(&room);
		redactor_free(r);
		long freed;
		alloc_done(&freed);
		ck_assert_int_eq(live + freed, 0);
		if (!failed) {
			ck_assert_uint_ge(nth, 5);
			break;
		}
	}
}

START_TEST(nothing_secret_is_shown_for_want_of_memory)
{
	struct load whole;
	struct config_problem *problems;
	size_t n;
	struct config *config = config_parse(
		SPAN_LIT(
			"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":[\"--token\",\"argument1\",\"http://u:password1@h/\"],"
			"\"env\":{\"A_KEY\":\"variable1\",\"DB\":\"pg://u:password2@h/\"}}}}"),
		"/f", environment, &problems, &n);
	ck_assert_ptr_nonnull(config);
	redact_without_memory(config->servers[0], "argument1 password1 variable1 password2 plain",
			      "*** *** *** *** plain");
	config_free(config);
	load_watched(load_good, 0, &whole);
	redact_without_memory(config_find(whole.config, "http"), "s3cret-token: bWU6czNjcmV0LXRva2Vu", "***: ***");
	free_load(&whole);
}
END_TEST

START_TEST(every_allocation_of_an_expansion)
{
	static char too_long[EXPAND_MAX_BYTES + 2];
	memset(too_long, 'x', sizeof(too_long) - 1);
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ too_long, NULL },
		{ "a ${TOKEN} ${EMPTY:-b} $${c}", "a s3cret-token b ${c}" },
		{ "a ${NOT_SET}", NULL },
		{ "a ${", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (unsigned nth = 1;; nth++) {
			long live;
			char *error;
			alloc_watch(nth);
			char *got = expand(cases[i].text, environment, &error);
			bool failed = alloc_done(&live);
			ck_assert_int_eq(live, (got != NULL) + (error != NULL));
			ck_assert_pstr_eq(got, failed ? NULL : cases[i].want);
			/* An error that was found counts, whatever became of the text in front of it. */
			ck_assert(cases[i].want ? !error : failed || error);
			free(got);
			free(error);
			if (!failed)
				break;
		}
	}
}
END_TEST

START_TEST(the_default_file)
{
	static const char *const names[] = { "XDG_CONFIG_HOME", "HOME" };
	unsetenv("XDG_CONFIG_HOME");
	for (size_t i = 0; i < 2; i++) {
		char *path = NULL;
		long live;
		setenv(names[1 - i], "/x", 1);
		alloc_watch(1);
		int error = config_default_file(&path);
		ck_assert(alloc_done(&live));
		ck_assert_int_eq(error, -ENOMEM);
		ck_assert_ptr_null(path);
		ck_assert_int_eq(live, 0);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { every_allocation_of_a_load,
				       every_allocation_of_a_load_that_is_of_no_use,
				       the_end_of_a_list_that_is_full,
				       a_file_that_is_checked,
				       every_allocation_of_a_copy,
				       nothing_secret_is_shown_for_want_of_memory,
				       every_allocation_of_an_expansion,
				       the_default_file,
				       NULL };
	return run_tests_with("config_alloc", tests, make_files, remove_files);
}

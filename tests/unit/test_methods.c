/* The table of control methods, what is made from it, and where the socket is. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_writer.h"
#include "proto/json_scan.h"
#include "proto/limits.h"
#include "proto/methods.h"
#include "proto/socket_path.h"
#include "run.h"

START_TEST(methods_and_topics_are_found_by_their_decoded_names)
{
	for (int i = 0; i < METHOD_COUNT; i++) {
		char name[64];
		ck_assert_ptr_nonnull(method_table[i].name);
		snprintf(name, sizeof name, "\"%s\"", method_table[i].name);
		ck_assert_int_eq(method_find(span_of(name)), i);
	}
	ck_assert_int_eq(method_find(SPAN_LIT("\"tools\\/c\\u0061ll\"")), METHOD_TOOLS_CALL);
	ck_assert_int_eq(method_find(SPAN_LIT("\"tools/call2\"")), METHOD_COUNT);
	ck_assert_int_eq(method_find(SPAN_LIT("7")), METHOD_COUNT);
	ck_assert_int_eq(topic_find(SPAN_LIT("\"logs\"")), TOPIC_LOGS);
	ck_assert_int_eq(topic_find(SPAN_LIT("\"log\"")), TOPIC_COUNT);
}
END_TEST

static int check(enum control_method method, const char *params, struct buf *problem)
{
	char line[1024];
	struct jsonrpc_message m;
	snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"%s%s}", params ? ",\"params\":" : "",
		 params ? params : "");
	ck_assert_int_eq(jsonrpc_parse(span_of(line), &m, NULL), 0);
	buf_reset(problem);
	return method_check_params(method, &m, problem);
}

START_TEST(the_table_knows_how_parameters_were_scanned)
{
	struct buf problem = BUF_INIT;
	/* A parameter that the parser notes and one that is searched for: both are found, typed and counted. */
	ck_assert_int_eq(check(METHOD_TOOLS_CALL,
			       "{\"server\":\"s\",\"name\":\"n\",\"arguments\":{},\"_meta\":{},\"timeoutMs\":0}",
			       &problem),
			 0);
	for (int i = 0; i < METHOD_COUNT; i++) {
		const struct method_param *param = method_table[i].params;
		for (; param->name; param++) {
			char params[256];
			snprintf(params, sizeof params,
				 "{\"server\":\"s\",\"name\":\"n\",\"method\":\"m\",\"topics\":[\"logs\"],\"%s\":true}",
				 param->name);
			ck_assert_msg(check((enum control_method)i, params, &problem) == -EINVAL, "%s: %s takes true",
				      method_table[i].name, param->name);
			ck_assert_ptr_nonnull(strstr(problem.data, param->name));
		}
	}
	ck_assert_int_eq(check(METHOD_SERVERS_LIST, NULL, &problem), 0);
	ck_assert_int_eq(check(METHOD_SERVERS_LIST, "{\"anything\":[1]}", &problem), 0);
	ck_assert_int_eq(check(METHOD_TOOLS_LIST, "{\"waitMs\":1,\"waitM\\u0073\":2}", &problem), -EINVAL);
	ck_assert_str_eq(problem.data, "`waitMs` occurs twice");
	ck_assert_int_eq(check(METHOD_TOOLS_LIST, "{\"waitMs\":9007199254740992}", &problem), -EINVAL);
	ck_assert_int_eq(check(METHOD_TOOLS_LIST, "{\"waitMs\":1e3}", &problem), 0);
	buf_done(&problem);
}
END_TEST

START_TEST(the_openrpc_document_is_made_from_the_table)
{
	struct buf out = BUF_INIT;
	struct json_error error;
	openrpc_write(&out, "1.2.3");
	ck_assert(!buf_failed(&out));
	ck_assert_ptr_null(strchr(out.data, '\n'));
	ck_assert_msg(json_check(buf_span(&out), &error) == 0, "%s at %zu", error.reason, error.offset);
	ck_assert(json_string_is(json_path(buf_span(&out), "info", "version", NULL), "1.2.3"));
	struct json_iter it;
	struct span method;
	int n = 0;
	json_iter_init(&it, json_member(buf_span(&out), "methods"));
	while (json_iter_element(&it, &method)) {
		ck_assert(json_string_is(json_member(method, "name"), method_table[n].name));
		ck_assert_int_eq(json_type_of(json_path(method, "result", "schema", NULL)),
				 method_table[n].errors & ERRORS_CALL ? JSON_BOOL : JSON_OBJECT);
		n++;
	}
	ck_assert_int_eq(n, METHOD_COUNT);
	/* Whatever is referred to is there. */
	static const char mark[] = "#/components/schemas/";
	for (const char *at = out.data; (at = strstr(at, mark)); at++) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at + sizeof mark - 1, "\""), at + sizeof mark - 1);
		ck_assert_msg(json_path(buf_span(&out), "components", "schemas", name, NULL).ptr,
			      "there is no schema %s", name);
	}
	for (int i = 0; i < LIMIT_COUNT; i++)
		ck_assert(json_path(buf_span(&out), "components", "schemas", "Limits", "properties", limit_table[i].key,
				    NULL)
				  .ptr);
	/* Memory short at any place is told by the buffer, and nothing else happens. */
	struct buf small;
	for (size_t max = 1; max < out.len; max += 97) {
		buf_init(&small, max);
		openrpc_write(&small, "1.2.3");
		ck_assert(buf_failed(&small));
		buf_done(&small);
	}
	buf_done(&out);
}
END_TEST

static void write_document(struct buf *out)
{
	openrpc_write(out, "1.2.3");
}

/* What is wrong with parameters, in every way. */
static void write_problems(struct buf *out)
{
	static const struct {
		enum control_method method;
		const char *request;
	} wrong[] = {
#define WRONG(params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{" params "}}"
		{ METHOD_TOOLS_CALL, WRONG("\"server\":1") },
		{ METHOD_TOOLS_CALL, WRONG("\"server\":\"s\",\"server\":\"s\"") },
		{ METHOD_TOOLS_CALL, WRONG("\"server\":\"s\",\"name\":\"n\",\"timeoutMs\":-1") },
		{ METHOD_TOOLS_CALL, WRONG("\"server\":\"s\",\"name\":\"n\",\"arguments\":[]") },
		{ METHOD_TOOLS_CALL, WRONG("") },
		{ METHOD_EVENTS_SUBSCRIBE, WRONG("\"topics\":[\"x\"]") },
		{ METHOD_EVENTS_SUBSCRIBE, WRONG("\"topics\":1") },
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct jsonrpc_message m;
		if (jsonrpc_parse(span_of(wrong[i].request), &m, NULL) < 0 ||
		    method_check_params(wrong[i].method, &m, out) != -EINVAL)
			abort(); /* ck_assert() would allocate */
	}
}

START_TEST(every_allocation_that_fails_is_reported)
{
	fail_each_of_writer(write_document, 10);
	fail_each_of_writer(write_problems, 2);
}
END_TEST

/* --- the socket's path --- */

static char *path, *problem;

static int find_path(const char *option, const char *const *environment)
{
	free(path);
	free(problem);
	int r = socket_path_find(option, environment, &path, &problem);
	ck_assert((r == 0) == (path != NULL));
	ck_assert((r < 0) == (problem != NULL));
	return r;
}

/* PROTOCOL "Framing": the option beats MCPD_SOCKET beats the default. */
START_TEST(option_beats_variable_beats_runtime_directory)
{
	const char *const all[] = { "MCPD_SOCKET_X=/no", "MCPD_SOCKET=/env/s", "XDG_RUNTIME_DIR=/run/u", NULL };
	ck_assert_int_eq(find_path("/opt/s", all), 0);
	ck_assert_str_eq(path, "/opt/s");
	ck_assert_int_eq(find_path(NULL, all), 0);
	ck_assert_str_eq(path, "/env/s");
	ck_assert_int_eq(find_path(NULL, all + 2), 0);
	ck_assert_str_eq(path, "/run/u/mcpd/mcpd.sock");
	const char *const empty[] = { "MCPD_SOCKET=", "XDG_RUNTIME_DIR=/run/u", NULL };
	ck_assert_int_eq(find_path(NULL, empty), 0);
	ck_assert_str_eq(path, "/run/u/mcpd/mcpd.sock");
	free(path);
	path = NULL;
}
END_TEST

START_TEST(relative_paths_are_made_absolute)
{
	char cwd[4096], wanted[4200];
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
	ck_assert_int_eq(chdir("/tmp"), 0);
	snprintf(wanted, sizeof wanted, "/tmp/run/s");
	ck_assert_int_eq(find_path("run/s", NULL), 0);
	ck_assert_str_eq(path, wanted);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(find_path("s", NULL), 0);
	ck_assert_str_eq(path, "/s");
	ck_assert_int_eq(chdir(cwd), 0);
	ck_assert_int_eq(find_path("", NULL), -EINVAL);
	const char *const relative[] = { "XDG_RUNTIME_DIR=run", NULL };
	ck_assert_int_eq(find_path(NULL, relative), -EINVAL);
	ck_assert_ptr_nonnull(strstr(problem, "XDG_RUNTIME_DIR"));
	free(problem);
	problem = NULL;
}
END_TEST

/* R38: not a path that was cut, but the reason, with the path in it. */
START_TEST(R38_a_path_over_the_limit_is_refused_whole)
{
	char name[SOCKET_PATH_MAX + 2] = "/";
	memset(name + 1, 'x', SOCKET_PATH_MAX - 1);
	ck_assert_int_eq(find_path(name, NULL), 0);
	ck_assert_str_eq(path, name);
	name[SOCKET_PATH_MAX] = 'y';
	ck_assert_int_eq(find_path(name, NULL), -ENAMETOOLONG);
	ck_assert_ptr_nonnull(strstr(problem, name));
	ck_assert_ptr_nonnull(strstr(problem, "107"));
	free(problem);
	problem = NULL;
}
END_TEST

START_TEST(without_a_runtime_directory_the_standard_one_or_advice)
{
	const char *const none[] = { NULL };
	char standard[64];
	struct stat st;
	snprintf(standard, sizeof standard, "/run/user/%u", (unsigned)geteuid());
	bool there = lstat(standard, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
	int r = find_path(NULL, none);
	if (there) {
		ck_assert_int_eq(r, 0);
		ck_assert_int_eq(strncmp(path, standard, strlen(standard)), 0);
	} else {
		ck_assert_int_eq(r, -ENOENT);
		ck_assert_ptr_nonnull(strstr(problem, standard));
		ck_assert_ptr_nonnull(strstr(problem, "set XDG_RUNTIME_DIR"));
	}
	free(path);
	free(problem);
	path = problem = NULL;
}
END_TEST

int main(void)
{
	return RUN_TESTS("methods", methods_and_topics_are_found_by_their_decoded_names,
			 the_table_knows_how_parameters_were_scanned, the_openrpc_document_is_made_from_the_table,
			 every_allocation_that_fails_is_reported, option_beats_variable_beats_runtime_directory,
			 relative_paths_are_made_absolute, R38_a_path_over_the_limit_is_refused_whole,
			 without_a_runtime_directory_the_standard_one_or_advice);
}

/* manager/tool_cache.h and manager/tool_list.h: what is known of a server's tools, in memory and on disk (M2, M3,
 * R19). */
#include "manager/tool_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "manager/tool_list.h"
#include "run.h"
#include "xalloc.h"

#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210fedcba9876543210"
/* Nothing of it survives a JSON library: key order, doubles, spellings of numbers, a lone surrogate, an escaped
 * slash. */
#define TOOLS                                                                                                              \
	"[{\"name\":\"b\",\"n\":123456789012345678901234567890,\"m\":1.0,\"m\":-0,\"z\":1e400},{\"name\":\"a\\ud800\\/\"," \
	"\"inputSchema\":{ \"type\" : \"object\" }}]"

#define REST "{\"serverInfo\":{\"x\":1.10},\"prompts\":[{\"name\":\"p\"}]}"

static char base[64], dir[96];

static void setup(void)
{
	strcpy(base, "/tmp/mcpd-tool-cache-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	/* Neither exists, nor does its parent. */
	snprintf(dir, sizeof dir, "%s/cache/mcpd", base);
}

static void remove_tree(const char *path)
{
	DIR *stream = opendir(path);
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		char *inner = xasprintf("%s/%s", path, entry->d_name);
		remove_tree(inner);
		free(inner);
	}
	if (stream)
		closedir(stream);
	remove(path);
}

static void teardown(void)
{
	remove_tree(base);
}

static struct tool_cache_entry entry_of(const char *tools)
{
	return (struct tool_cache_entry){
		.tools = (char *)tools,
		.tools_len = strlen(tools),
		.count = 2,
		.capabilities = TOOL_CAP_ALL,
		.era = MCP_ERA_LEGACY,
		.protocol_version = (char *)"2025-11-25",
		.rest = (char *)REST,
		.rest_len = strlen(REST),
	};
}

static int store(const char *name, const char *identity, const char *tools)
{
	struct tool_cache *cache = tool_cache_new(dir);
	struct tool_cache_entry entry = entry_of(tools);
	int r = tool_cache_store(cache, name, identity, &entry);
	tool_cache_free(cache);
	return r;
}

static bool has(const char *name, const char *identity, const char *tools)
{
	struct tool_cache *cache = tool_cache_new(dir);
	struct tool_cache_entry entry;
	bool found = tool_cache_load(cache, name, identity, &entry) == 0;
	if (found && tools) {
		ck_assert_str_eq(entry.tools, tools);
		ck_assert_str_eq(entry.rest, REST);
	}
	tool_cache_entry_done(&entry);
	tool_cache_free(cache);
	return found;
}

/* How many files have this in their name; of the hidden ones, only what a write left. */
static size_t count_files(const char *part)
{
	size_t n = 0;
	DIR *stream = opendir(dir);
	for (struct dirent *entry; stream && (entry = readdir(stream));)
		n += entry->d_name[0] != '.' ? strstr(entry->d_name, part) != NULL :
					       strstr(entry->d_name, "writing") != NULL;
	if (stream)
		closedir(stream);
	return n;
}

static char *only_file(void)
{
	char *path = NULL;
	DIR *stream = opendir(dir);
	for (struct dirent *entry; (entry = readdir(stream));)
		if (entry->d_name[0] != '.') {
			ck_assert_ptr_null(path);
			path = xasprintf("%s/%s", dir, entry->d_name);
		}
	closedir(stream);
	ck_assert_ptr_nonnull(path);
	return path;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
	fclose(file);
}

static char *read_file(const char *path, size_t *ret_len)
{
	char *bytes = xnew_array(char, 1 << 16);
	FILE *file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	*ret_len = fread(bytes, 1, 1 << 16, file);
	fclose(file);
	return bytes;
}

START_TEST(M2_R19_tools_come_back_byte_for_byte)
{
	struct tool_cache *cache = tool_cache_new(dir);
	struct tool_cache_entry entry = entry_of(TOOLS), got;
	ck_assert_int_eq(tool_cache_store(cache, "demo", ID_A, &entry), 0);
	ck_assert_int_eq(tool_cache_load(cache, "demo", ID_A, &got), 0);
	ck_assert_str_eq(got.tools, TOOLS);
	ck_assert_uint_eq(got.tools_len, strlen(TOOLS));
	ck_assert_uint_eq(got.count, 2);
	ck_assert_uint_eq(got.capabilities, TOOL_CAP_ALL);
	ck_assert_int_eq(got.era, MCP_ERA_LEGACY);
	ck_assert_str_eq(got.protocol_version, "2025-11-25");
	tool_cache_entry_done(&got);
	tool_cache_free(cache);
}
END_TEST

START_TEST(M3_another_definition_never_serves_stale_tools)
{
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	ck_assert(has("demo", ID_A, TOOLS));
	ck_assert(!has("demo", ID_B, NULL));
	ck_assert(!has("other", ID_A, NULL));
	/* The earlier definition's file goes when the later one's is written, and no other's does. */
	ck_assert_int_eq(store("other", ID_A, "[]"), 0);
	ck_assert_int_eq(store("demo", ID_B, "[]"), 0);
	ck_assert(!has("demo", ID_A, NULL));
	ck_assert(has("demo", ID_B, "[]"));
	ck_assert(has("other", ID_A, "[]"));
	ck_assert_uint_eq(count_files(""), 2);
}
END_TEST

START_TEST(files_and_directory_are_private)
{
	struct stat st;
	umask(0);
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	char *path = only_file();
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	free(path);
}
END_TEST

START_TEST(names_that_look_alike_do_not_meet)
{
	static const char *const names[] = {
		"a/b",
		"a_b",
		"a:b",
		"a b",
		"../../etc",
		".hidden",
		"_hidden",
		"",
		"a_b~0000000000000000",
		"\xc3\xa9",
		"a_b-" ID_A,
		"a",
		"a-" ID_B,
		"very-long-very-long-very-long-very-long-very-long-very-long-very-long-very-long-very-long-1",
		"very-long-very-long-very-long-very-long-very-long-very-long-very-long-very-long-very-long-2",
	};
	size_t n = sizeof names / sizeof names[0];
	for (size_t i = 0; i < n; i++) {
		char *tools = xasprintf("[%zu]", i);
		ck_assert_int_eq(store(names[i], ID_A, tools), 0);
		free(tools);
	}
	for (size_t i = 0; i < n; i++) {
		char *tools = xasprintf("[%zu]", i);
		ck_assert_msg(has(names[i], ID_A, tools), "%s", names[i]);
		free(tools);
	}
	ck_assert_uint_eq(count_files(".tools"), n);
}
END_TEST

/* Every byte flipped, and every length cut: dropped, and never served. */
START_TEST(a_damaged_file_is_dropped)
{
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	char *path = only_file();
	size_t len;
	char *good = read_file(path, &len);
	for (size_t i = 0; i <= len; i++) {
		char *bad = xnew_array(char, len + 1);
		memcpy(bad, good, len);
		if (i < len)
			bad[i] ^= 0x04;
		else
			bad[len] = ' ';
		write_file(path, bad, i < len ? len : len + 1);
		free(bad);
		/* What only the header says beside may have changed; the tools never. */
		if (has("demo", ID_A, TOOLS))
			continue;
		ck_assert_int_eq(access(path, F_OK), -1);
	}
	for (size_t cut = 0; cut < len; cut++) {
		write_file(path, good, cut);
		ck_assert(!has("demo", ID_A, NULL));
		ck_assert_int_eq(access(path, F_OK), -1);
	}
	free(good);
	free(path);
}
END_TEST

START_TEST(a_file_of_another_version_is_dropped)
{
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	char *path = only_file();
	size_t len;
	char *bytes = read_file(path, &len);
	char *version = strstr(bytes, "\"mcpdToolCache\":2");
	ck_assert_ptr_nonnull(version);
	version[strlen("\"mcpdToolCache\":")] = '1';
	write_file(path, bytes, len);
	ck_assert(!has("demo", ID_A, NULL));
	ck_assert_int_eq(access(path, F_OK), -1);
	free(bytes);
	free(path);
}
END_TEST

START_TEST(what_is_no_file_does_not_stop_the_daemon)
{
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	char *path = only_file();
	remove(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert(!has("demo", ID_A, NULL)); /* and no hang */
	remove(path);
	ck_assert_int_eq(symlink("/etc/passwd", path), 0);
	ck_assert(!has("demo", ID_A, NULL));
	ck_assert_int_eq(access("/etc/passwd", F_OK), 0);
	free(path);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_now_is_left_for_later)
{
	ck_assert_int_eq(store("demo", ID_A, TOOLS), 0);
	/* One descriptor more, for the directory, and none for the file. */
	int next = dup(STDIN_FILENO);
	close(next);
	struct rlimit had, few;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &had), 0);
	few = (struct rlimit){ (rlim_t)next + 1, had.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert(!has("demo", ID_A, NULL));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &had), 0);
	ck_assert(has("demo", ID_A, TOOLS));
}
END_TEST

START_TEST(a_failure_to_write_is_told_and_hurts_nobody)
{
	/* A file where the directory should be. */
	char *parent = xasprintf("%s/cache", base);
	write_file(parent, "", 0);
	ck_assert_int_lt(store("demo", ID_A, TOOLS), 0);
	ck_assert(!has("demo", ID_A, NULL));
	free(parent);
	struct tool_cache *none = tool_cache_new(NULL);
	struct tool_cache_entry entry = entry_of(TOOLS);
	ck_assert_int_eq(tool_cache_store(none, "demo", ID_A, &entry), 0);
	ck_assert_int_eq(tool_cache_load(none, "demo", ID_A, &entry), -ENOENT);
	tool_cache_clean(none, (const char *const[]){ NULL });
	tool_cache_free(none);
}
END_TEST

START_TEST(a_full_disk_leaves_what_was_there)
{
	struct rlimit before, full = { .rlim_cur = 20 };
	ck_assert_int_eq(store("demo", ID_A, "[1]"), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	full.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
	ck_assert_int_lt(store("demo", ID_A, "[2]"), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	ck_assert(has("demo", ID_A, "[1]"));
	ck_assert_uint_eq(count_files(""), 1); /* nothing half-written either */
	ck_assert_int_eq(store("demo", ID_A, "[3]"), 0);
	ck_assert(has("demo", ID_A, "[3]"));
}
END_TEST

static void make_old(const char *path, int days)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - days * 86400L },
				     { .tv_sec = time(NULL) - days * 86400L } };
	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

START_TEST(old_files_of_unknown_servers_go_at_start)
{
	static const char *const names[] = { "known", NULL };
	static const struct {
		const char *name;
		int days;
		bool stays;
	} table[] = {
		{ "known-" ID_A ".tools", 400, true },          { "gone-" ID_A ".tools", 31, false },
		{ "young-" ID_A ".tools", 29, true },           { "notes.txt", 400, true },
		{ ".writing-1-gone-" ID_A ".tools", 1, false }, { ".writing-1-x-" ID_B ".tools", 0, true },
	};
	ck_assert_int_eq(store("known", ID_B, "[]"), 0);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char *path = xasprintf("%s/%s", dir, table[i].name);
		write_file(path, "x", 1);
		make_old(path, table[i].days);
		free(path);
	}
	struct tool_cache *cache = tool_cache_new(dir);
	tool_cache_clean(cache, names);
	tool_cache_free(cache);
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char *path = xasprintf("%s/%s", dir, table[i].name);
		ck_assert_msg((access(path, F_OK) == 0) == table[i].stays, "%s", table[i].name);
		free(path);
	}
}
END_TEST

/* ---- in memory ---- */

static struct loop *loop;
static struct tool_list list;

static void list_setup(void)
{
	loop = loop_new();
	tool_list_init(&list, "demo");
}

static void list_teardown(void)
{
	tool_list_done(&list);
	loop_free(loop);
}

static bool adopt(const char *tools, unsigned capabilities)
{
	return tool_list_adopt(&list, loop, span_of(tools), capabilities);
}

START_TEST(M2_revision_is_of_name_and_contents)
{
	char empty[DIGEST_HEX], full[DIGEST_HEX];
	list_setup();
	strcpy(empty, list.revision);
	ck_assert(span_is(tool_list_text(&list), "[]"));
	ck_assert(adopt(TOOLS, 0));
	ck_assert_uint_eq(list.count, 2);
	strcpy(full, list.revision);
	ck_assert_str_ne(empty, full);
	ck_assert(!adopt(TOOLS, 0));
	ck_assert(adopt("[]", 0));
	ck_assert_str_eq(list.revision, empty);
	struct tool_list same, other;
	tool_list_init(&same, "demo");
	tool_list_init(&other, "demo2");
	tool_list_adopt(&same, loop, span_of(TOOLS), 0);
	tool_list_adopt(&other, loop, span_of(TOOLS), 0);
	ck_assert_str_eq(same.revision, full);
	ck_assert_str_ne(other.revision, full);
	tool_list_done(&same);
	tool_list_done(&other);
	list_teardown();
}
END_TEST

START_TEST(a_replaced_text_stays_readable_until_the_next_pass)
{
	list_setup();
	adopt("[1]", 0);
	struct span before = tool_list_text(&list);
	adopt("[2]", 0);
	ck_assert(span_is(before, "[1]"));
	loop_once(loop, 0);
	list_teardown();
}
END_TEST

START_TEST(tools_are_found_by_their_decoded_name)
{
	list_setup();
	adopt("[{\"name\":\"a\\u0062\"},7,{},{\"name\":5},{\"x\":1,\"name\":\"c\"}]", 0);
	ck_assert(span_is(tool_list_find(&list, SPAN_LIT("\"ab\"")), "{\"name\":\"a\\u0062\"}"));
	ck_assert(span_is(tool_list_find(&list, SPAN_LIT("\"\\u0063\"")), "{\"x\":1,\"name\":\"c\"}"));
	ck_assert_ptr_null(tool_list_find(&list, SPAN_LIT("\"d\"")).ptr);
	ck_assert_ptr_null(tool_list_find(&list, SPAN_LIT("5")).ptr);
	ck_assert_ptr_null(tool_list_find(&list, SPAN_NONE).ptr);
	list_teardown();
}
END_TEST

START_TEST(a_client_with_fewer_capabilities_does_not_take_tools_away)
{
	list_setup();
	ck_assert(adopt("[{\"name\":\"a\"},{\"name\":\"sample\"},{\"name\":\"b\"}]", TOOL_CAP_ALL));
	ck_assert(!adopt("[{\"name\":\"a\"},{\"name\":\"b\"}]", 0));
	ck_assert(!adopt("[]", TOOL_CAP_ROOTS));
	ck_assert_uint_eq(list.count, 3);
	/* But what it has and the list has not is news. */
	ck_assert(adopt("[{\"name\":\"a\"},{\"name\":\"b\",\"v\":2}]", 0));
	ck_assert_uint_eq(list.count, 2);
	/* And one with as many, or more, has the last word. */
	ck_assert(adopt("[{\"name\":\"a\"}]", TOOL_CAP_SAMPLING));
	ck_assert(adopt("[]", TOOL_CAP_ALL));
	list_teardown();
}
END_TEST

START_TEST(capabilities_are_told_by_their_members)
{
	ck_assert_uint_eq(tool_capabilities_of(NULL), 0);
	ck_assert_uint_eq(tool_capabilities_of("{}"), 0);
	ck_assert_uint_eq(tool_capabilities_of("{\"sampling\":{},\"x\":{\"roots\":1}}"), TOOL_CAP_SAMPLING);
	ck_assert_uint_eq(tool_capabilities_of("{\"roots\":{},\"elicitation\":{},\"sampling\":{}}"), TOOL_CAP_ALL);
}
END_TEST

static int run_on_disk(void)
{
	Suite *suite = suite_create("tool_cache");
	TCase *disk = tcase_create("disk");
	static const TTest *const *const tests[] = {
		&M2_R19_tools_come_back_byte_for_byte,
		&M3_another_definition_never_serves_stale_tools,
		&files_and_directory_are_private,
		&names_that_look_alike_do_not_meet,
		&a_damaged_file_is_dropped,
		&a_file_of_another_version_is_dropped,
		&what_is_no_file_does_not_stop_the_daemon,
		&a_file_that_cannot_be_read_now_is_left_for_later,
		&a_failure_to_write_is_told_and_hurts_nobody,
		&a_full_disk_leaves_what_was_there,
		&old_files_of_unknown_servers_go_at_start,
	};
	tcase_add_checked_fixture(disk, setup, teardown);
	tcase_set_timeout(disk, RUN_TIMEOUT_SECONDS);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(disk, *tests[i]);
	suite_add_tcase(suite, disk);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}

int main(void)
{
	log_init(0, NULL);
	return run_on_disk() + RUN_TESTS("tool_list", M2_revision_is_of_name_and_contents,
					 a_replaced_text_stays_readable_until_the_next_pass,
					 tools_are_found_by_their_decoded_name,
					 a_client_with_fewer_capabilities_does_not_take_tools_away,
					 capabilities_are_told_by_their_members);
}

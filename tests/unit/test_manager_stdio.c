/* The manager with real children (tests/e2e/servers/fake.py): what it starts, what it ends, what is left (R1, R3,
 * R5, R6, R9, R10, R25). */
#define MANAGER_FIXTURE_REAL
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manager_fixture.h"
#include "run.h"
#include "transport/process.h"

#define PYTHON "/usr/bin/python3"
#define MAX_CALLS 20

static struct outcome o[MAX_CALLS];
static char dir[64];

/* A definition of the scripted server; members and options with ' for ". */
static char *definition(const char *name, const char *members, const char *options)
{
	struct buf quoted = BUF_INIT;
	char *text = xasprintf("{%s%s'pids':'%s/pids-%s','state':'%s/state-%s'}", options, *options ? "," : "", dir,
			       name, dir, name);
	for (char *c = text; *c; c++)
		if (*c == '\'')
			*c = '"';
	buf_add_json_text(&quoted, text);
	/* make_config() turns every ' into ". */
	char *result = xasprintf("'%s':{'command':'" PYTHON "','args':['" FAKE_SERVER "',%s],'stopGrace':300%s%s}",
				 name, quoted.data, *members ? "," : "", members);
	buf_done(&quoted);
	free(text);
	return result;
}

static void start_with(const char *servers)
{
	log_init(0, NULL);
	memset(&f, 0, sizeof f);
	f.host = process_host_new();
	ck_assert_ptr_nonnull(f.host);
	f.loop = loop_new();
	process_host_attach(f.host, f.loop);
	buf_init(&f.diary, 0);
	new_manager();
	configure(servers);
}

static void start(const char *members, const char *options)
{
	strcpy(dir, "/tmp/mcpd-stdio-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	char *servers = definition("demo", members, options);
	start_with(servers);
	free(servers);
}

/* The processes that were started, in their order. */
static size_t started(pid_t *pids, size_t max)
{
	char path[128];
	snprintf(path, sizeof path, "%s/pids-demo", dir);
	FILE *file = fopen(path, "r");
	size_t n = 0;
	int pid;
	while (file && n < max && fscanf(file, "%d", &pid) == 1)
		pids[n++] = pid;
	if (file)
		fclose(file);
	return n;
}

static bool is_alive(pid_t pid)
{
	char path[64], state = 'X';
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(file);
	return state != 'Z' && state != 'X';
}

/* The shutdown leaves nothing behind: checked for every process that said it was there. */
static void done(void)
{
	pid_t pids[64];
	end_manager(0);
	size_t n = started(pids, 64);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(!is_alive(pids[i]), "process %d is left", (int)pids[i]);
	process_host_free(f.host);
	loop_free(f.loop);
	buf_done(&f.diary);
	char *command = xasprintf("rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
	free(command);
}

static void ask(struct outcome *outcome, uint64_t client, const char *tool, const char *arguments)
{
	char *params = xasprintf("{\"name\":\"%s\",\"arguments\":%s}", tool, arguments);
	call_with(outcome, tool, "demo", client, "tools/call", params, -1);
	free(params);
}

START_TEST(R1_R9_twenty_first_calls_are_one_process)
{
	pid_t pids[4];
	start("'lazy':true", "'initializeDelayMs':200");
	for (int i = 0; i < MAX_CALLS; i++)
		ask(&o[i], (uint64_t)(1 + i % 5), "tool0", "{}");
	for (int i = 0; i < MAX_CALLS; i++) {
		WAIT_UNTIL(o[i].n_done);
		assert_done(&o[i], 0, NULL);
		outcome_free(&o[i]);
	}
	ck_assert_uint_eq(started(pids, 4), 1);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_int_eq(info.pid, pids[0]);
	done();
}
END_TEST

START_TEST(R5_R6_a_killed_server_fails_its_calls_and_the_next_one_works)
{
	pid_t pids[4];
	start("", "");
	ask(&o[0], 1, "count", "{\"key\":\"k\"}");
	WAIT_UNTIL(o[0].n_done);
	ask(&o[1], 1, "crash", "{\"countFirst\":\"k\"}");
	WAIT_UNTIL(o[1].n_done);
	assert_done(&o[1], MCPD_E_TRANSPORT, "Transport closed");
	ck_assert(o[1].sent);
	ask(&o[2], 1, "count", "{\"key\":\"k\"}");
	WAIT_UNTIL(o[2].n_done);
	assert_done(&o[2], 0, NULL);
	/* Once before, once in the crash, once now: nothing ran twice. */
	assert_contains(o[2].result, "\"1 3\"");
	ck_assert_uint_eq(started(pids, 4), 2);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_int_eq(info.pid, pids[1]);
	for (int i = 0; i < 3; i++)
		outcome_free(&o[i]);
	done();
}
END_TEST

START_TEST(M6_a_retrySafe_tool_runs_again_on_the_new_process)
{
	start("'retrySafe':['hang']", "");
	ask(&o[0], 1, "hang", "{}");
	ask(&o[1], 1, "tool0", "{}");
	WAIT_UNTIL(o[1].n_done);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	kill(info.pid, SIGKILL);
	WAIT_UNTIL(o[0].n_resent == 1 && state_of("demo") == SERVER_CONNECTED);
	ck_assert_uint_eq(o[0].n_done, 0);
	outcome_free(&o[1]);
	done();
	assert_done(&o[0], MCPD_E_TRANSPORT, NULL);
	outcome_free(&o[0]);
}
END_TEST

START_TEST(a_grandchild_that_holds_on_holds_nobody_up)
{
	/* The main process is killed; what it started ignores SIGTERM and keeps its stdout open. */
	start("'stopGrace':5000", "'grandchild':{'ignoreTerm':true,'setsid':true,'holdStdout':true}");
	ask(&o[0], 1, "tool0", "{}");
	WAIT_UNTIL(o[0].n_done);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	kill(info.pid, SIGKILL);
	int64_t before = loop_now_ms();
	WAIT_UNTIL(!is_alive(info.pid));
	ask(&o[1], 1, "tool0", "{}");
	WAIT_UNTIL(o[1].n_done);
	/* Either it was noticed, and the call waited for the new process, or it went into the dead one's pipe. */
	if (o[1].code) {
		assert_done(&o[1], MCPD_E_TRANSPORT, "Transport closed");
		ask(&o[2], 1, "tool0", "{}");
		WAIT_UNTIL(o[2].n_done);
		assert_done(&o[2], 0, NULL);
		outcome_free(&o[2]);
	}
	ck_assert_int_lt(loop_now_ms() - before, 5000);
	outcome_free(&o[0]);
	outcome_free(&o[1]);
	done();
}
END_TEST

START_TEST(R10_commands_that_cannot_be_run_fail_alone_and_say_why)
{
	static const struct {
		const char *name, *reason;
	} table[] = {
		{ "missing", "No such file or directory" },
		{ "folder", "Is a directory" },
		{ "plain", "ermission denied" },
		{ "empty", "command" },
	};
	strcpy(dir, "/tmp/mcpd-stdio-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	char *plain = xasprintf("%s/plain", dir);
	FILE *file = fopen(plain, "w");
	fclose(file);
	char *good = definition("demo", "", "");
	char *servers =
		xasprintf("'missing':{'command':'/no/such/command'},'folder':{'command':'%s'},'plain':{'command':'%s'},"
			  "'empty':{'command':''},%s",
			  dir, plain, good);
	start_with(servers);
	call(&o[0], "missing", "missing", 1);
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED && o[0].n_done);
	assert_done(&o[0], MCPD_E_UNAVAILABLE, "/no/such/command");
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct server_info info;
		WAIT_UNTIL(state_of(table[i].name) == SERVER_FAILED);
		server_get_info(server_of(table[i].name), &info);
		assert_contains(info.last_error, table[i].reason);
	}
	outcome_free(&o[0]);
	free(plain);
	free(good);
	free(servers);
	done();
}
END_TEST

START_TEST(a_server_that_dies_at_its_start_tells_its_last_words)
{
	start("", "'exitAt':{'when':'start','status':3,'stderr':'last words'}");
	WAIT_UNTIL(state_of("demo") == SERVER_RECONNECTING);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	assert_contains(info.last_error, "exit status 3");
	assert_contains(info.last_error, "last words");
	done();
}
END_TEST

START_TEST(a_server_that_exits_on_the_probe_is_started_once_more)
{
	pid_t pids[8];
	start("", "'probe':'exit'");
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED);
	ck_assert_uint_eq(started(pids, 8), 2);
	done();
}
END_TEST

START_TEST(R25_processes_of_an_exclusive_server_never_overlap_and_know_nothing_of_each_other)
{
	pid_t pids[8];
	start("'sharing':'exclusive'", "");
	for (unsigned i = 0; i < 3; i++) {
		ask(&o[2 * i], i + 1, "count", "{}");
		ask(&o[2 * i + 1], i + 1, "count", "{}");
	}
	for (unsigned i = 0; i < 3; i++) {
		WAIT_UNTIL(o[2 * i].n_done && o[2 * i + 1].n_done);
		/* Each holder counts from 1 in a process of its own; the server runs its two calls in threads, so in either order. */
		bool in_order = strstr(o[2 * i].result, "\"1 ") != NULL;
		assert_contains(o[2 * i].result, in_order ? "\"1 " : "\"2 ");
		assert_contains(o[2 * i + 1].result, in_order ? "\"2 " : "\"1 ");
		size_t n = started(pids, 8);
		for (size_t k = 0; k + 1 < n; k++)
			ck_assert(!is_alive(pids[k]));
		if (i == 0)
			ck_assert_int_eq(server_release(server_of("demo"), 1), 0);
		else
			manager_client_gone(f.m, i + 1);
	}
	for (int i = 0; i < 6; i++)
		outcome_free(&o[i]);
	done();
}
END_TEST

START_TEST(R25_a_per_client_process_ends_with_its_client)
{
	pid_t pids[8];
	start("'sharing':'per-client','lazy':true", "");
	for (unsigned i = 0; i < 3; i++)
		ask(&o[i], i + 1, "count", "{}");
	for (unsigned i = 0; i < 3; i++) {
		WAIT_UNTIL(o[i].n_done);
		assert_contains(o[i].result, "\"1 ");
		outcome_free(&o[i]);
	}
	ck_assert_uint_eq(started(pids, 8), 3);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.n_instances, 3);
	pid_t first = info.instances[0].pid;
	manager_client_gone(f.m, 1);
	WAIT_UNTIL(!is_alive(first));
	unsigned alive = 0;
	for (int i = 0; i < 3; i++)
		alive += is_alive(pids[i]);
	ck_assert_uint_eq(alive, 2);
	done();
}
END_TEST

START_TEST(R3_every_way_to_end_a_server_ends_all_of_it)
{
	pid_t pids[8];
	start("'idleTimeout':200,'stopGrace':150", "'ignoreEof':true,'ignoreTerm':true");
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED && started(pids, 8) == 1);
	WAIT_UNTIL(state_of("demo") == SERVER_IDLE); /* idle stop */
	WAIT_UNTIL(!is_alive(pids[0]));
	ask(&o[0], 1, "tool0", "{}");
	WAIT_UNTIL(o[0].n_done);
	outcome_free(&o[0]);
	ck_assert_uint_eq(started(pids, 8), 2);
	/* Another definition: the new one does not wait for the old one's end. */
	char *servers = definition("demo", "'stopGrace':150", "'ignoreEof':true,'ignoreTerm':true,'name':'other'");
	configure(servers);
	free(servers);
	WAIT_UNTIL(started(pids, 8) == 3);
	WAIT_UNTIL(!is_alive(pids[1]));
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED);
	configure(""); /* removed */
	WAIT_UNTIL(!is_alive(pids[2]));
	done();
}
END_TEST

static bool order_done;

static void on_order(void *arg, struct server *server, const struct transport_reply *failure)
{
	(void)arg;
	ck_assert_ptr_nonnull(server);
	ck_assert_ptr_null(failure);
	order_done = true;
}

START_TEST(a_disconnect_is_done_when_nothing_is_left)
{
	pid_t pids[2];
	start("'stopGrace':200", "'ignoreEof':true,'ignoreTerm':true");
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED);
	ck_assert_uint_eq(started(pids, 2), 1);
	server_order(server_of("demo"), SERVER_ORDER_DISCONNECT, -1, on_order, NULL);
	ck_assert_int_eq(state_of("demo"), SERVER_IDLE);
	while (!order_done) {
		bool was_alive = is_alive(pids[0]);
		loop_once(f.loop, 20);
		ck_assert(was_alive || order_done || !is_alive(pids[0]));
	}
	ck_assert(!is_alive(pids[0]));
	done();
}
END_TEST

START_TEST(S13_stderr_is_in_the_log)
{
	start("", "'stderrAtStart':'hello from stderr','noiseAtStart':['a banner']");
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED);
	const char *told = diary();
	assert_contains(told, "demo log hello from stderr\n");
	assert_contains(told, "demo log stdout: a banner\n");
	done();
}
END_TEST

START_TEST(a_modern_server_tells_of_its_changes)
{
	start("", "'era':'modern'");
	WAIT_UNTIL(state_of("demo") == SERVER_CONNECTED);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_int_eq(info.facts->era, MCP_ERA_MODERN);
	ask(&o[0], 1, "setTools", "{\"tools\":[\"changed\"],\"times\":5}");
	WAIT_UNTIL(o[0].n_done);
	assert_done(&o[0], 0, NULL);
	WAIT_UNTIL(server_find_tool(server_of("demo"), SPAN_LIT("changed")).ptr);
	ck_assert_ptr_nonnull(server_find_tool(server_of("demo"), SPAN_LIT("\"changed\"")).ptr);
	outcome_free(&o[0]);
	done();
}
END_TEST

int main(void)
{
	return RUN_TESTS("manager_stdio", R1_R9_twenty_first_calls_are_one_process,
			 R5_R6_a_killed_server_fails_its_calls_and_the_next_one_works,
			 M6_a_retrySafe_tool_runs_again_on_the_new_process, a_grandchild_that_holds_on_holds_nobody_up,
			 R10_commands_that_cannot_be_run_fail_alone_and_say_why,
			 a_server_that_dies_at_its_start_tells_its_last_words,
			 a_server_that_exits_on_the_probe_is_started_once_more,
			 R25_processes_of_an_exclusive_server_never_overlap_and_know_nothing_of_each_other,
			 R25_a_per_client_process_ends_with_its_client, R3_every_way_to_end_a_server_ends_all_of_it,
			 a_disconnect_is_done_when_nothing_is_left, S13_stderr_is_in_the_log,
			 a_modern_server_tells_of_its_changes);
}

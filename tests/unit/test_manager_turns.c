/* Fair turns: how many calls of whom are with a server, and whose goes next (manager/turns.h). */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"
#define N 64
#define SOON 20000 /* ms: longer than any test takes */

/* Calls of client 1, of client 2, and of others. */
static struct outcome a[N], b[N], c[N];

static void start(const char *servers, const char *limits)
{
	char *daemon = xasprintf("'limits':{%s}", limits);
	memset(a, 0, sizeof a);
	memset(b, 0, sizeof b);
	memset(c, 0, sizeof c);
	fixture_start("");
	manager_configure(f.m, make_config(servers, daemon), NULL);
	free(daemon);
	settle();
	if (f.n_made)
		bring_up(last(), TOOLS_A);
	diary();
}

/* Calls [from, to) of a client; a call's params say which one it is. */
static void ask(struct outcome *o, unsigned from, unsigned to, uint64_t client)
{
	for (unsigned i = from; i < to; i++) {
		char *params = xasprintf("{\"name\":\"%c%u\"}", o == a ? 'a' : o == b ? 'b' : 'c', i);
		call_with(&o[i], "call", "demo", client, "tools/call", params, SOON);
		free(params);
	}
	settle();
}

/* The calls that the server has and has not answered, oldest first: "a0 a1 b0". */
static const char *at_server(void)
{
	static char text[4096];
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < fake_count(last()); i++) {
		struct fake_sent *sent = fake_at(last(), i);
		if (sent->kind != FAKE_REQUEST || !sent->pending || strcmp(sent->method, "tools/call") != 0)
			continue;
		char *name = json_string_dup(json_member(span_of(sent->params), "name"));
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "", name);
		free(name);
	}
	return text;
}

static unsigned n_at_server(void)
{
	const char *text = at_server();
	unsigned n = *text != '\0';
	for (; *text; text++)
		n += *text == ' ';
	return n;
}

static struct fake_sent *find(const char *name)
{
	char *part = xasprintf("{\"name\":\"%s\"", name);
	struct fake_sent *found = NULL;
	for (size_t i = 0; i < fake_count(last()) && !found; i++) {
		struct fake_sent *sent = fake_at(last(), i);
		if (sent->kind == FAKE_REQUEST && sent->pending && strncmp(sent->params, part, strlen(part)) == 0)
			found = sent;
	}
	ck_assert_msg(found != NULL, "%s is not at the server: %s", name, at_server());
	free(part);
	return found;
}

static void answer(const char *name)
{
	fake_answer(last(), find(name), "{}");
	settle();
}

/* The oldest one, as a server does that works on one at a time. */
static void answer_first(void)
{
	char name[8];
	ck_assert_int_eq(sscanf(at_server(), "%7s", name), 1);
	answer(name);
}

static void end(void)
{
	end_manager(0);
	for (size_t i = 0; i < N; i++) {
		struct outcome *all[] = { &a[i], &b[i], &c[i] };
		for (size_t j = 0; j < 3; j++)
			if (all[j]->name)
				outcome_free(all[j]);
	}
	fixture_done();
}

START_TEST(one_client_has_as_many_calls_at_the_server_as_the_window_says)
{
	start(DEMO, "'fairWindow':3");
	ask(a, 0, 10, 1);
	ck_assert_str_eq(at_server(), "a0 a1 a2");
	answer("a0");
	ck_assert_str_eq(at_server(), "a1 a2 a3");
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.in_flight, 3);
	ck_assert_uint_eq(info.waiting, 6);
	/* Errors are answers. */
	fake_error(last(), find("a1"), "{\"code\":1,\"message\":\"no\"}");
	settle();
	ck_assert_str_eq(at_server(), "a2 a3 a4");
	end();
}
END_TEST

START_TEST(another_clients_call_does_not_wait_for_those_that_wait)
{
	start(DEMO, "'fairWindow':4");
	ask(a, 0, 40, 1);
	ask(b, 0, 1, 2);
	ck_assert_str_eq(at_server(), "a0 a1 a2 a3 b0");
	/* Two clients share the window. */
	answer("a0");
	answer("a1");
	ck_assert_str_eq(at_server(), "a2 a3 b0");
	answer("a2");
	ck_assert_str_eq(at_server(), "a3 b0 a4");
	/* One that has nothing there any more leaves its share to the other. */
	answer("a3");
	answer("b0");
	ck_assert_str_eq(at_server(), "a4 a5 a6 a7");
	end();
}
END_TEST

START_TEST(clients_with_many_calls_take_turns)
{
	start(DEMO, "'fairWindow':4");
	ask(a, 0, 20, 1);
	ask(b, 0, 20, 2);
	ask(c, 0, 20, 3);
	for (int i = 0; i < 12; i++)
		answer_first();
	/* Whatever the first one had sent before the others came, from here on they are served alike, in order. */
	unsigned served[3] = { 0 };
	for (int i = 0; i < 30; i++) {
		served[at_server()[0] - 'a']++;
		answer_first();
	}
	ck_assert_uint_eq(served[0], 10);
	ck_assert_uint_eq(served[1], 10);
	ck_assert_uint_eq(served[2], 10);
	for (int i = 1; i < 14; i++)
		ck_assert(!a[i].n_done || a[i - 1].n_done);
	end();
}
END_TEST

START_TEST(a_server_that_answers_one_by_one_never_gets_more)
{
	start(DEMO, "'fairWindow':4,'maxRequestsPerServer':100000");
	unsigned asked = 0;
	for (int i = 0; i < 400; i++) {
		/* As slow as to be noticed, as far as the manager can tell: this is no quick server. */
		server_of("demo")->main->turns.since_us = loop_now_us() - 1000000;
		while (asked < N && asked < (unsigned)i + 20)
			asked++, ask(a, asked - 1, asked, 1);
		if (asked == N && !*at_server())
			break;
		ck_assert_uint_le(n_at_server(), 4);
		answer_first();
	}
	ck_assert_uint_eq(a[N - 1].n_done, 1);
	end();
}
END_TEST

START_TEST(a_server_that_works_on_many_gets_more)
{
	start(DEMO, "'fairWindow':2");
	ask(a, 0, 60, 1);
	ck_assert_str_eq(at_server(), "a0 a1");
	answer("a1"); /* overtakes one: two at once */
	ck_assert_uint_eq(n_at_server(), 8);
	answer("a8"); /* overtakes seven */
	ck_assert_uint_eq(n_at_server(), 32);
	/* What is no tool call proves nothing about tool calls, and the other way round. */
	end();
	start(DEMO, "'fairWindow':2");
	ask(a, 0, 10, 1);
	call_with(&b[0], "ping", "demo", 2, "ping", "{}", SOON);
	settle();
	fake_answer(last(), fake_last(last(), "ping"), "{}");
	settle();
	ck_assert_str_eq(at_server(), "a0 a1");
	end();
}
END_TEST

START_TEST(what_has_been_found_out_is_thought_over_anew)
{
	start(DEMO, "'fairWindow':2,'maxRequestsPerClient':1000");
	ask(a, 0, 20, 1);
	answer("a1");
	ck_assert_uint_eq(n_at_server(), 8);
	for (unsigned i = 0; i < 3 * 64; i++) {
		server_of("demo")->main->turns.since_us = loop_now_us() - 1000000;
		if (i >= 30) {
			struct outcome *o = &b[i % N];
			if (o->name)
				outcome_free(o);
			call_with(o, "call", "demo", 1, "tools/call", "{\"name\":\"x\"}", SOON);
			settle();
		}
		if (*at_server())
			answer_first();
	}
	ask(c, 0, 20, 1);
	ck_assert_uint_eq(n_at_server(), 2);
	end();
}
END_TEST

START_TEST(a_quick_server_gets_what_it_answers_in_no_time)
{
	start(DEMO, "'fairWindow':2,'maxRequestsPerClient':1000");
	server_of("demo")->main->turns.since_us = loop_now_us();
	server_of("demo")->main->turns.n_answers = 999; /* within some milliseconds at most */
	ask(a, 0, 60, 1);
	int64_t us = loop_now_us() - server_of("demo")->main->turns.since_us;
	answer_first();
	if (us < 100000)
		ck_assert_uint_gt(n_at_server(), 8);
	end();
}
END_TEST

START_TEST(progress_shows_what_is_worked_on)
{
	start(DEMO, "'fairWindow':2");
	ask(a, 0, 20, 1);
	struct span token = json_member(json_member(span_of(find("a1")->params), "_meta"), "progressToken");
	char *params = xasprintf("{\"progressToken\":%.*s,\"progress\":1}", (int)token.len, token.ptr);
	fake_notification(last(), "notifications/progress", params);
	settle();
	answer("a0"); /* in order */
	ck_assert_uint_eq(n_at_server(), 8);
	free(params);
	end();
}
END_TEST

START_TEST(calls_that_wait_for_each_other_get_there_in_the_end)
{
	start(DEMO, "'fairWindow':1");
	ask(a, 0, 5, 1);
	ask(b, 0, 5, 2);
	ck_assert_str_eq(at_server(), "a0 b0");
	int64_t before = loop_now_ms();
	WAIT_UNTIL(n_at_server() > 2);
	ck_assert_int_ge(loop_now_ms() - before, TURNS_TRY_MS - 100);
	ck_assert_str_eq(at_server(), "a0 b0 a1 b1");
	WAIT_UNTIL(n_at_server() == 10);
	ck_assert_int_ge(loop_now_ms() - before, 4 * TURNS_TRY_MS - 100);
	/* An answer ends it: the server works. */
	ask(a, 5, 10, 1);
	ask(b, 5, 10, 2);
	for (int i = 0; i < 8; i++)
		answer_first();
	ck_assert_uint_eq(n_at_server(), 2);
	end();
}
END_TEST

START_TEST(a_server_that_works_in_order_is_given_time)
{
	start(DEMO, "'fairWindow':2");
	for (int i = 0; i < 2; i++) {
		server_of("demo")->main->turns.since_us = loop_now_us() - 1000000;
		ask(i ? b : a, 0, 60, 1);
		while (*at_server())
			answer_first();
	}
	ask(c, 0, 10, 1);
	ck_assert_uint_eq(n_at_server(), 2);
	int64_t before = loop_now_ms();
	WAIT_UNTIL(n_at_server() > 2);
	ck_assert_int_ge(loop_now_ms() - before, TURNS_STALL_MS - 100);
	ck_assert_uint_eq(n_at_server(), 3);
	/* The next one takes twice as long. */
	WAIT_UNTIL(n_at_server() > 3);
	ck_assert_int_ge(loop_now_ms() - before, 3 * TURNS_STALL_MS - 100);
	ck_assert_uint_eq(n_at_server(), 4);
	end();
}
END_TEST

START_TEST(a_call_that_was_given_up_keeps_its_place_until_the_server_is_past_it)
{
	start(DEMO, "'fairWindow':3");
	ask(a, 0, 10, 1);
	fake_time_out(last(), find("a0"));
	server_cancel(server_of("demo"), a[1].number, "not wanted");
	settle();
	ck_assert_int_eq(a[0].code, MCPD_E_TIMEOUT);
	ck_assert_int_eq(a[1].code, MCPD_E_CANCELLED);
	ck_assert_str_eq(at_server(), "a2");
	ask(b, 0, 1, 2);
	ck_assert_str_eq(at_server(), "a2 b0");
	answer("a2");
	ck_assert_str_eq(at_server(), "b0 a3 a4");
	/* A new connection knows nothing of the old one's. */
	fake_time_out(last(), find("a3"));
	fake_time_out(last(), find("a4"));
	settle();
	ck_assert_str_eq(at_server(), "b0");
	fake_exit(last(), "gone");
	settle();
	bring_up(last(), TOOLS_A);
	ck_assert_str_eq(at_server(), "a5 a6 a7");
	end();
}
END_TEST

START_TEST(what_is_given_up_outlives_its_client)
{
	start(DEMO, "'fairWindow':2");
	ask(a, 0, 2, 1);
	server_cancel(server_of("demo"), a[0].number, "the client has gone");
	server_cancel(server_of("demo"), a[1].number, "the client has gone");
	settle();
	manager_client_gone(f.m, 1);
	ask(b, 0, 3, 2);
	ck_assert_str_eq(at_server(), "b0 b1");
	answer("b0");
	ck_assert_uint_eq(server_of("demo")->askers.turns.count, 1);
	end();
}
END_TEST

START_TEST(calls_end_while_they_wait_for_their_turn)
{
	start(DEMO, "'fairWindow':1");
	ask(a, 0, 3, 1);
	call_with(&b[0], "short", "demo", 1, "tools/call", "{\"name\":\"short\"}", 30);
	ask(a, 3, 5, 1);
	server_cancel(server_of("demo"), a[1].number, "not wanted");
	settle();
	assert_done(&a[1], MCPD_E_CANCELLED, "not wanted");
	WAIT_UNTIL(b[0].n_done);
	assert_done(&b[0], MCPD_E_TIMEOUT, "Request timeout after 30ms");
	ck_assert(!a[1].sent && !b[0].sent);
	answer("a0");
	answer("a2");
	answer("a3");
	ck_assert_str_eq(at_server(), "a4");
	/* Waiting with the server's going, and with its definition's. */
	ask(a, 5, 8, 1);
	configure("'demo':{'command':'other'}");
	settle();
	bring_up(last(), TOOLS_A);
	ck_assert_msg(strcmp(at_server(), "a5 a6 a7") == 0, "%s; %s", at_server(), fake_methods(last()));
	assert_done(&a[4], MCPD_E_TRANSPORT, "Transport closed");
	manager_configure(f.m, make_config("'demo':{'command':'other'}", "'limits':{'fairWindow':1}"), NULL);
	ask(b, 1, 4, 2);
	configure("");
	settle();
	assert_done(&b[3], MCPD_E_UNAVAILABLE, "not configured any more");
	end();
}
END_TEST

START_TEST(the_daemons_own_calls_do_not_wait)
{
	start(DEMO, "'fairWindow':1");
	ask(a, 0, 5, 1);
	ask(c, 0, 5, 0);
	ck_assert_str_eq(at_server(), "a0 c0 c1 c2 c3 c4");
	end();
}
END_TEST

START_TEST(a_server_with_one_client_at_a_time_gets_everything)
{
	static const char *const kinds[] = { "per-client", "exclusive" };
	for (size_t i = 0; i < 2; i++) {
		char *servers = xasprintf("'demo':{'command':'x','lazy':true,'sharing':'%s'}", kinds[i]);
		start(servers, "'fairWindow':1");
		free(servers);
		ask(a, 0, 20, 1);
		bring_up(last(), TOOLS_A);
		ck_assert_uint_eq(n_at_server(), 20);
		ask(a, 20, 30, 1);
		ck_assert_uint_eq(n_at_server(), 30);
		end();
	}
}
END_TEST

START_TEST(no_client_takes_all_of_what_a_server_may_hold)
{
	start(DEMO, "'maxRequestsPerServer':45");
	ask(a, 0, 60, 1);
	for (int i = 0; i < 60; i++)
		ck_assert_msg(a[i].code == (i < 40 ? 0 : MCPD_E_LIMIT), "call %d: %d", i, a[i].code);
	ck_assert_int_eq(a[40].limit, LIMIT_REQUESTS_PER_SERVER);
	assert_contains(a[40].message, "40 requests of this client to server \"demo\"");
	assert_contains(a[40].message, "maxRequestsPerServer");
	ask(b, 0, 5, 2);
	ck_assert_int_eq(b[4].code, 0);
	ask(b, 5, 6, 2);
	ck_assert_int_eq(b[5].code, MCPD_E_LIMIT);
	assert_contains(b[5].message, "45 requests to server \"demo\"");
	end();
	/* Small numbers are no reason to keep anything free. */
	start(DEMO, "'maxRequestsPerServer':3");
	ask(a, 0, 4, 1);
	ck_assert_int_eq(a[2].code, 0);
	ck_assert_int_eq(a[3].code, MCPD_E_LIMIT);
	end();
}
END_TEST

START_TEST(bytes_that_wait_are_bounded)
{
	char *params = xasprintf("{\"name\":\"a\",\"arguments\":{\"x\":\"%01000d\"}}", 0);
	memset(a, 0, sizeof a);
	memset(b, 0, sizeof b);
	fixture_start("");
	manager_configure(f.m, make_config(DEMO, "'limits':{'serverQueueBytes':65536,'maxRequestsPerServer':10000}"),
			  NULL);
	settle();
	unsigned taken = 0;
	while (taken < N) {
		call_with(&a[taken], "a", "demo", 1, "tools/call", params, SOON);
		settle();
		if (a[taken++].n_done)
			break;
	}
	/* Eight ninths of 64 KiB. */
	ck_assert_uint_gt(taken, 50);
	ck_assert_uint_lt(taken, 60);
	assert_done(&a[taken - 1], MCPD_E_LIMIT, "serverQueueBytes");
	ck_assert_int_eq(a[taken - 1].limit, LIMIT_SERVER_QUEUE);
	call_with(&b[0], "b", "demo", 2, "tools/call", params, SOON);
	settle();
	ck_assert_uint_eq(b[0].n_done, 0);
	/* One message is taken whatever its size, where nothing else is kept. */
	configure("'demo':{'command':'y'}");
	for (unsigned i = 0; i < taken; i++)
		if (!a[i].n_done)
			server_cancel(server_of("demo"), a[i].number, NULL);
	server_cancel(server_of("demo"), b[0].number, NULL);
	settle();
	ck_assert_uint_eq(server_of("demo")->askers.bytes, 0);
	char *big = xasprintf("{\"name\":\"%0100000d\"}", 0);
	manager_configure(f.m, make_config("'demo':{'command':'y'}", "'limits':{'serverQueueBytes':65536}"), NULL);
	call_with(&b[1], "big", "demo", 2, "tools/call", big, SOON);
	call_with(&b[2], "more", "demo", 2, "tools/call", params, SOON);
	settle();
	ck_assert_uint_eq(b[1].n_done, 0);
	assert_done(&b[2], MCPD_E_LIMIT, "serverQueueBytes");
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(server_of("demo")->askers.bytes, 0);
	free(params);
	free(big);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("manager_turns", one_client_has_as_many_calls_at_the_server_as_the_window_says,
			 another_clients_call_does_not_wait_for_those_that_wait, clients_with_many_calls_take_turns,
			 a_server_that_answers_one_by_one_never_gets_more, a_server_that_works_on_many_gets_more,
			 what_has_been_found_out_is_thought_over_anew, a_quick_server_gets_what_it_answers_in_no_time,
			 progress_shows_what_is_worked_on, calls_that_wait_for_each_other_get_there_in_the_end,
			 a_server_that_works_in_order_is_given_time,
			 a_call_that_was_given_up_keeps_its_place_until_the_server_is_past_it,
			 what_is_given_up_outlives_its_client, calls_end_while_they_wait_for_their_turn,
			 the_daemons_own_calls_do_not_wait, a_server_with_one_client_at_a_time_gets_everything,
			 no_client_takes_all_of_what_a_server_may_hold, bytes_that_wait_are_bounded);
}

/* Calls through the manager: deadlines, cancellation, limits, losses, what is sent twice and what never is (C1 to
 * C4, M6, R5, R6, R12, R30). */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"
#define SAFE "'demo':{'command':'x','retrySafe':['a']}"
#define WEB "'web':{'type':'http','url':'http://localhost:1/mcp'}"

static struct outcome a, b, c;

START_TEST(C3_one_deadline_covers_waiting_and_the_call)
{
	fixture_start(DEMO);
	call_with(&a, "a", "demo", 1, "tools/call", "{\"name\":\"a\"}", 60);
	settle();
	WAIT_UNTIL(a.n_done);
	assert_done(&a, MCPD_E_TIMEOUT, NULL);
	ck_assert_str_eq(a.message, "Request timeout after 60ms");
	ck_assert_int_eq(a.timeout_ms, 60);
	ck_assert(!a.sent);
	/* What has waited keeps its deadline when it is sent. */
	int64_t before = loop_now_ms();
	call_with(&b, "b", "demo", 1, "tools/call", "{\"name\":\"a\"}", 100000);
	loop_once(f.loop, 30);
	bring_up(last(), TOOLS_A);
	struct fake_sent *sent = fake_last(last(), "tools/call");
	ck_assert_int_eq(sent->timeout_ms, 100000);
	ck_assert_int_ge(sent->deadline_ms, before + 100000);
	ck_assert_int_le(sent->deadline_ms, before + 100000 + 20);
	/* And 0 is none. */
	call_with(&c, "c", "demo", 1, "tools/call", "{\"name\":\"a\"}", 0);
	ck_assert_int_eq(fake_last(last(), "tools/call")->timeout_ms, 0);
	ck_assert_int_eq(fake_last(last(), "tools/call")->deadline_ms, 0);
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(C1_the_servers_timeout_is_the_default)
{
	fixture_start("'demo':{'command':'x','timeout':70}");
	call(&a, "a", "demo", 1);
	WAIT_UNTIL(a.n_done);
	ck_assert_str_eq(a.message, "Request timeout after 70ms");
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(C4_a_cancelled_call_says_why)
{
	fixture_start(DEMO);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 1);
	server_cancel(server_of("demo"), a.number, "not wanted");
	server_cancel(server_of("demo"), a.number, "again");
	server_cancel(server_of("demo"), 999999, "nobody");
	ck_assert_uint_eq(a.n_done, 0);
	settle();
	assert_done(&a, MCPD_E_CANCELLED, "not wanted");
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 1);
	server_cancel(server_of("demo"), b.number, "enough");
	ck_assert_uint_eq(b.n_done, 0);
	settle();
	assert_done(&b, MCPD_E_CANCELLED, "enough");
	ck_assert(b.sent);
	ck_assert_ptr_nonnull(fake_last(last(), "notifications/cancelled"));
	server_cancel(server_of("demo"), b.number, "late");
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(R12_a_timeout_ends_only_its_own_call)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	struct fake_sent *first = fake_last(last(), "tools/call");
	call(&b, "b", "demo", 2);
	fake_time_out(last(), first);
	settle();
	assert_done(&a, MCPD_E_TIMEOUT, NULL);
	ck_assert_uint_eq(b.n_done, 0);
	assert_state("demo", "connected");
	answer_call(last(), "{}");
	assert_done(&b, 0, NULL);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(limits_are_named)
{
	fixture_start("");
	manager_configure(f.m, make_config(DEMO, "'limits':{'maxRequestsPerServer':2}"), NULL);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	call(&c, "c", "demo", 3);
	settle();
	assert_done(&c, MCPD_E_LIMIT, "maxRequestsPerServer");
	ck_assert_int_eq(c.limit, LIMIT_REQUESTS_PER_SERVER);
	outcome_free(&c);
	bring_up(last(), TOOLS_A);
	/* Those in flight count as well. */
	call(&c, "c", "demo", 3);
	settle();
	assert_done(&c, MCPD_E_LIMIT, NULL);
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(answers_and_errors_pass_verbatim)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	answer_call(last(), "{\"n\":123456789012345678901234567890,\"n\":1.0,\"x\":\"\\ud800\"}");
	ck_assert_str_eq(a.result, "{\"n\":123456789012345678901234567890,\"n\":1.0,\"x\":\"\\ud800\"}");
	call(&b, "b", "demo", 1);
	fake_error(last(), fake_last(last(), "tools/call"), "{\"code\":-32000,\"message\":\"x\",\"data\":1e400}");
	assert_done(&b, MCPD_E_SERVER, NULL);
	ck_assert_str_eq(b.error, "{\"code\":-32000,\"message\":\"x\",\"data\":1e400}");
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(progress_goes_to_the_asker)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	struct span params = span_of(fake_last(last(), "tools/call")->params);
	struct span token = json_path(params, "_meta", "progressToken", NULL);
	char *progress = xasprintf("{\"progressToken\":%.*s,\"progress\":1}", (int)token.len, token.ptr);
	fake_notification(last(), "notifications/progress", progress);
	ck_assert_uint_eq(a.n_progress, 1);
	answer_call(last(), "{}");
	fake_notification(last(), "notifications/progress", progress);
	ck_assert_uint_eq(a.n_progress, 1);
	free(progress);
	outcome_free(&a);
	fixture_done();
}
END_TEST

/* ---- losses ---- */

START_TEST(R5_R6_a_call_in_flight_at_a_loss_fails_at_once_and_is_never_repeated)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	fake_exit(last(), "killed by signal 9 (Killed)");
	ck_assert_uint_eq(a.n_done, 0); /* told in the next gap */
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert(a.sent);
	assert_state("demo", "reconnecting");
	/* The next one works, without waiting for the clock. */
	call(&b, "b", "demo", 1);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 1);
	answer_call(last(), "{}");
	assert_done(&b, 0, NULL);
	ck_assert_uint_eq(a.n_resent, 0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(M6_a_tool_that_is_retrySafe_is_sent_again_once)
{
	fixture_start(SAFE);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	call_with(&b, "b", "demo", 1, "tools/call", "{\"name\":\"other\"}", -1);
	call_with(&c, "c", "demo", 1, "prompts/get", "{\"name\":\"a\"}", -1);
	fake_exit(last(), NULL);
	settle();
	assert_done(&b, MCPD_E_TRANSPORT, NULL);
	assert_done(&c, MCPD_E_TRANSPORT, NULL);
	ck_assert_uint_eq(a.n_done, 0);
	ck_assert_uint_eq(a.n_resent, 1);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 1);
	assert_contains(fake_last(last(), "tools/call")->params, "12345678901234567890123");
	/* Once: not a second time. */
	fake_exit(last(), NULL);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(a.n_resent, 1);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(M6_a_repeated_call_that_never_runs_again_may_have_been_run)
{
	fixture_start(SAFE);
	bring_up(last(), TOOLS_A);
	call_with(&a, "a", "demo", 1, "tools/call", "{\"name\":\"a\"}", 300);
	fake_exit(last(), NULL);
	settle();
	ck_assert_uint_eq(a.n_resent, 1);
	WAIT_UNTIL(a.n_done);
	assert_done(&a, MCPD_E_TIMEOUT, "Request timeout after 300ms");
	ck_assert(a.sent);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_call_on_a_connection_that_is_dead_unnoticed_waits_for_the_next)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	struct fake_transport *dead = last();
	/* As between a process's exit and the end of its tree: not connected any more, not closed yet. */
	call(&a, "a", "demo", 1);
	transport_close(server_of("demo")->main->instance->transport);
	call(&b, "b", "demo", 1);
	ck_assert_uint_eq(fake_count_of(dead, "tools/call"), 1);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(b.n_done, 0);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&b, 0, NULL);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

/* ---- HTTP's own ends ---- */

START_TEST(R30_a_lost_session_is_connected_anew_and_the_refused_call_repeated_once)
{
	struct transport_reply lost = { .code = MCPD_E_HTTP,
					.message = "HTTP 404: Session not found",
					.http_status = 404,
					.session_lost = true,
					.http_body = SPAN_LIT("x") };
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	struct fake_transport *old = last();
	call(&b, "b", "web", 2);
	struct fake_sent *other = fake_last(old, "tools/call");
	call(&a, "a", "web", 1);
	fake_fail(old, fake_last(old, "tools/call"), &lost);
	ck_assert_uint_eq(a.n_done, 0);
	ck_assert_uint_eq(f.n_made, 2);
	settle();
	/* A call that is still at work there may end there. */
	ck_assert(!fake_closed(old));
	fake_answer(old, other, "{\"b\":1}");
	assert_done(&b, 0, NULL);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 1);
	ck_assert_uint_eq(a.n_resent, 0);
	fake_fail(last(), fake_last(last(), "tools/call"), &lost);
	settle();
	assert_done(&a, MCPD_E_HTTP, "Session not found");
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_retired_connection_ends_with_its_server_at_the_latest)
{
	struct transport_reply lost = {
		.code = MCPD_E_HTTP, .message = "HTTP 404: gone", .http_status = 404, .session_lost = true, .sent = true
	};
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "web", 1);
	call(&b, "b", "web", 1);
	fake_fail(last(), fake_last(last(), "tools/call"), &lost);
	settle();
	ck_assert_uint_eq(a.n_done, 0);
	configure("");
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(f.m->n_instances, 0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_servers_long_answer_makes_no_long_error)
{
	char *longest = xnew_array(char, 100001);
	memset(longest, 'x', 100000);
	struct transport_reply auth = { .code = MCPD_E_NEEDS_AUTH, .message = longest, .http_status = 401 };
	struct server_info info;
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "web", 1);
	fake_fail(last(), fake_last(last(), "tools/call"), &auth);
	call(&b, "b", "web", 1);
	settle();
	ck_assert_uint_eq(strlen(a.message), 100000); /* the caller's own answer is whole */
	ck_assert_uint_lt(strlen(b.message), 10000);
	server_get_info(server_of("web"), &info);
	ck_assert_uint_lt(strlen(info.last_error), 10000);
	ck_assert_uint_lt(strlen(info.history[info.n_history - 1].reason), 10000);
	outcome_free(&a);
	outcome_free(&b);
	free(longest);
	fixture_done();
}
END_TEST

START_TEST(R30_what_may_have_run_is_not_repeated)
{
	struct transport_reply lost = { .code = MCPD_E_HTTP,
					.message = "HTTP 404: Session not found",
					.http_status = 404,
					.session_lost = true,
					.sent = true };
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "web", 1);
	fake_fail(last(), fake_last(last(), "tools/call"), &lost);
	settle();
	assert_done(&a, MCPD_E_HTTP, NULL);
	ck_assert(a.sent);
	assert_state("web", "reconnecting");
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_demand_for_authorization_puts_the_server_there)
{
	struct transport_reply auth = { .code = MCPD_E_NEEDS_AUTH,
					.message = "HTTP 401: who are you",
					.http_status = 401,
					.www_authenticate = "Bearer x" };
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "web", 1);
	fake_fail(last(), fake_last(last(), "tools/call"), &auth);
	settle();
	assert_done(&a, MCPD_E_NEEDS_AUTH, "who are you");
	ck_assert_str_eq(a.auth, "Bearer x");
	assert_state("web", "needs-auth");
	/* The next ones are told at once. */
	call(&b, "b", "web", 2);
	settle();
	assert_done(&b, MCPD_E_NEEDS_AUTH, "who are you");
	ck_assert_str_eq(b.auth, "Bearer x");
	ck_assert_uint_eq(f.n_made, 1);
	outcome_free(&a);
	outcome_free(&b);
	/* Also where it comes at the handshake, while calls wait; and later calls try once. */
	server_of("web")->main->retry_after_ms = 0;
	call(&a, "a", "web", 1);
	ck_assert_uint_eq(f.n_made, 2);
	settle();
	fake_fail(last(), fake_last(last(), fake_last(last(), "initialize") ? "initialize" : "server/discover"), &auth);
	settle();
	assert_done(&a, MCPD_E_NEEDS_AUTH, "who are you");
	assert_state("web", "needs-auth");
	STAYS(700, f.n_made == 2);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(an_http_server_that_is_not_reached_is_asked_whether_it_is_there)
{
	struct transport_reply refused = { .code = MCPD_E_TRANSPORT, .message = "Connection refused" };
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "web", 1);
	fake_fail(last(), fake_last(last(), "tools/call"), &refused);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Connection refused");
	struct fake_sent *ping = fake_last(last(), "ping");
	ck_assert(ping && ping->pending);
	assert_state("web", "connected");
	fake_fail(last(), ping, &refused);
	settle();
	assert_state("web", "reconnecting");
	outcome_free(&a);
	/* R7: it comes back by itself. */
	WAIT_UNTIL(f.n_made == 2);
	bring_up(last(), TOOLS_A);
	assert_state("web", "connected");
	fixture_done();
}
END_TEST

/* ---- callbacks that do things ---- */

static struct outcome again;

static void call_again(struct outcome *o)
{
	(void)o;
	call(&again, "again", "demo", 1);
}

START_TEST(a_done_may_call_again)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	a.then = call_again;
	call(&a, "a", "demo", 1);
	fake_exit(last(), NULL);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&again, 0, NULL);
	outcome_free(&a);
	outcome_free(&again);
	fixture_done();
}
END_TEST

static void remove_all(struct outcome *o)
{
	(void)o;
	configure("");
}

START_TEST(a_done_may_load_another_configuration)
{
	static const bool sent[] = { true, false };
	for (int i = 0; i < 2; i++) {
		memset(&a, 0, sizeof a);
		fixture_start(DEMO);
		if (sent[i])
			bring_up(last(), TOOLS_A);
		a.then = remove_all;
		call(&a, "a", "demo", 1);
		call(&b, "b", "demo", 1);
		if (sent[i])
			answer_call(last(), "{}"); /* the last one's */
		else
			server_cancel(server_of("demo"), a.number, "no");
		if (sent[i]) {
			assert_done(&b, 0, NULL);
			fake_answer(last(), fake_at(last(), fake_count(last()) - 2), "{}");
			assert_done(&a, 0, NULL);
		}
		settle();
		ck_assert_uint_eq(manager_count(f.m), 0);
		if (!sent[i])
			assert_done(&b, MCPD_E_UNAVAILABLE, "not configured any more");
		outcome_free(&a);
		outcome_free(&b);
		fixture_done();
	}
}
END_TEST

static void remove_server(struct server *server)
{
	(void)server;
	configure("'other':{'command':'y'}");
}

static void amend_server(struct server *server)
{
	(void)server;
	configure("'demo':{'command':'z'}");
}

START_TEST(a_new_connection_may_be_answered_with_another_configuration)
{
	fixture_start(DEMO);
	call(&a, "a", "demo", 1);
	f.in_reconnected = remove_server;
	bring_up(last(), TOOLS_A);
	settle();
	assert_done(&a, MCPD_E_UNAVAILABLE, "not configured any more");
	outcome_free(&a);
	fixture_done();

	fixture_start(DEMO);
	call(&a, "a", "demo", 1);
	f.in_reconnected = amend_server;
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	fixture_done();

	fixture_start("");
	f.in_server = remove_server;
	configure("'demo':{'command':'x'},'demo2':{'command':'x'}");
	settle();
	ck_assert_uint_eq(manager_count(f.m), 1);
	fixture_done();
}
END_TEST

static void set_level(struct server *server)
{
	call_with(&b, "level", server_name(server), 0, "logging/setLevel", "{\"level\":\"debug\"}", -1);
}

START_TEST(what_is_set_up_anew_goes_before_the_calls_that_waited)
{
	fixture_start(DEMO);
	call(&a, "a", "demo", 1);
	f.in_reconnected = set_level;
	bring_up(last(), TOOLS_A);
	assert_contains(fake_methods(last()), "tools/list logging/setLevel tools/call");
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(completions_inside_a_close_are_told_later)
{
	fixture_start("");
	f.fake.close_at_once = true;
	configure(SAFE);
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	a.then = call_again;
	configure("'demo':{'command':'y'}");
	ck_assert_uint_eq(a.n_done, 0);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&again, 0, NULL);
	outcome_free(&a);
	outcome_free(&again);
	fixture_done();
}
END_TEST

START_TEST(notifications_go_only_to_connected_servers)
{
	fixture_start(DEMO);
	ck_assert_int_lt(server_notify(server_of("demo"), 1, SPAN_LIT("\"notifications/x\""), SPAN_NONE), 0);
	bring_up(last(), TOOLS_A);
	ck_assert_int_eq(server_notify(server_of("demo"), 1, SPAN_LIT("\"notifications/x\""), SPAN_LIT("{\"n\":1}")),
			 0);
	ck_assert_str_eq(fake_last(last(), "notifications/x")->params, "{\"n\":1}");
	fake_notification(last(), "notifications/message", "{\"level\":\"info\"}");
	assert_contains(diary(), "demo notified 0 \"notifications/message\" {\"level\":\"info\"}");
	fixture_done();
}
END_TEST

static void call_this_process(struct outcome *o, const char *name, uint64_t client)
{
	*o = (struct outcome){ .name = name };
	o->number =
		server_call(server_of("demo"), &(struct server_call_options){ .client = client,
									      .method = SPAN_LIT("\"tasks/get\""),
									      .params = SPAN_LIT("{\"taskId\":\"1\"}"),
									      .timeout_ms = -1,
									      .this_process = true,
									      .done = outcome_done,
									      .arg = o });
	ck_assert_uint_eq(o->n_done, 0);
}

/* What only the process that is there knows is never asked of another one. */
START_TEST(a_call_about_this_process_waits_for_no_other)
{
	struct outcome a, b;
	fixture_start("'demo':{'command':'x'}");
	call_this_process(&a, "connecting", 1);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport not connected");
	ck_assert(!a.sent);
	outcome_free(&a);
	bring_up(last(), TOOLS_A);
	call_this_process(&a, "connected", 1);
	ck_assert_ptr_nonnull(fake_last(last(), "tasks/get"));
	fake_answer(last(), fake_last(last(), "tasks/get"), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	call_this_process(&a, "lost", 1);
	fake_exit(last(), "gone");
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	call_this_process(&b, "reconnecting", 1);
	settle();
	assert_done(&b, MCPD_E_TRANSPORT, "Transport not connected");
	WAIT_UNTIL(f.n_made == 2);
	bring_up(last(), TOOLS_A);
	STAYS(50, !fake_last(last(), "tasks/get"));
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_session_that_is_lost_takes_a_call_about_it_along)
{
	struct outcome a;
	fixture_start("'demo':{'type':'http','url':'http://localhost:1/mcp'}");
	bring_up(last(), TOOLS_A);
	call_this_process(&a, "a", 1);
	fake_fail(last(), fake_last(last(), "tasks/get"),
		  &(struct transport_reply){
			  .code = MCPD_E_HTTP, .http_status = 404, .session_lost = true, .message = "HTTP 404: gone" });
	settle();
	assert_done(&a, MCPD_E_HTTP, "HTTP 404");
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(progress_of_a_task_goes_up_with_its_name)
{
	struct outcome a = { 0 };
	fixture_start("'demo':{'command':'x'}");
	settle();
	shake_hands(last(), "{\"tools\":{},\"tasks\":{}}");
	answer_tools(last(), TOOLS_A);
	call_with(&a, "a", "demo", 1, "tools/call", "{\"name\":\"a\",\"task\":{}}", -1);
	struct span token = json_path(span_of(fake_last(last(), "tools/call")->params), "_meta", "progressToken", NULL);
	char *params = xasprintf("{\"progressToken\":%.*s,\"progress\":1}", (int)token.len, token.ptr);
	answer_call(last(), "{\"task\":{\"taskId\":\"t\",\"status\":\"working\"}}");
	diary();
	fake_notification(last(), "notifications/progress", params);
	assert_contains(diary(), "demo task 0 \"t\" progress {");
	free(params);
	outcome_free(&a);
	fixture_done();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"manager_calls", C3_one_deadline_covers_waiting_and_the_call, C1_the_servers_timeout_is_the_default,
		C4_a_cancelled_call_says_why, R12_a_timeout_ends_only_its_own_call, limits_are_named,
		answers_and_errors_pass_verbatim, progress_goes_to_the_asker,
		R5_R6_a_call_in_flight_at_a_loss_fails_at_once_and_is_never_repeated,
		M6_a_tool_that_is_retrySafe_is_sent_again_once,
		M6_a_repeated_call_that_never_runs_again_may_have_been_run,
		a_call_on_a_connection_that_is_dead_unnoticed_waits_for_the_next,
		R30_a_lost_session_is_connected_anew_and_the_refused_call_repeated_once,
		R30_what_may_have_run_is_not_repeated, a_retired_connection_ends_with_its_server_at_the_latest,
		a_servers_long_answer_makes_no_long_error, a_demand_for_authorization_puts_the_server_there,
		an_http_server_that_is_not_reached_is_asked_whether_it_is_there, a_done_may_call_again,
		a_done_may_load_another_configuration, a_new_connection_may_be_answered_with_another_configuration,
		what_is_set_up_anew_goes_before_the_calls_that_waited, completions_inside_a_close_are_told_later,
		notifications_go_only_to_connected_servers, a_call_about_this_process_waits_for_no_other,
		a_session_that_is_lost_takes_a_call_about_it_along, progress_of_a_task_goes_up_with_its_name);
}

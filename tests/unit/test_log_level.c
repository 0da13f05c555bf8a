/* Logging levels of single requests, beside those that clients set (router/log_level.h). */
#include "router/log_level.h"
#include "router_fixture.h"
#include "run.h"

#define CALL "\"tools/call\""
#define SET_LEVEL "\"logging/setLevel\""

static struct server *begin(void)
{
	fix_begin();
	for (uint64_t id = 1; id <= 3; id++)
		fix_client(id, NULL);
	return fake_add("s");
}

static void end(void)
{
	for (uint64_t id = 1; id <= 3; id++)
		router_client_gone(fix.router, id);
	fix_end();
}

/* A tools/call that asks for messages of this level. */
static void call_at(uint64_t client, struct server *server, const char *level, struct told *told)
{
	memset(told, 0, sizeof *told);
	told->row = router_request(fix.router, &(struct call_options){
						       .client = client,
						       .server = server,
						       .method = SPAN_LIT(CALL),
						       .params = SPAN_LIT("{}"),
						       .request_log_level = span_of(level),
						       .timeout_ms = -1,
						       .done = told_done,
						       .arg = told,
					       });
	ck_assert_uint_ne(told->row, 0);
}

static void set_level(uint64_t client, struct server *server, const char *level, struct told *told)
{
	char params[64];
	snprintf(params, sizeof params, "{\"level\":\"%s\"}", level);
	fix_request(client, server, SET_LEVEL, params, NULL, told);
}

static void message(struct server *server, uint64_t owner, const char *level)
{
	char params[64];
	snprintf(params, sizeof params, "{\"level\":\"%s\",\"data\":1}", level);
	fake.callbacks->on_notification(fake.arg, server, owner, SPAN_LIT("\"notifications/message\""),
					span_of(params));
}

/* The nth call is the daemon's own word to the server (or, with an owner, in its name). */
static void expect_told(int n, uint64_t owner, const char *level)
{
	char params[64];
	snprintf(params, sizeof params, "{\"level\":\"%s\"}", level);
	ck_assert_str_eq(fake_call_at(n)->method, SET_LEVEL);
	ck_assert_str_eq(fake_call_at(n)->params, params);
	ck_assert_uint_eq(fake_call_at(n)->client, owner);
	ck_assert(fake_call_at(n)->options.kept);
}

static void wait_for_calls(size_t n)
{
	int64_t limit = loop_now_ms() + 60000;
	while (fake.n_calls < n) {
		ck_assert_int_lt(loop_now_ms(), limit);
		loop_once(fix.loop, 50);
	}
	ck_assert_uint_eq(fake.n_calls, n);
}

START_TEST(a_legacy_server_is_told_before_the_request_that_wants_more)
{
	struct server *server = begin();
	struct told a, b;
	call_at(1, server, "\"warning\"", &a);
	ck_assert_uint_eq(fake.n_calls, 2);
	expect_told(0, 0, "warning");
	ck_assert_str_eq(fake_call_at(1)->method, CALL);
	fake_result(fake_call_at(0), "{}");
	/* What the server says already is not asked for again; what is more is. */
	call_at(2, server, "\"error\"", &b);
	ck_assert_uint_eq(fake.n_calls, 3);
	fake_result(fake_call_at(2), "{}");
	call_at(2, server, "\"de\\u0062ug\"", &b);
	ck_assert_uint_eq(fake.n_calls, 5);
	expect_told(3, 0, "debug");
	end();
}
END_TEST

START_TEST(messages_are_for_those_who_have_asked_for_them)
{
	struct server *server = begin();
	struct told a, b, c;
	router_client_set_modern(fix.router, 1);
	router_client_set_modern(fix.router, 2);
	message(server, 0, "emergency");
	ck_assert(!fix.wanted[1] && !fix.wanted[2] && fix.wanted[3]);
	call_at(1, server, "\"info\"", &a);
	fake_result(fake_call_at(0), "{}");
	message(server, 0, "info");
	ck_assert(fix.wanted[1] && !fix.wanted[2] && fix.wanted[3]);
	message(server, 0, "debug");
	ck_assert(!fix.wanted[1] && !fix.wanted[2] && !fix.wanted[3]);
	/* A second request that wants less takes nothing from the first. */
	call_at(1, server, "\"error\"", &b);
	message(server, 0, "info");
	ck_assert(fix.wanted[1]);
	fake_result(fake_call_at(1), "{}");
	message(server, 0, "info");
	ck_assert(!fix.wanted[1]);
	message(server, 0, "error");
	ck_assert(fix.wanted[1]);
	/* One of its requests at another server is no reason to be told here. */
	call_at(2, fake_add("other"), "\"debug\"", &c);
	message(server, 0, "error");
	ck_assert(!fix.wanted[2]);
	fake_result(fake_call_at(2), "{}");
	message(server, 0, "emergency");
	ck_assert(!fix.wanted[1]);
	end();
}
END_TEST

START_TEST(a_level_is_lowered_some_time_after_the_last_request)
{
	struct server *server = begin();
	struct told a, b;
	set_level(3, server, "error", &b);
	fake_result(fake_call_at(0), "{}");
	call_at(1, server, "\"debug\"", &a);
	expect_told(1, 0, "debug");
	fake_result(fake_call_at(1), "{}");
	fake_result(fake_call_at(2), "{}");
	int64_t ended_ms = loop_now_ms();
	/* Another one of the kind finds the server as it is. */
	fix_settle();
	call_at(2, server, "\"debug\"", &a);
	ck_assert_uint_eq(fake.n_calls, 4);
	fake_result(fake_call_at(3), "{}");
	wait_for_calls(5);
	ck_assert_int_ge(loop_now_ms() - ended_ms, LOG_LEVEL_LINGER_MS);
	expect_told(4, 0, "error");
	fake_result(fake_call_at(4), "{}");
	/* One that goes in between: no sooner. */
	call_at(1, server, "\"debug\"", &a);
	fake_result(fake_call_at(5), "{}");
	router_client_gone(fix.router, 1);
	ck_assert_uint_eq(fake.n_calls, 7);
	wait_for_calls(8);
	expect_told(7, 0, "error");
	router_client_gone(fix.router, 2);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(a_client_that_sets_its_level_takes_the_lowering_along)
{
	struct server *server = begin();
	struct told a, b;
	call_at(1, server, "\"debug\"", &a);
	fake_result(fake_call_at(0), "{}");
	fake_result(fake_call_at(1), "{}");
	set_level(3, server, "error", &b);
	ck_assert_uint_eq(fake.n_calls, 3);
	expect_told(2, 3, "error");
	fake_result(fake_call_at(2), "{}");
	ck_assert_str_eq(b.result, "{}");
	/* The clock that ran has stopped: nothing more is said. */
	int64_t until = loop_now_ms() + LOG_LEVEL_LINGER_MS + 200;
	while (loop_now_ms() < until)
		loop_once(fix.loop, 50);
	ck_assert_uint_eq(fake.n_calls, 3);
	end();
}
END_TEST

START_TEST(nobodys_level_is_info)
{
	struct server *server = begin();
	struct told a;
	call_at(1, server, "\"debug\"", &a);
	fake_result(fake_call_at(0), "{}");
	fake_result(fake_call_at(1), "{}");
	wait_for_calls(3);
	expect_told(2, 0, "info");
	fake_result(fake_call_at(2), "{}");
	set_level(2, server, "alert", &a);
	fake_result(fake_call_at(3), "{}");
	router_client_gone(fix.router, 2);
	ck_assert_uint_eq(fake.n_calls, 5);
	expect_told(4, 0, "info");
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

/* M4: a request that waits for a new connection has its level said there first. */
START_TEST(M4_a_new_connection_is_told_what_requests_under_way_want)
{
	struct server *server = begin();
	struct told a;
	fake_set_state(server, SERVER_CONNECTING);
	call_at(1, server, "\"notice\"", &a);
	ck_assert_uint_eq(fake.n_calls, 1);
	fake_set_state(server, SERVER_CONNECTED);
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	ck_assert_uint_eq(fake.n_calls, 2);
	expect_told(1, 0, "notice");
	fake_result(fake_call_at(1), "{}");
	fake_result(fake_call_at(0), "{}");
	end();
}
END_TEST

START_TEST(a_server_without_logging_is_told_nothing)
{
	struct server *server = begin();
	struct told a;
	fake_set_logging(server, false);
	call_at(1, server, "\"debug\"", &a);
	ck_assert_uint_eq(fake.n_calls, 1);
	ck_assert_str_eq(fake_call_at(0)->method, CALL);
	end();
}
END_TEST

START_TEST(a_server_that_refuses_is_not_asked_for_every_request)
{
	struct server *server = begin();
	struct told a, b;
	call_at(1, server, "\"debug\"", &a);
	fake_fail(fake_call_at(0), MCPD_E_SERVER, "MCP error -32601: no", true);
	call_at(1, server, "\"debug\"", &b);
	ck_assert_uint_eq(fake.n_calls, 3);
	ck_assert_str_eq(fake_call_at(2)->method, CALL);
	/* A new process may know better, and a client may ask for itself. */
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	ck_assert_uint_eq(fake.n_calls, 4);
	expect_told(3, 0, "debug");
	fake_fail(fake_call_at(3), MCPD_E_SERVER, "MCP error -32601: no", true);
	set_level(2, server, "debug", &b);
	expect_told(4, 2, "debug");
	end();
}
END_TEST

START_TEST(own_instances_are_told_apart)
{
	struct server *server = begin();
	struct told a, b;
	fake_set_sharing(server, CONFIG_PER_CLIENT);
	router_client_set_modern(fix.router, 1);
	router_client_set_modern(fix.router, 2);
	call_at(1, server, "\"debug\"", &a);
	expect_told(0, 1, "debug");
	call_at(2, server, "\"error\"", &b);
	expect_told(2, 2, "error");
	message(server, 1, "debug");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	message(server, 2, "debug");
	ck_assert(!fix.wanted[1] && !fix.wanted[2]);
	message(server, 2, "error");
	ck_assert(!fix.wanted[1] && fix.wanted[2]);
	end();
}
END_TEST

START_TEST(a_modern_server_gets_the_requests_own_level)
{
	struct server *server = begin();
	struct told a, b;
	fake_set_modern(server);
	set_level(1, server, "debug", &a);
	call_at(1, server, "\"error\"", &a);
	call_at(2, server, "\"info\"", &b);
	ck_assert_uint_eq(fake.n_calls, 2);
	ck_assert_str_eq(fake_call_at(0)->log_level, "\"error\"");
	ck_assert_str_eq(fake_call_at(1)->log_level, "\"info\"");
	message(server, 0, "info");
	ck_assert(fix.wanted[1] && fix.wanted[2]);
	message(server, 0, "debug");
	ck_assert(fix.wanted[1] && !fix.wanted[2] && !fix.wanted[3]);
	end();
}
END_TEST

/* What the client wants is known, the server's era is not: whatever connects is asked rightly. */
START_TEST(a_level_set_before_the_era_is_known_is_marked_as_kept)
{
	struct server *server = begin();
	struct told a;
	fake_set_state(server, SERVER_IDLE);
	set_level(1, server, "debug", &a);
	ck_assert(fake_call_at(0)->options.kept);
	set_level(1, server, "chatty", &a); /* no level, and not kept */
	ck_assert(!fake_call_at(1)->options.kept);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"log_level", a_legacy_server_is_told_before_the_request_that_wants_more,
		messages_are_for_those_who_have_asked_for_them, a_level_is_lowered_some_time_after_the_last_request,
		a_client_that_sets_its_level_takes_the_lowering_along, nobodys_level_is_info,
		M4_a_new_connection_is_told_what_requests_under_way_want, a_server_without_logging_is_told_nothing,
		a_server_that_refuses_is_not_asked_for_every_request, own_instances_are_told_apart,
		a_modern_server_gets_the_requests_own_level, a_level_set_before_the_era_is_known_is_marked_as_kept);
}

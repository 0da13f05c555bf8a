/* What keeps a connection current: list_changed, ttlMs, announcements' streams, pings, idle stop (R28, L5, H11,
 * R33), on scripted servers. */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"
#define WEB "'web':{'type':'http','url':'http://localhost:1/mcp'}"
#define LIST_CHANGED "notifications/tools/list_changed"
#define TOOLS_WITH_TTL(tools, ttl)                                                                                     \
	"{\"resultType\":\"complete\",\"tools\":" tools ",\"ttlMs\":" ttl ",\"cacheScope\":\"public\"}"

static struct outcome a;

static size_t lists(void)
{
	return fake_count_of(last(), "tools/list");
}

static bool tools_are(const char *name, const char *want)
{
	struct server_listing listing;
	server_get_list(server_of(name), SERVER_TOOLS, false, &listing);
	return span_is(listing.items, want);
}

START_TEST(R28_a_burst_of_list_changed_is_one_listing)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	diary();
	for (int i = 0; i < 50; i++)
		fake_notification(last(), LIST_CHANGED, NULL);
	ck_assert_uint_eq(lists(), 1);
	WAIT_UNTIL(lists() == 2);
	/* While one is under way, what comes is one more afterwards. */
	for (int i = 0; i < 3; i++) {
		fake_notification(last(), LIST_CHANGED, NULL);
		STAYS(120, lists() == 2);
	}
	answer_tools(last(), TOOLS_B);
	ck_assert(tools_are("demo", TOOLS_B));
	ck_assert_uint_eq(lists(), 3);
	answer_tools(last(), TOOLS_B);
	STAYS(200, lists() == 3);
	/* Told once: the second listing said nothing new. */
	const char *told = diary(), *first = strstr(told, "demo tools\n");
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_null(strstr(first + 1, "demo tools\n"));
	fixture_done();
}
END_TEST

START_TEST(R28_a_change_during_the_first_listing_is_not_missed)
{
	fixture_start(DEMO);
	settle();
	shake_hands(last(), "{\"tools\":{\"listChanged\":true}}");
	fake_notification(last(), LIST_CHANGED, NULL);
	answer_tools(last(), TOOLS_A);
	assert_state("demo", "connected");
	ck_assert_uint_eq(lists(), 2);
	answer_tools(last(), TOOLS_B);
	ck_assert(tools_are("demo", TOOLS_B));
	fixture_done();
}
END_TEST

START_TEST(R28_tools_are_listed_again_after_a_restart)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	fake_exit(last(), NULL);
	settle();
	diary();
	WAIT_UNTIL(f.n_made == 2);
	bring_up(last(), TOOLS_B);
	ck_assert(tools_are("demo", TOOLS_B));
	assert_contains(diary(), "demo tools\n");
	fixture_done();
}
END_TEST

START_TEST(a_refresh_that_fails_keeps_the_tools)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	fake_notification(last(), LIST_CHANGED, NULL);
	WAIT_UNTIL(lists() == 2);
	fake_error(last(), fake_last(last(), "tools/list"), "{\"code\":-32603,\"message\":\"x\"}");
	settle();
	assert_state("demo", "connected");
	struct server_listing listing;
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && span_is(listing.items, TOOLS_A));
	fixture_done();
}
END_TEST

START_TEST(a_list_whose_ttlMs_has_run_out_is_fetched_again_when_asked_for)
{
	struct server_listing listing;
	fixture_start(DEMO);
	bring_up_modern(last(), "{\"tools\":{}}", TOOLS_WITH_TTL(TOOLS_A, "0"));
	assert_state("demo", "connected");
	/* What has just come is fresh, whatever it says: those that waited for it must not wait for ever. */
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && !listing.deferred);
	ck_assert_uint_eq(lists(), 1);
	server_of("demo")->lists[SERVER_TOOLS].expires_ms = loop_now_ms() - 1;
	server_get_list(server_of("demo"), SERVER_TOOLS, false, &listing);
	ck_assert(listing.settled);
	ck_assert_uint_eq(lists(), 1);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(!listing.settled && !listing.deferred);
	ck_assert(span_is(listing.items, TOOLS_A));
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert_uint_eq(lists(), 2);
	fake_answer(last(), fake_last(last(), "tools/list"), TOOLS_WITH_TTL(TOOLS_B, "5000"));
	settle();
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && span_is(listing.items, TOOLS_B));
	ck_assert_int_gt(server_of("demo")->lists[SERVER_TOOLS].expires_ms, loop_now_ms() + 1000);
	/* A refetch that fails settles it as well. */
	server_of("demo")->lists[SERVER_TOOLS].expires_ms = loop_now_ms() - 1;
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	fake_error(last(), fake_last(last(), "tools/list"), "{\"code\":-32603,\"message\":\"x\"}");
	settle();
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && span_is(listing.items, TOOLS_B));
	ck_assert_uint_eq(lists(), 3);
	fixture_done();
}
END_TEST

/* ---- streams of announcements ---- */

START_TEST(modern_servers_are_asked_for_their_announcements)
{
	fixture_start(DEMO);
	bring_up_modern(last(),
			"{\"tools\":{\"listChanged\":true},\"prompts\":{},\"resources\":{\"listChanged\":true}}",
			TOOLS_WITH_TTL(TOOLS_A, "60000"));
	struct fake_sent *listen = fake_last(last(), "subscriptions/listen");
	ck_assert(listen && listen->pending);
	assert_contains(listen->params, "\"notifications\":{\"toolsListChanged\":true,\"resourcesListChanged\":true}");
	ck_assert_int_eq(listen->timeout_ms, 0);
	/* It is no client's call: the server counts as idle. */
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.in_flight, 0);
	ck_assert_uint_eq(manager_in_flight(f.m), 0);
	/* The stream ends: opened again, and the tools are listed, since a change may have been missed. */
	fake_answer(last(), listen, "{\"resultType\":\"complete\",\"_meta\":{}}");
	settle();
	ck_assert_uint_eq(fake_count_of(last(), "subscriptions/listen"), 1);
	WAIT_UNTIL(fake_count_of(last(), "subscriptions/listen") == 2);
	WAIT_UNTIL(lists() == 2);
	fixture_done();
}
END_TEST

START_TEST(a_modern_server_without_announcements_is_left_alone)
{
	fixture_start(DEMO);
	bring_up_modern(last(), "{\"tools\":{}}", TOOLS_WITH_TTL(TOOLS_A, "60000"));
	ck_assert_ptr_null(fake_last(last(), "subscriptions/listen"));
	fixture_done();
}
END_TEST

START_TEST(a_modern_server_that_cannot_listen_is_asked_once)
{
	fixture_start(DEMO);
	bring_up_modern(last(), "{\"tools\":{\"listChanged\":true}}", TOOLS_WITH_TTL(TOOLS_A, "60000"));
	fake_error(last(), fake_last(last(), "subscriptions/listen"), "{\"code\":-32601,\"message\":\"no\"}");
	STAYS(800, fake_count_of(last(), "subscriptions/listen") == 1);
	fixture_done();
}
END_TEST

START_TEST(H11_R33_the_listener_of_a_legacy_http_server_is_opened_again)
{
	fixture_start(WEB);
	settle();
	ck_assert_uint_eq(fake_listens(last()), 0);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_listens(last()), 1);
	call(&a, "a", "web", 1);
	fake_listener_end(last(), 200, "closed");
	settle();
	ck_assert_uint_eq(fake_listens(last()), 1);
	WAIT_UNTIL(fake_listens(last()) == 2);
	fake_listener_end(last(), 409, "HTTP 409: busy");
	WAIT_UNTIL(fake_listens(last()) == 3);
	/* Calls are unharmed, and what may have been missed is looked at. */
	ck_assert_uint_eq(a.n_done, 0);
	WAIT_UNTIL(lists() == 2);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(H11_405_switches_the_listener_off)
{
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	fake_listener_end(last(), 405, "HTTP 405");
	STAYS(800, fake_listens(last()) == 1);
	ck_assert_ptr_null(strstr(diary(), "reconnecting"));
	fixture_done();
}
END_TEST

START_TEST(H11_other_refusals_switch_it_off_the_second_time)
{
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	fake_listener_end(last(), 404, "HTTP 404");
	WAIT_UNTIL(fake_listens(last()) == 2);
	fake_listener_end(last(), 404, "HTTP 404");
	STAYS(1500, fake_listens(last()) == 2);
	assert_state("web", "connected");
	fixture_done();
}
END_TEST

START_TEST(R30_a_listener_that_worked_and_is_not_found_any_more_is_a_lost_session)
{
	fixture_start(WEB);
	bring_up(last(), TOOLS_A);
	fake_listener_end(last(), 200, "closed");
	WAIT_UNTIL(fake_listens(last()) == 2);
	fake_listener_end(last(), 404, "HTTP 404: Session not found");
	settle();
	assert_state("web", "reconnecting");
	WAIT_UNTIL(f.n_made == 2);
	bring_up(last(), TOOLS_A);
	assert_state("web", "connected");
	fixture_done();
}
END_TEST

START_TEST(stdio_servers_have_no_listener)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	STAYS(100, fake_listens(last()) == 0);
	fixture_done();
}
END_TEST

/* ---- alive, idle ---- */

START_TEST(a_server_that_answers_no_ping_is_lost)
{
	fixture_start("'demo':{'command':'x','pingInterval':100}");
	bring_up(last(), TOOLS_A);
	WAIT_UNTIL(fake_count_of(last(), "ping") == 1);
	fake_answer(last(), fake_last(last(), "ping"), "{}");
	WAIT_UNTIL(fake_count_of(last(), "ping") == 2);
	ck_assert_int_eq(fake_last(last(), "ping")->timeout_ms, 100);
	/* An error is an answer, too. */
	fake_error(last(), fake_last(last(), "ping"), "{\"code\":-32601,\"message\":\"no\"}");
	WAIT_UNTIL(fake_count_of(last(), "ping") == 3);
	call(&a, "a", "demo", 1);
	struct fake_transport *hung = last();
	fake_time_out(hung, fake_last(hung, "ping"));
	ck_assert(fake_closed(hung));
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	assert_state("demo", "reconnecting");
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	assert_contains(info.last_error, "did not answer a ping within");
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_is_heard_is_not_asked)
{
	fixture_start("'demo':{'command':'x','pingInterval':300}");
	bring_up(last(), TOOLS_A);
	for (int i = 0; i < 12; i++) {
		fake_notification(last(), "notifications/message", "{}");
		STAYS(50, fake_count_of(last(), "ping") == 0);
	}
	WAIT_UNTIL(fake_count_of(last(), "ping") == 1);
	/* Silent on the ping, but busy: it lives. */
	loop_once(f.loop, 5);
	loop_once(f.loop, 5);
	fake_notification(last(), "notifications/message", "{}");
	fake_time_out(last(), fake_last(last(), "ping"));
	settle();
	assert_state("demo", "connected");
	fixture_done();
}
END_TEST

START_TEST(idleTimeout_stops_a_server_without_calls)
{
	fixture_start("'demo':{'command':'x','idleTimeout':150}");
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	STAYS(400, state_of("demo") == SERVER_CONNECTED);
	answer_call(last(), "{}");
	outcome_free(&a);
	server_set_pinned(server_of("demo"), SERVER_PIN_TASKS, true);
	server_set_pinned(server_of("demo"), SERVER_PIN_SUBSCRIPTIONS, true);
	server_set_pinned(server_of("demo"), SERVER_PIN_TASKS, false);
	STAYS(400, state_of("demo") == SERVER_CONNECTED);
	server_set_pinned(server_of("demo"), SERVER_PIN_SUBSCRIPTIONS, false);
	WAIT_UNTIL(state_of("demo") == SERVER_IDLE);
	STAYS(600, f.n_made == 1);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	assert_contains(info.history[info.n_history - 1].reason, "idleTimeout");
	ck_assert_ptr_null(info.last_error);
	/* The next call starts it; its list is there meanwhile. */
	ck_assert(tools_are("demo", TOOLS_A));
	call(&a, "a", "demo", 1);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	fixture_done();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"manager_watch", R28_a_burst_of_list_changed_is_one_listing,
		R28_a_change_during_the_first_listing_is_not_missed, R28_tools_are_listed_again_after_a_restart,
		a_refresh_that_fails_keeps_the_tools, a_list_whose_ttlMs_has_run_out_is_fetched_again_when_asked_for,
		modern_servers_are_asked_for_their_announcements, a_modern_server_without_announcements_is_left_alone,
		a_modern_server_that_cannot_listen_is_asked_once,
		H11_R33_the_listener_of_a_legacy_http_server_is_opened_again, H11_405_switches_the_listener_off,
		H11_other_refusals_switch_it_off_the_second_time,
		R30_a_listener_that_worked_and_is_not_found_any_more_is_a_lost_session, stdio_servers_have_no_listener,
		a_server_that_answers_no_ping_is_lost, a_server_that_is_heard_is_not_asked,
		idleTimeout_stops_a_server_without_calls);
}

/* Resource subscriptions counted per client (PROTOCOL "mcp/request"). */
#include "router_fixture.h"
#include "run.h"

#define SUBSCRIBE "\"resources/subscribe\""
#define UNSUBSCRIBE "\"resources/unsubscribe\""
#define A "{\"uri\":\"file:///a\"}"

static void updated(struct server *server, uint64_t owner, const char *uri)
{
	char params[128];
	snprintf(params, sizeof params, "{\"uri\":\"%s\"}", uri);
	fake.callbacks->on_notification(fake.arg, server, owner, SPAN_LIT("\"notifications/resources/updated\""),
					span_of(params));
}

/* The last call is this one, from this client (0: the daemon). */
static void expect_last(size_t n, uint64_t client, const char *method)
{
	ck_assert_uint_eq(fake.n_calls, n);
	ck_assert_str_eq(fake_call_at(-1)->method, method);
	ck_assert_uint_eq(fake_call_at(-1)->client, client);
}

static struct server *begin_with_clients(void)
{
	fix_begin();
	for (uint64_t id = 1; id <= 3; id++)
		fix_client(id, NULL);
	return fake_add("s");
}

static void end_with_clients(void)
{
	for (uint64_t id = 1; id <= 3; id++)
		router_client_gone(fix.router, id);
	fix_end();
}

START_TEST(the_first_subscribe_and_the_last_unsubscribe_go_upstream)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	expect_last(1, 1, SUBSCRIBE);
	ck_assert_str_eq(fake_call_at(0)->params, A);
	fake_result(fake_call_at(0), "{\"_meta\":{}}");
	ck_assert_str_eq(a.result, "{\"_meta\":{}}");
	ck_assert(fake_pinned(server));
	/* Spelled another way: the same URI. */
	fix_request(2, server, SUBSCRIBE, "{\"uri\":\"file:\\u002f//a\"}", NULL, &b);
	ck_assert_uint_eq(b.done, 0);
	fix_settle();
	ck_assert_uint_eq(b.done, 1);
	ck_assert_str_eq(b.result, "{}");
	ck_assert_uint_eq(fake.n_calls, 1);
	updated(server, 0, "file:///a");
	ck_assert(fix.wanted[1] && fix.wanted[2] && !fix.wanted[3]);
	ck_assert_uint_eq(router_subscriptions(fix.router, 1), 1);
	fix_request(1, server, UNSUBSCRIBE, A, NULL, &a);
	fix_settle();
	ck_assert_str_eq(a.result, "{}");
	ck_assert_uint_eq(fake.n_calls, 1);
	updated(server, 0, "file:///a");
	ck_assert(!fix.wanted[1] && fix.wanted[2]);
	ck_assert(fake_pinned(server));
	fix_request(2, server, UNSUBSCRIBE, A, NULL, &b);
	expect_last(2, 2, UNSUBSCRIBE);
	fake_result(fake_call_at(1), "{}");
	ck_assert(!fake_pinned(server));
	updated(server, 0, "file:///a");
	ck_assert(!fix.wanted[1] && !fix.wanted[2]);
	end_with_clients();
}
END_TEST

START_TEST(updates_below_a_subscribed_uri_are_for_its_subscribers)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_result(fake_call_at(-1), "{}");
	fix_request(2, server, SUBSCRIBE, "{\"uri\":\"db://\"}", NULL, &b);
	fake_result(fake_call_at(-1), "{}");
	updated(server, 0, "file:///a/b");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	updated(server, 0, "file:///ab");
	ck_assert(!fix.wanted[1]);
	updated(server, 0, "db://t/1");
	ck_assert(fix.wanted[2] && !fix.wanted[1]);
	end_with_clients();
}
END_TEST

START_TEST(a_refused_subscribe_counts_for_nobody)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_fail(fake_call_at(0), MCPD_E_SERVER, "MCP error -32002: no such resource", true);
	ck_assert_int_eq(a.code, MCPD_E_SERVER);
	ck_assert(!fake_pinned(server));
	fix_request(2, server, SUBSCRIBE, A, NULL, &b);
	expect_last(2, 2, SUBSCRIBE);
	fake_fail(fake_call_at(1), MCPD_E_TRANSPORT, "Transport closed", true);
	fix_settle();
	ck_assert_uint_eq(fake.n_calls, 2);
	end_with_clients();
}
END_TEST

START_TEST(a_client_that_goes_is_unsubscribed)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_result(fake_call_at(0), "{}");
	fix_request(2, server, SUBSCRIBE, A, NULL, &b);
	fix_settle();
	router_client_gone(fix.router, 1);
	ck_assert_uint_eq(fake.n_calls, 1);
	router_client_gone(fix.router, 2);
	expect_last(2, 0, UNSUBSCRIBE);
	ck_assert_str_eq(fake_call_at(1)->params, A);
	fake_result(fake_call_at(1), "{}");
	ck_assert(!fake_pinned(server));
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(one_that_went_before_the_answer_is_unsubscribed_after_it)
{
	begin_with_clients();
	struct server *server = manager_at(fix.manager, 0);
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	router_client_gone(fix.router, 1);
	ck_assert_ptr_nonnull(fake_call_at(0)->cancelled);
	fake_result(fake_call_at(0), "{}");
	expect_last(2, 0, UNSUBSCRIBE);
	/* A new one comes before that has been answered: which of the two the server does last is not known. */
	fix_request(2, server, SUBSCRIBE, A, NULL, &b);
	expect_last(3, 2, SUBSCRIBE);
	fake_result(fake_call_at(2), "{}");
	fake_result(fake_call_at(1), "{}");
	expect_last(4, 0, SUBSCRIBE);
	fake_result(fake_call_at(3), "{}");
	updated(server, 0, "file:///a");
	ck_assert(fix.wanted[2]);
	router_client_gone(fix.router, 2);
	expect_last(5, 0, UNSUBSCRIBE);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(a_timed_out_subscribe_is_taken_back)
{
	struct server *server = begin_with_clients();
	struct told a;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_fail(fake_call_at(0), MCPD_E_TIMEOUT, "Request timeout after 1ms", true);
	expect_last(2, 0, UNSUBSCRIBE);
	fake_result(fake_call_at(1), "{}");
	end_with_clients();
}
END_TEST

START_TEST(an_unsubscribe_overtaking_its_subscribe_wins)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fix_request(1, server, UNSUBSCRIBE, A, NULL, &b);
	fix_settle();
	ck_assert_uint_eq(b.done, 1);
	fake_result(fake_call_at(0), "{}");
	expect_last(2, 0, UNSUBSCRIBE);
	updated(server, 0, "file:///a");
	ck_assert(!fix.wanted[1]);
	end_with_clients();
}
END_TEST

/* M4: a new connection knows nothing of what the old one was told. */
START_TEST(M4_subscriptions_are_made_again_after_a_reconnect)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_result(fake_call_at(0), "{}");
	fake_set_state(server, SERVER_RECONNECTING);
	fix_request(2, server, SUBSCRIBE, A, NULL, &b);
	fix_settle();
	ck_assert_uint_eq(b.done, 1);
	fake_set_state(server, SERVER_CONNECTED);
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	expect_last(2, 0, SUBSCRIBE);
	ck_assert_str_eq(fake_call_at(1)->params, A);
	fake_result(fake_call_at(1), "{}");
	updated(server, 0, "file:///a");
	ck_assert(fix.wanted[1] && fix.wanted[2]);
	/* Gone while there is no connection: nothing to be said, and nothing is made again. */
	fake_set_state(server, SERVER_RECONNECTING);
	router_client_gone(fix.router, 1);
	fix_request(2, server, UNSUBSCRIBE, A, NULL, &b);
	fix_settle();
	ck_assert_uint_eq(b.done, 1);
	fake_set_state(server, SERVER_CONNECTED);
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	ck_assert_uint_eq(fake.n_calls, 2);
	router_client_gone(fix.router, 2);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(own_instances_are_subscribed_one_by_one)
{
	struct server *server = begin_with_clients();
	fake_set_sharing(server, CONFIG_PER_CLIENT);
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fix_request(2, server, SUBSCRIBE, A, NULL, &b);
	expect_last(2, 2, SUBSCRIBE);
	fake_result(fake_call_at(0), "{}");
	fake_result(fake_call_at(1), "{}");
	updated(server, 2, "file:///a");
	ck_assert(!fix.wanted[1] && fix.wanted[2]);
	fake.callbacks->on_reconnected(fake.arg, server, 2);
	expect_last(3, 2, SUBSCRIBE);
	fake_result(fake_call_at(2), "{}");
	router_client_gone(fix.router, 2);
	ck_assert_uint_eq(fake.n_calls, 3); /* its instance ends with it */
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(release_forgets_what_was_subscribed)
{
	struct server *server = begin_with_clients();
	fake_set_sharing(server, CONFIG_EXCLUSIVE);
	fake_set_holder(server, 1);
	struct told a;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_result(fake_call_at(0), "{}");
	ck_assert_int_eq(router_release(fix.router, 2, server), -EPERM);
	ck_assert_int_eq(router_release(fix.router, 1, server), 0);
	ck_assert_uint_eq(router_subscriptions(fix.router, 1), 0);
	ck_assert_uint_eq(fake.n_calls, 1);
	end_with_clients();
}
END_TEST

START_TEST(a_removed_server_takes_its_subscriptions_along)
{
	struct server *server = begin_with_clients();
	struct told a, b;
	fix_request(1, server, SUBSCRIBE, A, NULL, &a);
	fake_result(fake_call_at(0), "{}");
	fix_request(2, server, SUBSCRIBE, "{\"uri\":\"u\"}", NULL, &b);
	fake_fail(fake_call_at(1), MCPD_E_TRANSPORT, "Transport closed", true);
	fake_remove(server);
	ck_assert_uint_eq(router_subscriptions(fix.router, 1), 0);
	end_with_clients();
}
END_TEST

START_TEST(what_is_no_subscription_is_the_servers_to_answer)
{
	struct server *server = begin_with_clients();
	struct told a;
	fix_request(1, server, SUBSCRIBE, "{\"uri\":7}", NULL, &a);
	expect_last(1, 1, SUBSCRIBE);
	fix_request(1, server, UNSUBSCRIBE, "{\"uri\":\"never\"}", NULL, &a);
	expect_last(2, 1, UNSUBSCRIBE);
	end_with_clients();
}
END_TEST

int main(void)
{
	return RUN_TESTS("subscriptions", the_first_subscribe_and_the_last_unsubscribe_go_upstream,
			 updates_below_a_subscribed_uri_are_for_its_subscribers, a_refused_subscribe_counts_for_nobody,
			 a_client_that_goes_is_unsubscribed, one_that_went_before_the_answer_is_unsubscribed_after_it,
			 a_timed_out_subscribe_is_taken_back, an_unsubscribe_overtaking_its_subscribe_wins,
			 M4_subscriptions_are_made_again_after_a_reconnect, own_instances_are_subscribed_one_by_one,
			 release_forgets_what_was_subscribed, a_removed_server_takes_its_subscriptions_along,
			 what_is_no_subscription_is_the_servers_to_answer);
}

/* Sharing modes, and whose a server's questions are (R25, ARCHITECTURE "Sharing"), on scripted servers. */
#include <errno.h>

#include "manager_fixture.h"
#include "run.h"

#define EACH "'demo':{'command':'x','sharing':'per-client','lazy':true}"
#define ONE "'demo':{'command':'x','sharing':'exclusive','lazy':true}"

static struct outcome a, a2, b, c, d;

/* What the server was told that its client can. */
static const char *told_capabilities(struct fake_transport *fake)
{
	return fake_last(fake, "initialize")->params;
}

static struct server_info info_of(const char *name)
{
	struct server_info info;
	server_get_info(server_of(name), &info);
	return info;
}

/* ---- per-client ---- */

START_TEST(R25_each_client_has_a_process_of_its_own)
{
	fixture_start(EACH);
	f.capabilities[1] = "{\"sampling\":{\"only\":\"mine\"}}";
	call(&a, "a", "demo", 1);
	call(&a2, "a2", "demo", 1);
	call(&b, "b", "demo", 2);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(f.made[0].fake, TOOLS_A);
	ck_assert_uint_eq(fake_count_of(f.made[0].fake, "tools/call"), 2);
	assert_contains(told_capabilities(f.made[0].fake), "{\"sampling\":{\"only\":\"mine\"}}");
	bring_up(f.made[1].fake, TOOLS_A);
	assert_contains(told_capabilities(f.made[1].fake), "\"capabilities\":{}");
	struct server_info info = info_of("demo");
	ck_assert_uint_eq(info.n_instances, 2);
	ck_assert_uint_eq(info.instances[0].client, 1);
	ck_assert_uint_eq(info.instances[0].in_flight, 2);
	ck_assert_uint_eq(info.instances[1].client, 2);
	ck_assert_int_eq(info.instances[1].state, SERVER_CONNECTED);
	ck_assert_int_eq(info.pid, 0);
	/* Notifications say whose process it was. */
	diary();
	fake_notification(f.made[1].fake, "notifications/message", "{}");
	ck_assert_str_eq(diary(), "demo notified 2 \"notifications/message\" {}\n");
	/* It ends with its client, and with nobody else. */
	manager_client_gone(f.m, 1);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	assert_done(&a2, MCPD_E_TRANSPORT, NULL);
	ck_assert_uint_eq(info_of("demo").n_instances, 1);
	ck_assert_uint_eq(b.n_done, 0);
	assert_state("demo", "connected");
	answer_call(f.made[1].fake, "{}");
	manager_client_gone(f.m, 2);
	settle();
	assert_state("demo", "idle");
	ck_assert_int_lt(server_notify(server_of("demo"), 2, SPAN_LIT("\"notifications/x\""), SPAN_NONE), 0);
	outcome_free(&a);
	outcome_free(&a2);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_client_that_goes_while_its_process_starts)
{
	fixture_start(EACH);
	call(&a, "a", "demo", 1);
	settle();
	manager_client_gone(f.m, 1);
	settle();
	assert_done(&a, MCPD_E_CANCELLED, NULL);
	assert_state("demo", "idle");
	STAYS(600, f.n_made == 1);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_is_not_shared_is_called_by_clients_only)
{
	fixture_start(EACH ",'sole':{'command':'x','sharing':'exclusive','lazy':true}");
	call(&a, "a", "demo", 0);
	call(&b, "b", "sole", 0);
	settle();
	assert_done(&a, MCPD_E_INTERNAL, "only clients");
	assert_done(&b, MCPD_E_INTERNAL, "only clients");
	ck_assert_uint_eq(f.n_made, 0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(the_tools_of_a_per_client_server_come_from_one_look)
{
	struct server_listing listing;
	fixture_start(EACH);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(!listing.settled);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert_uint_eq(f.n_made, 1);
	settle();
	shake_hands(last(), "{\"tools\":{}}");
	assert_contains(told_capabilities(last()), "\"sampling\":{}");
	answer_tools(last(), TOOLS_A);
	/* Looked at, and gone again. */
	assert_state("demo", "idle");
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && listing.deferred);
	ck_assert(span_is(listing.items, TOOLS_A));
	ck_assert_uint_eq(f.n_made, 1);
	ck_assert_uint_eq(info_of("demo").n_instances, 0);
	ck_assert_ptr_null(strstr(diary(), "new connection"));
	/* A client's process with the same tools: live. */
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && !listing.deferred);
	end_manager(0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(M1_a_per_client_server_that_is_not_lazy_is_looked_at_at_start)
{
	fixture_start("'demo':{'command':'x','sharing':'per-client'}");
	ck_assert_uint_eq(f.n_made, 1);
	bring_up(last(), TOOLS_A);
	settle();
	assert_state("demo", "idle");
	ck_assert_uint_eq(f.n_made, 1);
	fixture_done();
}
END_TEST

START_TEST(clients_with_few_capabilities_take_no_tools_from_the_others)
{
	struct server_listing listing;
	fixture_start("'demo':{'command':'x','sharing':'per-client'}");
	bring_up(last(), "[{\"name\":\"a\"},{\"name\":\"sampled\"}]");
	settle();
	diary();
	call(&a, "a", "demo", 1);
	bring_up(last(), "[{\"name\":\"a\"}]");
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(span_is(listing.items, "[{\"name\":\"a\"},{\"name\":\"sampled\"}]"));
	ck_assert_ptr_null(strstr(diary(), "demo tools"));
	end_manager(0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(losses_of_one_client_are_not_the_others)
{
	fixture_start(EACH);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	bring_up(f.made[0].fake, TOOLS_A);
	bring_up(f.made[1].fake, TOOLS_A);
	fake_exit(f.made[0].fake, "crash");
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	ck_assert_uint_eq(b.n_done, 0);
	struct server_info info = info_of("demo");
	ck_assert_int_eq(info.instances[0].state, SERVER_RECONNECTING);
	ck_assert_int_eq(info.instances[1].state, SERVER_CONNECTED);
	ck_assert_int_eq(info.state, SERVER_CONNECTED);
	answer_call(f.made[1].fake, "{}");
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

/* ---- exclusive ---- */

START_TEST(R25_an_exclusive_server_is_one_clients_at_a_time_and_new_for_the_next)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	call(&c, "c", "demo", 3);
	call(&a2, "a2", "demo", 1);
	ck_assert_uint_eq(f.n_made, 1);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 2);
	ck_assert_uint_eq(b.position, 1);
	ck_assert_uint_eq(c.position, 2);
	struct server_info info = info_of("demo");
	ck_assert_uint_eq(info.holder, 1);
	ck_assert_uint_eq(info.queue, 2);
	ck_assert_uint_eq(info.waiting, 2);
	ck_assert_uint_eq(info.n_instances, 0);
	/* Between calls it is still the holder's. */
	answer_call(last(), "{}");
	assert_done(&a2, 0, NULL);
	fake_answer(last(), fake_at(last(), fake_count(last()) - 2), "{}");
	assert_done(&a, 0, NULL);
	settle();
	ck_assert_uint_eq(f.n_made, 1);
	ck_assert_int_eq(server_release(server_of("demo"), 2), -EPERM);
	ck_assert_int_eq(server_release(server_of("demo"), 9), -EPERM);
	ck_assert_int_eq(server_release(server_of("demo"), 0), -EPERM);
	/* Released: a new process, once the old one has gone. */
	ck_assert_int_eq(server_release(server_of("demo"), 1), 0);
	ck_assert_uint_eq(f.n_made, 1);
	ck_assert_uint_eq(info_of("demo").holder, 2);
	settle();
	ck_assert_uint_eq(f.n_made, 2);
	ck_assert_uint_eq(c.position, 1);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 1);
	/* The holder's client dies in mid-call: the next in turn gets it. */
	manager_client_gone(f.m, 2);
	settle();
	assert_done(&b, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(f.n_made, 3);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{\"c\":3}");
	ck_assert_str_eq(c.result, "{\"c\":3}");
	manager_client_gone(f.m, 3);
	settle();
	assert_state("demo", "idle");
	ck_assert_uint_eq(info_of("demo").holder, 0);
	outcome_free(&a);
	outcome_free(&a2);
	outcome_free(&b);
	outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(a_place_in_the_queue_is_given_up_with_its_last_call)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	call_with(&b, "b", "demo", 2, "tools/call", "{}", 80);
	call(&c, "c", "demo", 3);
	call(&d, "d", "demo", 4);
	settle();
	ck_assert_uint_eq(d.position, 3);
	server_cancel(server_of("demo"), c.number, "no");
	settle();
	assert_done(&c, MCPD_E_CANCELLED, NULL);
	ck_assert_uint_eq(d.position, 2);
	WAIT_UNTIL(b.n_done);
	assert_done(&b, MCPD_E_TIMEOUT, "Request timeout after 80ms");
	settle();
	ck_assert_uint_eq(d.position, 1);
	manager_client_gone(f.m, 4);
	settle();
	assert_done(&d, MCPD_E_CANCELLED, NULL);
	ck_assert_uint_eq(info_of("demo").queue, 0);
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	outcome_free(&d);
	fixture_done();
}
END_TEST

START_TEST(the_queue_has_a_limit)
{
	fixture_start("");
	manager_configure(f.m, make_config(ONE, "'limits':{'maxExclusiveQueue':1}"), NULL);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	call(&c, "c", "demo", 3);
	call(&d, "d", "demo", 2); /* the same client's second call takes no second place */
	settle();
	assert_done(&c, MCPD_E_LIMIT, "maxExclusiveQueue");
	ck_assert_int_eq(c.limit, LIMIT_EXCLUSIVE_QUEUE);
	ck_assert_uint_eq(d.n_done, 0);
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	outcome_free(&d);
	fixture_done();
}
END_TEST

START_TEST(who_releases_with_calls_waiting_is_the_last_in_turn)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	settle();
	ck_assert_int_eq(server_release(server_of("demo"), 1), 0);
	settle();
	ck_assert_uint_eq(info_of("demo").holder, 2);
	ck_assert_uint_eq(a.position, 1);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&b, 0, NULL);
	ck_assert_int_eq(server_release(server_of("demo"), 2), 0);
	settle();
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_cannot_be_started_is_held_by_nobody)
{
	fixture_start(ONE);
	f.fake.connect_error = "no such command";
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	settle();
	assert_done(&a, MCPD_E_UNAVAILABLE, "no such command");
	assert_done(&b, MCPD_E_UNAVAILABLE, "no such command");
	ck_assert_uint_eq(info_of("demo").holder, 0);
	call(&c, "c", "demo", 3);
	settle();
	assert_done(&c, MCPD_E_UNAVAILABLE, "no such command");
	ck_assert_uint_eq(f.n_made, 1);
	f.fake.connect_error = NULL;
	server_of("demo")->main->retry_after_ms = 0;
	call(&d, "d", "demo", 4);
	ck_assert_uint_eq(info_of("demo").holder, 4);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&d, 0, NULL);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	outcome_free(&d);
	fixture_done();
}
END_TEST

static unsigned n_orders;
static bool order_failed;

static void on_order(void *arg, struct server *server, const struct transport_reply *failure)
{
	(void)arg;
	(void)server;
	n_orders++;
	order_failed = failure != NULL;
}

START_TEST(a_look_at_the_tools_gives_way_to_a_client)
{
	struct server_listing listing;
	fixture_start(ONE);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	n_orders = 0;
	server_order(server_of("demo"), SERVER_ORDER_CONNECT, -1, on_order, NULL);
	ck_assert_uint_eq(f.n_made, 1);
	settle();
	call(&a, "a", "demo", 1);
	ck_assert_uint_eq(f.n_made, 1); /* never two processes at once */
	settle();
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	server_get_list(server_of("demo"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.settled && !listing.deferred && span_is(listing.items, TOOLS_A));
	settle();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert(!order_failed);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_lost_holder_keeps_its_hold)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	call(&b, "b", "demo", 2);
	fake_exit(last(), NULL);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	ck_assert_uint_eq(info_of("demo").holder, 1);
	ck_assert_uint_eq(b.n_done, 0);
	outcome_free(&a);
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(another_sharing_mode_places_waiting_calls_anew)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	settle();
	configure("'demo':{'command':'x','sharing':'shared'}");
	settle();
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 2);
	configure("'demo':{'command':'x','sharing':'per-client'}");
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	assert_done(&b, MCPD_E_TRANSPORT, NULL);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(disconnected_by_hand_nobody_holds_it)
{
	fixture_start(ONE);
	call(&a, "a", "demo", 1);
	call(&b, "b", "demo", 2);
	bring_up(last(), TOOLS_A);
	n_orders = 0;
	server_order(server_of("demo"), SERVER_ORDER_DISCONNECT, -1, on_order, NULL);
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, NULL);
	assert_done(&b, MCPD_E_UNAVAILABLE, "disconnected by hand");
	ck_assert_uint_eq(info_of("demo").holder, 0);
	ck_assert_uint_eq(n_orders, 1);
	outcome_free(&a);
	outcome_free(&b);
	call(&a, "a", "demo", 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	ck_assert_uint_eq(info_of("demo").holder, 2);
	outcome_free(&a);
	fixture_done();
}
END_TEST

/* ---- questions ---- */

START_TEST(a_question_of_a_shared_server_comes_with_its_proof)
{
	fixture_start("'demo':{'command':'x'}");
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	diary();
	fake_request(last(), "1", "sampling/createMessage", "{\"x\":1}", NULL);
	ck_assert_str_eq(diary(), "demo asks \"sampling/createMessage\" sole-owner client 1 with call\n");
	ck_assert_uint_eq(f.asked.call, a.number);
	manager_answer(f.m, f.question, SPAN_LIT("{\"ok\":1.0}"), SPAN_NONE);
	ck_assert_str_eq(fake_last_response(last())->result, "{\"ok\":1.0}");
	manager_answer(f.m, f.question, SPAN_LIT("{\"ok\":2}"), SPAN_NONE);
	ck_assert_str_eq(fake_last_response(last())->result, "{\"ok\":1.0}");
	call(&b, "b", "demo", 2);
	fake_request(last(), "2", "sampling/createMessage", "{}", NULL);
	ck_assert_str_eq(diary(), "demo asks \"sampling/createMessage\" none client 0\n");
	manager_answer(f.m, f.question, SPAN_NONE, SPAN_LIT("{\"code\":-32603,\"message\":\"no proof\"}"));
	assert_contains(fake_last_response(last())->error, "no proof");
	server_note_refusal(server_of("demo"), "set sharing");
	ck_assert_str_eq(info_of("demo").advice, "set sharing");
	end_manager(0);
	outcome_free(&a);
	outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_process_of_its_own_asks_its_own_client)
{
	fixture_start(EACH);
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	diary();
	fake_request(last(), "\"q\"", "roots/list", "{}", NULL);
	ck_assert_str_eq(diary(), "demo asks \"roots/list\" no-call client 1 owned\n");
	/* The process ends: the question with it. */
	manager_client_gone(f.m, 1);
	settle();
	assert_contains(diary(), "withdrawn ");
	manager_answer(f.m, f.question, SPAN_LIT("{}"), SPAN_NONE);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(roots_outside_any_call_are_those_of_the_configuration)
{
	fixture_start("'demo':{'command':'x','roots':[{'uri':'file:///srv'}]},'none':{'command':'x'}");
	settle();
	shake_hands(f.made[0].fake, "{\"tools\":{}}");
	diary();
	/* Right after the handshake, with the daemon's own tools/list under way. */
	fake_request(f.made[0].fake, "0", "roots/list", NULL, NULL);
	assert_contains(fake_last_response(f.made[0].fake)->result, "{\"roots\":[{");
	assert_contains(fake_last_response(f.made[0].fake)->result, "file:///srv");
	bring_up(f.made[1].fake, TOOLS_A);
	fake_request(f.made[1].fake, "0", "roots/list", NULL, NULL);
	ck_assert_str_eq(fake_last_response(f.made[1].fake)->result, "{\"roots\":[]}");
	ck_assert_ptr_null(strstr(diary(), "asks"));
	/* With a call in flight they are the caller's. */
	call(&a, "a", "none", 1);
	fake_request(f.made[1].fake, "1", "roots/list", NULL, NULL);
	assert_contains(diary(), "none asks \"roots/list\" sole-owner client 1 with call\n");
	end_manager(0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_question_that_the_server_withdraws)
{
	fixture_start("'demo':{'command':'x'}");
	bring_up(last(), TOOLS_A);
	call(&a, "a", "demo", 1);
	fake_request(last(), "\"q\"", "elicitation/create", "{}", NULL);
	fake_notification(last(), "notifications/cancelled", "{\"requestId\":\"q\",\"reason\":\"never mind\"}");
	assert_contains(diary(), "withdrawn \"never mind\"\n");
	manager_answer(f.m, f.question, SPAN_LIT("{}"), SPAN_NONE);
	ck_assert_ptr_null(fake_last_response(last()));
	end_manager(0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"manager_sharing", R25_each_client_has_a_process_of_its_own,
		a_client_that_goes_while_its_process_starts, a_server_that_is_not_shared_is_called_by_clients_only,
		the_tools_of_a_per_client_server_come_from_one_look,
		M1_a_per_client_server_that_is_not_lazy_is_looked_at_at_start,
		clients_with_few_capabilities_take_no_tools_from_the_others, losses_of_one_client_are_not_the_others,
		R25_an_exclusive_server_is_one_clients_at_a_time_and_new_for_the_next,
		a_place_in_the_queue_is_given_up_with_its_last_call, the_queue_has_a_limit,
		who_releases_with_calls_waiting_is_the_last_in_turn, a_server_that_cannot_be_started_is_held_by_nobody,
		a_look_at_the_tools_gives_way_to_a_client, a_lost_holder_keeps_its_hold,
		another_sharing_mode_places_waiting_calls_anew, disconnected_by_hand_nobody_holds_it,
		a_question_of_a_shared_server_comes_with_its_proof, a_process_of_its_own_asks_its_own_client,
		roots_outside_any_call_are_those_of_the_configuration, a_question_that_the_server_withdraws);
}

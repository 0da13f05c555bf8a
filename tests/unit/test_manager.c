/* The manager: start, states, tool lists, reload, shutdown (M1 to M4, R1, R8 to R10, R37), on scripted servers. */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"

static const char *listing_of(const char *name, bool start, struct server_listing *ret)
{
	static char text[4096];
	server_get_list(server_of(name), SERVER_TOOLS, start, ret);
	snprintf(text, sizeof text, "%s%s%.*s", ret->settled ? "" : "unsettled ", ret->deferred ? "deferred " : "",
		 (int)ret->items.len, ret->items.ptr);
	return text;
}

#define assert_listing(name, start, want)                                                                              \
	do {                                                                                                           \
		struct server_listing listing_;                                                                        \
		ck_assert_str_eq(listing_of((name), (start), &listing_), (want));                                      \
	} while (0)

START_TEST(M1_servers_start_in_parallel_and_a_bad_one_hides_none)
{
	fixture_start("'a':{'command':'x'},'bad':{'command':5},'b':{'command':'x'},'lazy':{'command':'x','lazy':true},"
		      "'off':{'command':'x','enabled':false}");
	ck_assert_uint_eq(f.n_made, 2);
	settle();
	ck_assert_str_eq(diary(), "a connecting\nbad failed\nb connecting\nlazy idle\noff disabled\n");
	bring_up(f.made[1].fake, TOOLS_A);
	assert_state("b", "connected");
	assert_state("a", "connecting");
	bring_up(f.made[0].fake, TOOLS_B);
	assert_state("a", "connected");
	struct server_info info;
	server_get_info(server_of("a"), &info);
	ck_assert_uint_eq(info.tool_count, 2);
	ck_assert_str_eq(info.facts->protocol_version, "2025-11-25");
	ck_assert(span_is(info.facts->instructions, "\"be nice\""));
	ck_assert_ptr_nonnull(info.connected_at);
	server_get_info(server_of("bad"), &info);
	ck_assert_ptr_nonnull(info.last_error);
	ck_assert_ptr_eq(manager_at(f.m, 0), server_of("a"));
	ck_assert_ptr_eq(manager_at(f.m, 4), server_of("off"));
	ck_assert_uint_eq(manager_count(f.m), 5);
	ck_assert_ptr_null(manager_find(f.m, SPAN_LIT("none")));
	fixture_done();
}
END_TEST

START_TEST(L2_nothing_leaves_before_the_handshake_and_calls_wait_for_the_list)
{
	struct outcome o = { 0 };
	fixture_start(DEMO);
	call(&o, "one", "demo", 1);
	settle();
	shake_hands(last(), "{\"tools\":{}}");
	ck_assert_ptr_null(fake_last(last(), "tools/call"));
	assert_state("demo", "connecting");
	answer_tools(last(), TOOLS_A);
	ck_assert_str_eq(fake_methods(last()),
			 "server/discover initialize notifications/initialized tools/list tools/call");
	assert_contains(fake_last(last(), "tools/call")->params, "12345678901234567890123");
	answer_call(last(), "{\"n\":1.0}");
	assert_done(&o, 0, NULL);
	ck_assert_str_eq(o.result, "{\"n\":1.0}");
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(a_server_without_tools_is_connected_after_the_handshake)
{
	fixture_start(DEMO);
	settle();
	shake_hands(last(), "{\"prompts\":{}}");
	assert_state("demo", "connected");
	ck_assert_ptr_null(fake_last(last(), "tools/list"));
	assert_listing("demo", true, "[]");
	fixture_done();
}
END_TEST

START_TEST(R9_twenty_first_calls_start_a_lazy_server_once)
{
	struct outcome o[20] = { 0 };
	fixture_start("");
	manager_configure(f.m, make_config("'demo':{'command':'x','lazy':true}", "'limits':{'fairWindow':60}"), NULL);
	settle();
	ck_assert_uint_eq(f.n_made, 0);
	assert_state("demo", "idle");
	for (int i = 0; i < 20; i++)
		call(&o[i], "call", "demo", (uint64_t)(1 + i % 3));
	ck_assert_uint_eq(f.n_made, 1);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.waiting, 20);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(f.n_made, 1);
	ck_assert_uint_eq(fake_count_of(last(), "tools/call"), 20);
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.waiting, 0);
	ck_assert_uint_eq(info.in_flight, 20);
	ck_assert_uint_eq(manager_in_flight(f.m), 20);
	for (size_t i = 0; i < fake_count(last()); i++)
		if (strcmp(fake_at(last(), i)->method, "tools/call") == 0)
			fake_answer(last(), fake_at(last(), i), "{}");
	for (int i = 0; i < 20; i++) {
		assert_done(&o[i], 0, NULL);
		outcome_free(&o[i]);
	}
	ck_assert_uint_eq(manager_in_flight(f.m), 0);
	fixture_done();
}
END_TEST

START_TEST(a_failing_list_leaves_the_server_connected_with_the_error)
{
	struct outcome o = { 0 };
	fixture_start(DEMO);
	settle();
	call(&o, "one", "demo", 1);
	shake_hands(last(), "{\"tools\":{}}");
	fake_error(last(), fake_last(last(), "tools/list"), "{\"code\":-32603,\"message\":\"broken today\"}");
	settle();
	assert_state("demo", "connected");
	struct server_listing listing;
	ck_assert_str_eq(listing_of("demo", true, &listing), "deferred []");
	assert_contains(listing.error, "tools/list failed: MCP error");
	answer_call(last(), "{}");
	assert_done(&o, 0, NULL);
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(M2_cached_tools_are_there_at_once_and_replaced_by_the_live_ones)
{
	fixture_start_cached(DEMO);
	assert_listing("demo", true, "unsettled deferred []");
	bring_up(last(), TOOLS_A);
	assert_listing("demo", true, TOOLS_A);
	struct server_listing before, after;
	listing_of("demo", true, &before);

	restart(DEMO);
	ck_assert_str_eq(listing_of("demo", true, &after), "deferred " TOOLS_A);
	ck_assert_str_eq(before.revision, after.revision);
	bring_up(last(), TOOLS_A);
	assert_listing("demo", true, TOOLS_A);
	/* Nothing new, nobody is told. */
	ck_assert_ptr_null(strstr(diary(), "tools"));

	restart(DEMO);
	assert_listing("demo", true, "deferred " TOOLS_A);
	bring_up(last(), TOOLS_B);
	assert_listing("demo", true, TOOLS_B);
	ck_assert_ptr_nonnull(strstr(diary(), "demo tools\n"));
	listing_of("demo", true, &after);
	ck_assert_str_ne(before.revision, after.revision);
	fixture_done();
}
END_TEST

START_TEST(M3_another_definition_has_no_tools_of_the_former)
{
	fixture_start_cached(DEMO);
	bring_up(last(), TOOLS_A);
	restart("'demo':{'command':'x','env':{'A':'1'}}");
	assert_listing("demo", true, "unsettled deferred []");
	fixture_done();
}
END_TEST

START_TEST(R1_a_lazy_server_with_a_cache_is_not_started_by_a_listing)
{
	fixture_start_cached("'demo':{'command':'x','lazy':true}");
	assert_listing("demo", false, "deferred []");
	ck_assert_uint_eq(f.n_made, 0);
	assert_listing("demo", true, "unsettled deferred []");
	ck_assert_uint_eq(f.n_made, 1);
	bring_up(last(), TOOLS_A);
	assert_listing("demo", true, TOOLS_A);
	restart("'demo':{'command':'x','lazy':true}");
	assert_listing("demo", true, "deferred " TOOLS_A);
	ck_assert_uint_eq(f.n_made, 1);
	fixture_done();
}
END_TEST

START_TEST(the_era_is_remembered_and_probed_anew_when_it_fails)
{
	fixture_start_cached(DEMO);
	bring_up(last(), TOOLS_A);
	restart(DEMO);
	settle();
	/* No probe any more. */
	ck_assert_str_eq(fake_methods(last()), "initialize");
	/* The server has become a modern one: forgotten, started again at once, and that is no loss. */
	fake_error(last(), fake_last(last(), "initialize"), "{\"code\":-32601,\"message\":\"Method not found\"}");
	settle();
	ck_assert_uint_eq(f.n_made, 3);
	ck_assert_str_eq(fake_methods(last()), "server/discover");
	bring_up_modern(last(), "{\"tools\":{}}",
			"{\"resultType\":\"complete\",\"tools\":" TOOLS_A
			",\"ttlMs\":3600000,\"cacheScope\":\"public\"}");
	assert_state("demo", "connected");
	ck_assert_ptr_null(strstr(diary(), "reconnecting"));
	restart(DEMO);
	settle();
	ck_assert_str_eq(fake_methods(last()), "server/discover");
	struct server *server = server_of("demo");
	ck_assert_int_eq(server->era, MCP_ERA_MODERN);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_exits_on_the_probe_is_started_again_without_it)
{
	struct outcome o = { 0 };
	fixture_start(DEMO);
	call(&o, "one", "demo", 1);
	settle();
	fake_exit(last(), "exit status 1");
	settle();
	ck_assert_uint_eq(f.n_made, 2);
	ck_assert_str_eq(fake_methods(last()), "initialize");
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&o, 0, NULL);
	ck_assert_ptr_null(strstr(diary(), "reconnecting"));
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(R10_a_command_that_cannot_run_fails_at_once_with_the_reason)
{
	struct outcome waiting = { 0 }, later = { 0 };
	fixture_start("");
	f.fake = (struct fake_options){ .connect_error = "nosuch: No such file or directory (searched /bin)" };
	configure(DEMO);
	call(&waiting, "waiting", "demo", 1);
	settle();
	assert_state("demo", "failed");
	assert_done(&waiting, MCPD_E_UNAVAILABLE, "No such file or directory");
	call(&later, "later", "demo", 1);
	settle();
	assert_done(&later, MCPD_E_UNAVAILABLE, "Server \"demo\" is failed: ");
	ck_assert_uint_eq(f.n_made, 1);
	struct server_listing listing;
	ck_assert_str_eq(listing_of("demo", true, &listing), "deferred []");
	assert_contains(listing.error, "No such file or directory");
	outcome_free(&waiting);
	outcome_free(&later);
	fixture_done();
}
END_TEST

START_TEST(calls_to_disabled_and_invalid_servers_say_what_to_do)
{
	struct outcome off = { 0 }, bad = { 0 };
	fixture_start("'off':{'command':'x','enabled':false},'bad':{'type':'carrier-pigeon','command':'x'}");
	call(&off, "off", "off", 1);
	call(&bad, "bad", "bad", 1);
	settle();
	assert_done(&off, MCPD_E_UNAVAILABLE, "\"enabled\" in /etc/test.json");
	assert_done(&bad, MCPD_E_UNAVAILABLE, "Unknown server type: carrier-pigeon");
	struct server_listing listing;
	server_get_list(server_of("off"), SERVER_TOOLS, true, &listing);
	ck_assert(!listing.visible);
	server_get_list(server_of("bad"), SERVER_TOOLS, true, &listing);
	ck_assert(listing.visible && listing.settled);
	assert_contains(listing.error, "carrier-pigeon");
	outcome_free(&off);
	outcome_free(&bad);
	fixture_done();
}
END_TEST

/* ---- by hand ---- */

static unsigned n_orders;
static int order_code;
static char order_message[256];

static void on_order(void *arg, struct server *server, const struct transport_reply *failure)
{
	(void)arg;
	(void)server;
	n_orders++;
	order_code = failure ? failure->code : 0;
	snprintf(order_message, sizeof order_message, "%s", failure ? failure->message : "");
}

static void order(const char *name, enum server_order kind, int64_t timeout_ms)
{
	n_orders = 0;
	server_order(server_of(name), kind, timeout_ms, on_order, NULL);
	ck_assert_uint_eq(n_orders, 0);
}

START_TEST(disconnected_by_hand_stays_so_until_a_call)
{
	struct outcome o = { 0 }, o2 = { 0 };
	fixture_start_cached("'demo':{'command':'x','retrySafe':['a']}");
	bring_up(last(), TOOLS_A);
	call(&o, "one", "demo", 1);
	order("demo", SERVER_ORDER_DISCONNECT, -1);
	ck_assert_uint_eq(f.n_made, 1);
	settle();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_int_eq(order_code, 0);
	/* Not repeated: it was ended by hand. */
	assert_done(&o, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert(o.sent);
	assert_state("demo", "idle");
	assert_listing("demo", true, "deferred " TOOLS_A);
	STAYS(700, f.n_made == 1);
	/* A reload with the same definition is no reason either. */
	configure("'demo':{'command':'x','retrySafe':['a']}");
	configure("'demo':{'command':'x','retrySafe':['b']}");
	settle();
	ck_assert_uint_eq(f.n_made, 1);
	call(&o2, "two", "demo", 1);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&o2, 0, NULL);
	outcome_free(&o);
	outcome_free(&o2);
	fixture_done();
}
END_TEST

START_TEST(at_rest_is_when_nothing_would_be_lost)
{
	struct outcome o = { 0 };
	fixture_start("'lazy':{'command':'x','lazy':true},'off':{'command':'x','enabled':false},'bad':{'command':5}");
	settle();
	ck_assert(manager_at_rest(f.m));
	call(&o, "one", "lazy", 1);
	ck_assert(!manager_at_rest(f.m));
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&o, 0, NULL);
	/* It runs. */
	ck_assert(!manager_at_rest(f.m));
	order("lazy", SERVER_ORDER_DISCONNECT, -1);
	settle();
	/* That was by hand, but a new daemon would not start it either. */
	ck_assert(manager_at_rest(f.m));
	/* Connecting, connected, to be tried again, and stopped by hand though it is not lazy. */
	configure("'demo':{'command':'x'}");
	ck_assert(!manager_at_rest(f.m));
	bring_up(last(), TOOLS_A);
	ck_assert(!manager_at_rest(f.m));
	fake_exit(last(), "exited");
	settle();
	assert_state("demo", "reconnecting");
	ck_assert(!manager_at_rest(f.m));
	order("demo", SERVER_ORDER_DISCONNECT, -1);
	settle();
	ck_assert(!manager_at_rest(f.m));
	configure("'demo':{'command':'x','lazy':true}");
	settle();
	ck_assert(manager_at_rest(f.m));
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(connect_and_reconnect_by_hand)
{
	struct outcome o = { 0 };
	fixture_start("'demo':{'command':'x','lazy':true}");
	order("demo", SERVER_ORDER_CONNECT, -1);
	settle();
	ck_assert_uint_eq(n_orders, 0);
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_int_eq(order_code, 0);
	/* Again: it is there already. */
	order("demo", SERVER_ORDER_CONNECT, -1);
	settle();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_uint_eq(f.n_made, 1);
	call(&o, "one", "demo", 1);
	order("demo", SERVER_ORDER_RECONNECT, -1);
	settle();
	ck_assert_uint_eq(f.n_made, 2);
	assert_done(&o, MCPD_E_TRANSPORT, "Transport closed");
	bring_up(last(), TOOLS_A);
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_int_eq(order_code, 0);
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(an_order_that_cannot_be_done_says_why)
{
	fixture_start("'demo':{'command':'x','lazy':true},'off':{'command':'x','enabled':false},'bad':{}");
	order("off", SERVER_ORDER_CONNECT, -1);
	settle();
	ck_assert_int_eq(order_code, MCPD_E_UNAVAILABLE);
	assert_contains(order_message, "disabled");
	order("bad", SERVER_ORDER_CONNECT, -1);
	settle();
	ck_assert_int_eq(order_code, MCPD_E_UNAVAILABLE);
	/* The first attempt's failure is the answer; it goes on trying behind. */
	order("demo", SERVER_ORDER_CONNECT, -1);
	settle();
	shake_hands(last(), "{\"tools\":{}}");
	fake_exit(last(), "exit status 3");
	settle();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_int_eq(order_code, MCPD_E_UNAVAILABLE);
	assert_contains(order_message, "exit status 3");
	assert_state("demo", "reconnecting");
	/* By hand there is no waiting for the clock. */
	size_t before = f.n_made;
	order("demo", SERVER_ORDER_CONNECT, 50);
	ck_assert_uint_eq(f.n_made, before + 1);
	WAIT_UNTIL(n_orders == 1);
	ck_assert_int_eq(order_code, MCPD_E_TIMEOUT);
	ck_assert_str_eq(order_message, "Request timeout after 50ms");
	/* One that waits when the server goes from the configuration. */
	order("demo", SERVER_ORDER_CONNECT, 0);
	configure("");
	settle();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert_int_eq(order_code, MCPD_E_UNAVAILABLE);
	fixture_done();
}
END_TEST

/* ---- reload ---- */

START_TEST(a_reload_touches_only_what_changed)
{
	struct manager_changes changes;
	struct outcome same = { 0 }, moved = { 0 }, gone = { 0 };
	fixture_start("'same':{'command':'x'},'moved':{'command':'x'},'gone':{'command':'x'}");
	for (int i = 0; i < 3; i++)
		bring_up(f.made[i].fake, TOOLS_A);
	call(&same, "same", "same", 1);
	call(&moved, "moved", "moved", 1);
	call(&gone, "gone", "gone", 1);
	uint64_t id = server_id(server_of("same")), moved_id = server_id(server_of("moved"));
	diary();
	manager_configure(f.m,
			  make_config("'new':{'command':'x'},'moved':{'command':'y'},'same':{'command':'x'}", NULL),
			  &changes);
	ck_assert_str_eq(changes.added[0], "new");
	ck_assert_ptr_null(changes.added[1]);
	ck_assert_str_eq(changes.changed[0], "moved");
	ck_assert_ptr_null(changes.changed[1]);
	ck_assert_str_eq(changes.removed[0], "gone");
	ck_assert_ptr_null(changes.removed[1]);
	ck_assert_uint_eq(changes.unchanged, 1);
	manager_changes_done(&changes);
	settle();
	ck_assert_ptr_eq(manager_at(f.m, 0), server_of("new"));
	ck_assert_ptr_eq(manager_at(f.m, 2), server_of("same"));
	ck_assert_uint_eq(server_id(server_of("same")), id);
	ck_assert_uint_eq(server_id(server_of("moved")), moved_id);
	ck_assert_ptr_null(manager_find(f.m, SPAN_LIT("gone")));
	assert_done(&moved, MCPD_E_TRANSPORT, "Transport closed");
	assert_done(&gone, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_uint_eq(same.n_done, 0);
	ck_assert_uint_eq(f.n_made, 5);
	const char *told = diary();
	assert_contains(told, "gone removed\n");
	assert_contains(told, "new connecting\n");
	assert_contains(told, "moved connecting\n");
	answer_call(f.made[0].fake, "{}");
	assert_done(&same, 0, NULL);
	outcome_free(&same);
	outcome_free(&moved);
	outcome_free(&gone);
	fixture_done();
}
END_TEST

START_TEST(a_change_that_is_no_other_server_keeps_the_process)
{
	struct manager_changes changes;
	struct outcome o = { 0 };
	fixture_start("'demo':{'command':'x','timeout':1000}");
	bring_up(last(), TOOLS_A);
	call(&o, "one", "demo", 1);
	manager_configure(f.m, make_config("'demo':{'command':'x','timeout':77000,'idleTimeout':100000}", NULL),
			  &changes);
	ck_assert_str_eq(changes.changed[0], "demo");
	manager_changes_done(&changes);
	settle();
	ck_assert_uint_eq(f.n_made, 1);
	ck_assert_uint_eq(o.n_done, 0);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_int_eq(info.config->timeout_ms, 77000);
	answer_call(last(), "{}");
	outcome_free(&o);
	call(&o, "two", "demo", 1);
	ck_assert_int_eq(fake_last(last(), "tools/call")->timeout_ms, 77000);
	answer_call(last(), "{}");
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(calls_that_wait_run_on_the_new_definition)
{
	struct outcome o = { 0 };
	fixture_start(DEMO);
	call(&o, "one", "demo", 1);
	settle();
	configure("'demo':{'command':'y'}");
	settle();
	ck_assert_uint_eq(o.n_done, 0);
	ck_assert_uint_eq(f.n_made, 2);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&o, 0, NULL);
	outcome_free(&o);
	call(&o, "two", "demo", 1);
	configure("'demo':{'command':'y','enabled':false}");
	settle();
	assert_done(&o, MCPD_E_TRANSPORT, "Transport closed");
	assert_state("demo", "disabled");
	outcome_free(&o);
	fixture_done();
}
END_TEST

START_TEST(another_environment_restarts_the_children_only)
{
	fixture_start("");
	manager_configure(f.m,
			  make_config("'demo':{'command':'x'},'web':{'type':'http','url':'http://localhost:1/'}",
				      "'environment':{'A':'1'}"),
			  NULL);
	ck_assert_uint_eq(f.n_made, 2);
	manager_configure(f.m,
			  make_config("'demo':{'command':'x'},'web':{'type':'http','url':'http://localhost:1/'}",
				      "'environment':{'A':'2'}"),
			  NULL);
	ck_assert_uint_eq(f.n_made, 3);
	ck_assert_str_eq(f.made[2].server, "demo");
	settle();
	fixture_done();
}
END_TEST

START_TEST(a_change_is_a_reason_to_try_a_failed_server_again)
{
	fixture_start("");
	f.fake = (struct fake_options){ .connect_error = "cannot" };
	configure(DEMO);
	settle();
	assert_state("demo", "failed");
	f.fake = (struct fake_options){ 0 };
	configure(DEMO);
	settle();
	assert_state("demo", "failed");
	configure("'demo':{'command':'x','timeout':5}");
	settle();
	bring_up(last(), TOOLS_A);
	assert_state("demo", "connected");
	fixture_done();
}
END_TEST

/* ---- shutdown ---- */

START_TEST(shutdown_lets_calls_in_flight_end)
{
	struct outcome o = { 0 }, late = { 0 };
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	call(&o, "one", "demo", 1);
	manager_shutdown(f.m, 60000, on_shut, NULL);
	settle();
	ck_assert(!f.shut);
	call(&late, "late", "demo", 1);
	settle();
	assert_done(&late, MCPD_E_UNAVAILABLE, "shutting down");
	answer_call(last(), "{}");
	assert_done(&o, 0, NULL);
	WAIT_UNTIL(f.shut);
	manager_free(f.m);
	f.m = NULL;
	outcome_free(&o);
	outcome_free(&late);
	fixture_done();
}
END_TEST

START_TEST(shutdown_ends_what_does_not_end_by_itself)
{
	struct outcome sent = { 0 }, waiting = { 0 };
	fixture_start("'demo':{'command':'x'},'slow':{'command':'x'}");
	bring_up(f.made[0].fake, TOOLS_A);
	call(&sent, "sent", "demo", 1);
	call(&waiting, "waiting", "slow", 1);
	order("slow", SERVER_ORDER_CONNECT, -1);
	end_manager(50);
	assert_done(&sent, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert(sent.sent);
	assert_done(&waiting, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert(!waiting.sent);
	ck_assert_uint_eq(n_orders, 1);
	outcome_free(&sent);
	outcome_free(&waiting);
	fixture_done();
}
END_TEST

static void free_inside(void *arg)
{
	(void)arg;
	manager_free(f.m);
	f.m = NULL;
}

START_TEST(the_manager_may_be_freed_when_the_shutdown_is_told)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	manager_shutdown(f.m, 0, free_inside, NULL);
	WAIT_UNTIL(f.m == NULL);
	fixture_done();
}
END_TEST

/* ---- log and history ---- */

static void add_line(void *arg, const char *at, struct span text)
{
	(void)at;
	buf_addf(arg, "%.*s|", (int)text.len, text.ptr);
}

START_TEST(S13_the_log_is_kept_and_bounded)
{
	struct buf lines = BUF_INIT;
	fixture_start("");
	manager_configure(f.m, make_config(DEMO, "'limits':{'logLines':10,'logLineBytes':256}"), NULL);
	settle();
	for (int i = 0; i < 25; i++) {
		char text[16];
		snprintf(text, sizeof text, "line %d", i);
		fake_log(last(), text);
	}
	server_walk_log(server_of("demo"), 3, add_line, &lines);
	ck_assert_str_eq(lines.data, "line 22|line 23|line 24|");
	buf_reset(&lines);
	server_walk_log(server_of("demo"), 1000, add_line, &lines);
	ck_assert_ptr_eq(strstr(lines.data, "line 15|"), lines.data);
	buf_reset(&lines);
	/* Cut, but not through a character. */
	char longest[400];
	memset(longest, 'a', 255);
	strcpy(longest + 255, "\xe2\x82\xac and more");
	fake_log(last(), longest);
	server_walk_log(server_of("demo"), 1, add_line, &lines);
	ck_assert_uint_eq(lines.len, 255 + 1);
	assert_contains(diary(), "demo log line 7\n");
	buf_done(&lines);
	fixture_done();
}
END_TEST

START_TEST(the_history_is_kept_and_bounded)
{
	struct server_info info;
	fixture_start("");
	manager_configure(f.m, make_config("'demo':{'command':'x','lazy':true}", "'limits':{'historyEntries':4}"),
			  NULL);
	for (int i = 0; i < 5; i++) {
		order("demo", SERVER_ORDER_CONNECT, -1);
		bring_up(last(), TOOLS_A);
		order("demo", SERVER_ORDER_DISCONNECT, -1);
		settle();
	}
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.n_history, 4);
	ck_assert_int_eq(info.history[0].state, SERVER_IDLE);
	ck_assert_int_eq(info.history[1].state, SERVER_CONNECTING);
	ck_assert_str_eq(info.history[1].reason, "asked for by hand");
	ck_assert_int_eq(info.history[2].state, SERVER_CONNECTED);
	ck_assert_int_eq(info.history[3].state, SERVER_IDLE);
	ck_assert_str_eq(info.history[3].reason, "disconnected by hand");
	fixture_done();
}
END_TEST

int main(void)
{
	return RUN_TESTS("manager", M1_servers_start_in_parallel_and_a_bad_one_hides_none,
			 L2_nothing_leaves_before_the_handshake_and_calls_wait_for_the_list,
			 a_server_without_tools_is_connected_after_the_handshake,
			 R9_twenty_first_calls_start_a_lazy_server_once,
			 a_failing_list_leaves_the_server_connected_with_the_error,
			 M2_cached_tools_are_there_at_once_and_replaced_by_the_live_ones,
			 M3_another_definition_has_no_tools_of_the_former,
			 R1_a_lazy_server_with_a_cache_is_not_started_by_a_listing,
			 the_era_is_remembered_and_probed_anew_when_it_fails,
			 a_server_that_exits_on_the_probe_is_started_again_without_it,
			 R10_a_command_that_cannot_run_fails_at_once_with_the_reason,
			 calls_to_disabled_and_invalid_servers_say_what_to_do,
			 disconnected_by_hand_stays_so_until_a_call, at_rest_is_when_nothing_would_be_lost,
			 connect_and_reconnect_by_hand, an_order_that_cannot_be_done_says_why,
			 a_reload_touches_only_what_changed, a_change_that_is_no_other_server_keeps_the_process,
			 calls_that_wait_run_on_the_new_definition, another_environment_restarts_the_children_only,
			 a_change_is_a_reason_to_try_a_failed_server_again, shutdown_lets_calls_in_flight_end,
			 shutdown_ends_what_does_not_end_by_itself, the_manager_may_be_freed_when_the_shutdown_is_told,
			 S13_the_log_is_kept_and_bounded, the_history_is_kept_and_bounded);
}

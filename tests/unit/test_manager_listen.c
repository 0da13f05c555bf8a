/* Resource subscriptions at modern servers: the daemon's own subscriptions/listen (manager/listen.h), on scripted
 * servers. */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"
#define LISTEN "subscriptions/listen"
#define NO_TOOLS "{\"resultType\":\"complete\",\"tools\":[],\"ttlMs\":60000,\"cacheScope\":\"public\"}"
#define ANNOUNCES "{\"tools\":{\"listChanged\":true},\"resources\":{\"subscribe\":true}}"
#define SILENT "{\"tools\":{},\"resources\":{\"subscribe\":true}}"

static struct outcome a, b, c;

static size_t listens(void)
{
	return fake_count_of(last(), LISTEN);
}

/* The stream that was opened last. */
static struct fake_sent *stream(void)
{
	struct fake_sent *sent = fake_last(last(), LISTEN);
	ck_assert_ptr_nonnull(sent);
	return sent;
}

static void acknowledge(struct fake_sent *sent, const char *filter)
{
	char *params = xasprintf("{\"notifications\":%s,\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}",
				 filter, sent->id);
	fake_notification(last(), "notifications/subscriptions/acknowledged", params);
	free(params);
	settle();
}

static void kept(struct outcome *o, const char *name, const char *method, const char *uri, int64_t timeout_ms)
{
	char *params = xasprintf("{\"uri\":%s}", uri), *quoted = xasprintf("\"%s\"", method);
	*o = (struct outcome){ .name = name };
	o->number = server_call(server_of("demo"), &(struct server_call_options){ .client = 1,
										  .method = span_of(quoted),
										  .params = span_of(params),
										  .timeout_ms = timeout_ms,
										  .kept = true,
										  .done = outcome_done,
										  .arg = o });
	ck_assert_uint_eq(o->n_done, 0);
	free(params);
	free(quoted);
}

static void subscribe(struct outcome *o, const char *name, const char *uri)
{
	kept(o, name, "resources/subscribe", uri, -1);
}

static void assert_filter(const char *want)
{
	char *notifications = xasprintf("{\"notifications\":%s", want);
	assert_contains(stream()->params, notifications);
	free(notifications);
}

static unsigned in_flight(void)
{
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	return info.in_flight;
}

static void start(const char *capabilities)
{
	fixture_start(DEMO);
	bring_up_modern(last(), capabilities, NO_TOOLS);
}

START_TEST(a_subscribe_is_answered_when_the_acknowledgment_covers_it)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	struct fake_sent *first = stream();
	subscribe(&a, "a", "\"file:///a\"");
	subscribe(&b, "b", "\"file:///b\"");
	subscribe(&c, "c", "\"file:\\/\\/\\/a\"");
	settle();
	/* One stream for the burst; the old one is there until the new one is. */
	ck_assert_uint_eq(listens(), 2);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"file:///a\",\"file:///b\"]}");
	ck_assert(first->pending && stream()->pending);
	ck_assert_uint_eq(a.n_done + b.n_done + c.n_done, 0);
	ck_assert_uint_eq(in_flight(), 3);
	acknowledge(stream(),
		    "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"file:///b\",\"file:\\u002f//a\"]}");
	ck_assert(!first->pending && stream()->pending);
	ck_assert_ptr_nonnull(first->cancel_reason);
	ck_assert_uint_eq(fake_count_of(last(), "notifications/cancelled"), 1);
	assert_done(&a, 0, NULL);
	assert_done(&b, 0, NULL);
	assert_done(&c, 0, NULL);
	ck_assert_str_eq(a.result, "{}");
	ck_assert_uint_eq(in_flight(), 0);
	/* What is there already is not asked for again. */
	outcome_free(&a);
	subscribe(&a, "a", "\"file:///a\"");
	settle();
	assert_done(&a, 0, NULL);
	ck_assert_uint_eq(listens(), 2);
	outcome_free(&a), outcome_free(&b), outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(what_comes_while_a_stream_is_opened_is_for_the_next)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	subscribe(&a, "a", "\"u:a\"");
	settle();
	subscribe(&b, "b", "\"u:b\"");
	kept(&c, "c", "resources/unsubscribe", "\"u:a\"", -1);
	settle();
	assert_done(&c, 0, NULL);
	assert_done(&a, 0, NULL); /* it was subscribed, and has been taken back */
	ck_assert_uint_eq(listens(), 2);
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	ck_assert_uint_eq(listens(), 3);
	ck_assert_uint_eq(b.n_done, 0);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:b\"]}");
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:b\"]}");
	assert_done(&b, 0, NULL);
	STAYS(200, listens() == 3);
	outcome_free(&a), outcome_free(&b), outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(an_unsubscribe_is_answered_at_once_and_told_in_bursts)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	subscribe(&a, "a", "\"u:a\"");
	subscribe(&b, "b", "\"u:b\"");
	settle();
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\",\"u:b\"]}");
	outcome_free(&a), outcome_free(&b);
	kept(&a, "a", "resources/unsubscribe", "\"u:a\"", -1);
	kept(&b, "b", "resources/unsubscribe", "\"u:b\"", -1);
	kept(&c, "c", "resources/unsubscribe", "\"u:never\"", -1);
	settle();
	assert_done(&a, 0, NULL);
	assert_done(&b, 0, NULL);
	assert_done(&c, 0, NULL);
	WAIT_UNTIL(listens() == 3);
	assert_filter("{\"toolsListChanged\":true}");
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	STAYS(200, listens() == 3);
	outcome_free(&a), outcome_free(&b), outcome_free(&c);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_announces_nothing_else_has_a_stream_for_resources_alone)
{
	start(SILENT);
	ck_assert_uint_eq(listens(), 0);
	subscribe(&a, "a", "\"u:a\"");
	settle();
	assert_filter("{\"resourceSubscriptions\":[\"u:a\"]}");
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\"]}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	kept(&a, "a", "resources/unsubscribe", "\"u:a\"", -1);
	WAIT_UNTIL(!stream()->pending);
	ck_assert_uint_eq(listens(), 1);
	STAYS(700, listens() == 1);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(what_the_acknowledgment_leaves_out_is_an_error)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	subscribe(&a, "a", "\"u:a\"");
	subscribe(&b, "b", "\"u:b\"");
	settle();
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:b\"]}");
	assert_done(&a, MCPD_E_INVALID_PARAMS, "does not offer updates of \"u:a\"");
	assert_done(&b, 0, NULL);
	STAYS(200, listens() == 2);
	/* It is asked for again by whoever wants it next. */
	outcome_free(&a);
	subscribe(&a, "a", "\"u:a\"");
	settle();
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:b\",\"u:a\"]}");
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\",\"u:b\"]}");
	assert_done(&a, 0, NULL);
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_stream_that_is_refused_leaves_the_old_one)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	struct fake_sent *first = stream();
	subscribe(&a, "a", "\"u:a\"");
	settle();
	fake_error(last(), stream(), "{\"code\":-32603,\"message\":\"Subscription limit reached\"}");
	settle();
	assert_done(&a, MCPD_E_SERVER, NULL);
	ck_assert_str_eq(a.error, "{\"code\":-32603,\"message\":\"Subscription limit reached\"}");
	ck_assert(first->pending);
	STAYS(700, listens() == 2);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_cannot_listen_says_so_to_the_subscriber)
{
	start(SILENT);
	subscribe(&a, "a", "\"u:a\"");
	settle();
	fake_error(last(), stream(), "{\"code\":-32601,\"message\":\"no\"}");
	settle();
	assert_done(&a, MCPD_E_SERVER, NULL);
	ck_assert_str_eq(a.error, "{\"code\":-32601,\"message\":\"no\"}");
	STAYS(700, listens() == 1);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_does_not_acknowledge_is_not_waited_for_for_ever)
{
	fixture_start("'demo':{'command':'x','timeout':300}");
	bring_up_modern(last(), ANNOUNCES, NO_TOOLS);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	struct fake_sent *first = stream();
	subscribe(&a, "a", "\"u:a\"");                           /* ends by its own clock */
	kept(&b, "b", "resources/subscribe", "\"u:b\"", 600000); /* by that of the stream */
	WAIT_UNTIL(a.n_done && b.n_done);
	assert_done(&a, a.code == MCPD_E_TIMEOUT ? MCPD_E_TIMEOUT : MCPD_E_PROTOCOL, NULL);
	assert_done(&b, MCPD_E_PROTOCOL, "did not acknowledge the subscription within 300ms");
	ck_assert(b.sent);
	settle();
	ck_assert(first->pending && !stream()->pending);
	ck_assert_uint_eq(listens(), 2);
	ck_assert_uint_eq(in_flight(), 0);
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(one_that_announces_without_acknowledging_is_let_alone)
{
	fixture_start("'demo':{'command':'x','timeout':100}");
	bring_up_modern(last(), ANNOUNCES, NO_TOOLS);
	STAYS(300, stream()->pending && listens() == 1);
	/* It counts as the stream there is: the next one is opened beside it. */
	struct fake_sent *first = stream();
	kept(&a, "a", "resources/subscribe", "\"u:a\"", 600000);
	settle();
	ck_assert_uint_eq(listens(), 2);
	WAIT_UNTIL(a.n_done);
	assert_done(&a, MCPD_E_PROTOCOL, "did not acknowledge");
	settle();
	ck_assert(first->pending && !stream()->pending);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_subscribe_that_ends_early_is_not_answered_again)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	kept(&a, "a", "resources/subscribe", "\"u:a\"", 20);
	subscribe(&b, "b", "\"u:b\"");
	settle();
	server_cancel(server_of("demo"), b.number, "enough");
	settle();
	assert_done(&b, MCPD_E_CANCELLED, "enough");
	ck_assert(b.sent);
	WAIT_UNTIL(a.n_done);
	assert_done(&a, MCPD_E_TIMEOUT, "Request timeout after 20ms");
	ck_assert_uint_eq(in_flight(), 0);
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\",\"u:b\"]}");
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

/* M4: what was subscribed is in the first stream of a new connection, and there before the calls that waited. */
START_TEST(M4_a_new_connection_begins_with_what_is_subscribed)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	subscribe(&a, "a", "\"u:a\"");
	settle();
	fake_exit(last(), "gone");
	settle();
	assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
	outcome_free(&a);
	call(&b, "b", "demo", 1);
	subscribe(&a, "a", "\"u:a\"");
	WAIT_UNTIL(f.n_made == 2);
	bring_up_modern(last(), ANNOUNCES, NO_TOOLS);
	assert_contains(fake_methods(last()), "subscriptions/listen tools/call");
	ck_assert_uint_eq(listens(), 1);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	WAIT_UNTIL(listens() == 2);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	answer_call(last(), "{}");
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\"]}");
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

static struct outcome from_reconnected;

static void subscribe_again(struct server *server)
{
	(void)server;
	subscribe(&from_reconnected, "again", "\"u:a\"");
}

START_TEST(M4_what_is_set_up_again_is_in_the_first_stream)
{
	fixture_start(DEMO);
	f.in_reconnected = subscribe_again;
	bring_up_modern(last(), ANNOUNCES, NO_TOOLS);
	ck_assert_uint_eq(listens(), 1);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\"]}");
	assert_done(&from_reconnected, 0, NULL);
	outcome_free(&from_reconnected);
	fixture_done();
}
END_TEST

START_TEST(a_stream_that_ends_is_opened_again_with_its_resources)
{
	start(ANNOUNCES);
	subscribe(&a, "a", "\"u:a\"");
	settle();
	acknowledge(fake_last(last(), LISTEN), "{\"toolsListChanged\":true}");
	settle();
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	assert_done(&a, 0, NULL);
	size_t before = listens();
	fake_answer(last(), stream(), "{\"resultType\":\"complete\",\"_meta\":{}}");
	settle();
	ck_assert_uint_eq(listens(), before);
	WAIT_UNTIL(listens() == before + 1);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	/* An attempt that fails is no reason to forget it. */
	fake_error(last(), stream(), "{\"code\":-32603,\"message\":\"not now\"}");
	WAIT_UNTIL(listens() == before + 2);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	WAIT_UNTIL(fake_count_of(last(), "tools/list") == 2);
	fake_answer(last(), fake_last(last(), "tools/list"), NO_TOOLS);
	/* While there is none, a new resource does not wait for the delay; and the lists are looked at. */
	acknowledge(stream(), "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
	fake_answer(last(), stream(), "{\"resultType\":\"complete\",\"_meta\":{}}");
	settle();
	size_t lists = fake_count_of(last(), "tools/list");
	subscribe(&b, "b", "\"u:b\"");
	settle();
	ck_assert_uint_eq(listens(), before + 3);
	assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\",\"u:b\"]}");
	WAIT_UNTIL(fake_count_of(last(), "tools/list") > lists);
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\",\"u:b\"]}");
	assert_done(&b, 0, NULL);
	STAYS(1500, listens() == before + 3);
	outcome_free(&a), outcome_free(&b);
	fixture_done();
}
END_TEST

START_TEST(a_server_that_honours_nothing_is_not_asked_again_by_the_clock)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{}");
	fake_answer(last(), stream(), "{\"resultType\":\"complete\",\"_meta\":{}}");
	STAYS(800, listens() == 1);
	subscribe(&a, "a", "\"u:a\"");
	settle();
	ck_assert_uint_eq(listens(), 2);
	acknowledge(stream(), "{\"resourceSubscriptions\":[]}");
	assert_done(&a, MCPD_E_INVALID_PARAMS, "does not offer");
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(updates_are_relayed_without_the_daemons_subscription_id)
{
	start(ANNOUNCES);
	acknowledge(stream(), "{\"toolsListChanged\":true}");
	struct fake_sent *first = stream();
	subscribe(&a, "a", "\"u:a\"");
	settle();
	acknowledge(stream(), "{\"resourceSubscriptions\":[\"u:a\"]}");
	diary();
	char *params =
		xasprintf("{\"uri\": \"u:a\", \"_meta\":{\"x\":1.0, \"io.modelcontextprotocol/subscriptionId\":%s}}",
			  stream()->id);
	fake_notification(last(), "notifications/resources/updated", params);
	assert_contains(diary(),
			"notified 0 \"notifications/resources/updated\" {\"uri\": \"u:a\", \"_meta\":{\"x\":1.0}}");
	free(params);
	/* What the ended one still says is said twice. */
	params = xasprintf("{\"uri\":\"u:a\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}", first->id);
	fake_notification(last(), "notifications/resources/updated", params);
	ck_assert_str_eq(diary(), "");
	free(params);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_level_is_not_sent)
{
	start(ANNOUNCES);
	kept(&a, "a", "logging/setLevel", "\"x\"", -1);
	settle();
	assert_done(&a, 0, NULL);
	ck_assert_str_eq(a.result, "{}");
	ck_assert_uint_eq(fake_count_of(last(), "logging/setLevel"), 0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

START_TEST(a_legacy_server_is_sent_what_is_kept)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	subscribe(&a, "a", "\"u:a\"");
	ck_assert_ptr_nonnull(fake_last(last(), "resources/subscribe"));
	fake_answer(last(), fake_last(last(), "resources/subscribe"), "{\"x\":1}");
	assert_done(&a, 0, NULL);
	ck_assert_str_eq(a.result, "{\"x\":1}");
	ck_assert_uint_eq(listens(), 0);
	outcome_free(&a);
	fixture_done();
}
END_TEST

static void on_order(void *arg, struct server *server, const struct transport_reply *failure)
{
	(void)arg;
	(void)server;
	(void)failure;
}

START_TEST(every_end_of_a_connection_ends_what_waits_for_it)
{
	static const char *const ways[] = { "disconnect", "remove", "change", "shutdown", "client" };
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		fixture_start(i == 4 ? "'demo':{'command':'x','sharing':'exclusive'}" : DEMO);
		if (i == 4) { /* the look at the tools gives way */
			subscribe(&a, ways[i], "\"u:a\"");
			WAIT_UNTIL(f.n_made == 2);
		}
		bring_up_modern(last(), ANNOUNCES, NO_TOOLS);
		acknowledge(stream(), "{\"toolsListChanged\":true}");
		if (i != 4)
			subscribe(&a, ways[i], "\"u:a\"");
		settle();
		ck_assert_uint_eq(a.n_done, 0);
		assert_filter("{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"u:a\"]}");
		if (i == 0)
			server_order(server_of("demo"), SERVER_ORDER_DISCONNECT, -1, on_order, NULL);
		else if (i == 1)
			configure("");
		else if (i == 2)
			configure("'demo':{'command':'y'}");
		else if (i == 3)
			end_manager(0);
		else
			manager_client_gone(f.m, 1);
		WAIT_UNTIL(a.n_done);
		assert_done(&a, MCPD_E_TRANSPORT, "Transport closed");
		ck_assert(a.sent);
		outcome_free(&a);
		fixture_done();
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"manager_listen", a_subscribe_is_answered_when_the_acknowledgment_covers_it,
		what_comes_while_a_stream_is_opened_is_for_the_next,
		an_unsubscribe_is_answered_at_once_and_told_in_bursts,
		a_server_that_announces_nothing_else_has_a_stream_for_resources_alone,
		what_the_acknowledgment_leaves_out_is_an_error, a_stream_that_is_refused_leaves_the_old_one,
		a_server_that_cannot_listen_says_so_to_the_subscriber,
		a_server_that_does_not_acknowledge_is_not_waited_for_for_ever,
		one_that_announces_without_acknowledging_is_let_alone,
		a_subscribe_that_ends_early_is_not_answered_again, M4_a_new_connection_begins_with_what_is_subscribed,
		M4_what_is_set_up_again_is_in_the_first_stream, a_stream_that_ends_is_opened_again_with_its_resources,
		a_server_that_honours_nothing_is_not_asked_again_by_the_clock,
		updates_are_relayed_without_the_daemons_subscription_id, a_level_is_not_sent,
		a_legacy_server_is_sent_what_is_kept, every_end_of_a_connection_ends_what_waits_for_it);
}

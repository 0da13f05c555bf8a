/*
 * The manager under everything at once: calls, cancels, losses, answers, refusals, reloads, orders, clients that come
 * and go, in a random order that its seed repeats, also from inside the callbacks (PITFALLS "Lifetimes"). What has to
 * hold: every call and order ends exactly once, the shutdown comes to its end, nothing is left. MCPD_CHAOS_SEED and
 * MCPD_CHAOS_RUNS choose other seeds, and more of them.
 */
#include "manager_fixture.h"
#include "run.h"

#define STEPS 800
#define N_CLIENTS 5
#define MAX_CALLS 2000

static const char *const configurations[] = {
	"'one':{'command':'x'},'two':{'command':'x','lazy':true,'retrySafe':['a']},'web':{'type':'http','url':'http://localhost/'},"
	"'each':{'command':'x','sharing':'per-client'},'sole':{'command':'x','sharing':'exclusive'}",
	"'one':{'command':'x','idleTimeout':1,'retrySafe':['a']},'two':{'command':'y'},'web':{'type':'http','url':'http://localhost/',"
	"'retrySafe':['a']},'each':{'command':'x','sharing':'per-client','idleTimeout':2,'pingInterval':1},"
	"'sole':{'command':'x','sharing':'exclusive','pingInterval':1}",
	"'sole':{'command':'x','sharing':'per-client'},'each':{'command':'x','sharing':'exclusive','lazy':true},'one':{'command':5},"
	"'web':{'type':'http','url':'http://localhost/','sharing':'exclusive'}",
	"'one':{'command':'x','enabled':false},'sole':{'command':'x'},'each':{'command':'x','sharing':'per-client','connectTimeout':1},"
	"'two':{'command':'x','sharing':'per-client','connectTimeout':1}",
	"",
};
#define N_CONFIGURATIONS (sizeof configurations / sizeof configurations[0])

static uint64_t state;
static struct outcome *calls[MAX_CALLS];
static char *call_servers[MAX_CALLS];
static size_t n_calls;
static unsigned n_orders, n_orders_done, depth;

static unsigned pick(unsigned n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (unsigned)((state * 0x2545f4914f6cdd1dU) >> 33) % n;
}

static void act(void);

static void maybe_act(void)
{
	if (depth >= 2 || !f.m || f.m->phase != MANAGER_RUNNING || pick(4))
		return;
	depth++;
	act();
	depth--;
}

static void on_outcome(struct outcome *o)
{
	ck_assert_msg(o->n_done == 1, "a call ended %u times", o->n_done);
	maybe_act();
}

static void on_something(struct server *server)
{
	(void)server;
	maybe_act();
}

static struct server *some_server(void)
{
	size_t n = manager_count(f.m);
	return n ? manager_at(f.m, pick((unsigned)n)) : NULL;
}

/* What is kept account of above, and what is about the process that is there. */
static void start_other(struct outcome *o, struct server *server, int64_t timeout_ms)
{
	static const struct {
		const char *method;
		bool kept, this_process;
	} kinds[] = {
		{ "\"resources/subscribe\"", true, false },
		{ "\"resources/subscribe\"", true, false },
		{ "\"resources/unsubscribe\"", true, false },
		{ "\"logging/setLevel\"", true, false },
		{ "\"tasks/get\"", false, true },
	};
	void (*then)(struct outcome *) = o->then;
	char params[16];
	unsigned kind = pick(sizeof kinds / sizeof kinds[0]);
	snprintf(params, sizeof params, "{\"uri\":\"%u\"}", pick(4));
	*o = (struct outcome){ .name = "other", .then = then };
	o->number = server_call(server, &(struct server_call_options){ .client = 1 + pick(N_CLIENTS),
								       .method = span_of(kinds[kind].method),
								       .params = span_of(params),
								       .timeout_ms = timeout_ms,
								       .kept = kinds[kind].kept,
								       .this_process = kinds[kind].this_process,
								       .done = outcome_done,
								       .arg = o });
	memset(params, 'x', sizeof params);
}

static void start_call(void)
{
	static const char *const tools[] = { "{\"name\":\"a\"}", "{\"name\":\"b\"}", "{}" };
	static const int64_t timeouts[] = { -1, 0, 1, 20 };
	struct server *server = some_server();
	if (!server || n_calls == MAX_CALLS)
		return;
	struct outcome *o = xnew(struct outcome);
	o->then = on_outcome;
	call_servers[n_calls] = xstrdup(server_name(server));
	calls[n_calls++] = o;
	if (pick(3))
		call_with(o, "call", server_name(server), 1 + pick(N_CLIENTS), "tools/call", tools[pick(3)],
			  timeouts[pick(4)]);
	else
		start_other(o, server, timeouts[pick(4)]);
}

static void cancel_call(void)
{
	if (!n_calls)
		return;
	size_t i = pick((unsigned)n_calls);
	struct server *server = manager_find(f.m, span_of(call_servers[i]));
	if (server)
		server_cancel(server, calls[i]->number, "chaos");
}

static void on_order(void *arg, struct server *server, const struct transport_reply *failure)
{
	(void)arg;
	(void)server;
	(void)failure;
	n_orders_done++;
	maybe_act();
}

/* ---- the servers' doings ---- */

static struct fake_transport *some_fake(void)
{
	struct instance *inst;
	unsigned n = f.m->n_instances, at;
	if (!n)
		return NULL;
	at = pick(n);
	TAILQ_FOREACH(inst, &f.m->instances, link)
	if (at-- == 0)
		break;
	for (size_t i = f.n_made; inst && i > 0; i--)
		if (f.made[i - 1].transport == inst->transport)
			return f.made[i - 1].fake;
	return NULL;
}

static struct fake_sent *some_pending(struct fake_transport *fake)
{
	size_t n = fake_count(fake), first = n ? pick((unsigned)n) : 0;
	for (size_t i = 0; i < n; i++) {
		struct fake_sent *sent = fake_at(fake, (first + i) % n);
		if (sent->kind == FAKE_REQUEST && sent->pending && !sent->due)
			return sent;
	}
	return NULL;
}

static const char *good_answer(const struct fake_sent *sent)
{
	static const char *const lists[] = { "{\"tools\":" TOOLS_A ",\"ttlMs\":1,\"resultType\":\"complete\"}",
					     "{\"tools\":" TOOLS_B ",\"ttlMs\":0,\"resultType\":\"complete\"}" };
	if (strcmp(sent->method, "initialize") == 0)
		return "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{\"listChanged\":true}},\"serverInfo\":{}}";
	if (strcmp(sent->method, "server/discover") == 0)
		return "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"ttlMs\":0,\"cacheScope\":\"public\","
		       "\"capabilities\":{\"tools\":{\"listChanged\":true}}}";
	if (strcmp(sent->method, "tools/list") == 0)
		return lists[pick(2)];
	return "{\"resultType\":\"complete\"}";
}

static void fail_one(struct fake_transport *fake, struct fake_sent *sent)
{
	static const struct transport_reply replies[] = {
		{ .code = MCPD_E_HTTP, .message = "HTTP 404: gone", .http_status = 404, .session_lost = true },
		{ .code = MCPD_E_HTTP,
		  .message = "HTTP 404: gone",
		  .http_status = 404,
		  .session_lost = true,
		  .sent = true },
		{ .code = MCPD_E_NEEDS_AUTH,
		  .message = "HTTP 401: who",
		  .http_status = 401,
		  .www_authenticate = "Bearer" },
		{ .code = MCPD_E_TRANSPORT, .message = "Connection refused" },
		{ .code = MCPD_E_PROTOCOL, .message = "No response received for request ID x", .sent = true },
		{ .code = MCPD_E_LIMIT, .message = "too long", .limit = LIMIT_MESSAGE_BYTES },
	};
	fake_fail(fake, sent, &replies[pick(sizeof replies / sizeof replies[0])]);
}

/* Of any stream that there has been, with some of what may have been asked for. */
static void acknowledge(struct fake_transport *fake)
{
	struct fake_sent *listen = fake_last(fake, "subscriptions/listen");
	if (!listen)
		return;
	struct buf params = BUF_INIT;
	const char *comma = "";
	buf_addf(&params, "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s},\"notifications\":{", listen->id);
	buf_add_text(&params, "\"resourceSubscriptions\":[");
	for (unsigned uri = 0; uri < 4; uri++) {
		if (pick(4) == 0)
			continue;
		buf_addf(&params, "%s\"%u\"", comma, uri);
		comma = ",";
	}
	buf_add_text(&params, "]}}");
	fake_notification(fake, "notifications/subscriptions/acknowledged", buf_span(&params).ptr);
	buf_done(&params);
}

static void speak(struct fake_transport *fake)
{
	switch (pick(9)) {
	case 0:
		fake_notification(fake, "notifications/tools/list_changed", NULL);
		break;
	case 1:
		fake_notification(fake, "notifications/message", "{}");
		break;
	case 2:
		fake_request(fake, pick(2) ? "1" : "\"q\"", pick(2) ? "sampling/createMessage" : "roots/list", "{}",
			     NULL);
		break;
	case 3:
		fake_log(fake, "a line");
		break;
	case 4:
		fake_notification(fake, "notifications/cancelled", "{\"requestId\":\"q\"}");
		break;
	default:
		acknowledge(fake);
		break;
	}
}

static void server_acts(void)
{
	static const int statuses[] = { 200, 404, 405, 409 };
	struct fake_transport *fake = some_fake();
	if (!fake || !fake_connected_now(fake))
		return;
	struct fake_sent *sent = some_pending(fake);
	switch (pick(20)) {
	case 0:
		fake_exit(fake, pick(2) ? "exit status 1" : NULL);
		break;
	case 1:
		if (fake_listens(fake))
			fake_listener_end(fake, statuses[pick(4)], "ended");
		break;
	case 2:
	case 3:
		speak(fake);
		break;
	case 4:
		if (sent)
			fail_one(fake, sent);
		break;
	case 5:
		if (sent)
			fake_error(fake, sent, "{\"code\":-32601,\"message\":\"no\"}");
		break;
	case 6:
		if (sent && sent->timeout_ms > 0)
			fake_time_out(fake, sent);
		break;
	default:
		/* A stream is not often ended by its server. */
		if (sent && (strcmp(sent->method, "subscriptions/listen") != 0 || pick(8) == 0))
			fake_answer(fake, sent, good_answer(sent));
	}
}

/* ---- what clients and people do ---- */

static void look(struct server *server)
{
	struct server_info info;
	struct server_listing listing;
	server_get_info(server, &info);
	ck_assert_uint_le(info.in_flight + info.waiting, manager_in_flight(f.m));
	server_get_list(server, SERVER_TOOLS, pick(2), &listing);
	ck_assert_ptr_nonnull(listing.items.ptr);
	if (info.holder)
		ck_assert_int_eq(info.config->sharing, CONFIG_EXCLUSIVE);
}

static void hurry(struct server *server)
{
	struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	lane->retry_after_ms = 0;
}

static void act(void)
{
	struct server *server = some_server();
	switch (pick(24)) {
	case 0:
		if (pick(4) == 0)
			manager_configure(f.m,
					  make_config(configurations[pick(N_CONFIGURATIONS)],
						      pick(2) ? "'limits':{'fairWindow':1}" : NULL),
					  NULL);
		return;
	case 1:
		manager_client_gone(f.m, 1 + pick(N_CLIENTS));
		return;
	case 2:
		if (f.question)
			manager_answer(f.m, f.question, SPAN_LIT("{}"), SPAN_NONE);
		return;
	case 3:
	case 4:
		cancel_call();
		return;
	case 5:
	case 6:
	case 7:
	case 8:
	case 9:
	case 10:
		start_call();
		return;
	case 11:
		f.in_server = on_something;
		f.in_reconnected = on_something;
		return;
	}
	if (!server)
		return;
	switch (pick(6)) {
	case 0:
		if (pick(3))
			return;
		n_orders++;
		server_order(server, pick(3), pick(2) ? -1 : 1, on_order, NULL);
		break;
	case 1:
		server_release(server, 1 + pick(N_CLIENTS));
		break;
	case 2:
		server_notify(server, 1 + pick(N_CLIENTS), SPAN_LIT("\"notifications/x\""), SPAN_NONE);
		break;
	case 3:
		server_set_pinned(server, pick(2) ? SERVER_PIN_TASKS : SERVER_PIN_SUBSCRIPTIONS, pick(2));
		break;
	case 4:
		hurry(server);
		break;
	default:
		look(server);
	}
}

static void run_one(uint64_t seed)
{
	state = seed * 0x9e3779b97f4a7c15U | 1;
	n_calls = n_orders = n_orders_done = depth = 0;
	fixture_start(configurations[0]);
	f.fake.close_at_once = seed % 3 == 0;
	for (unsigned i = 0; i < STEPS && f.n_made < MAX_FAKES - 50; i++) {
		if (pick(3))
			server_acts();
		else
			act();
		if (pick(3) == 0)
			loop_once(f.loop, pick(20) == 0);
		buf_reset(&f.diary);
	}
	end_manager(pick(3));
	for (size_t i = 0; i < n_calls; i++) {
		outcome_free(calls[i]);
		free(calls[i]);
		free(call_servers[i]);
	}
	ck_assert_uint_eq(n_orders, n_orders_done);
	fixture_done();
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

START_TEST(everything_ends_exactly_once)
{
	uint64_t first = number_from("MCPD_CHAOS_SEED", 1), runs = number_from("MCPD_CHAOS_RUNS", 60);
	for (uint64_t seed = first; seed < first + runs; seed++) {
		if (getenv("MCPD_CHAOS_SEED"))
			fprintf(stderr, "seed %" PRIu64 "\n", seed);
		run_one(seed);
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS("manager_chaos", everything_ends_exactly_once);
}

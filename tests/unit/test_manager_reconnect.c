/* Losses, attempts and the breaker (M4, M5, R5, R7), on scripted servers and the real clock where the clock is what
 * matters. */
#include "manager_fixture.h"
#include "run.h"

#define DEMO "'demo':{'command':'x'}"

static struct outcome a, b;

/* One that has passed the probe, so that its end is a loss and no reason to try without it. */
static void lose_in_handshake(void)
{
	settle();
	shake_hands(last(), "{\"tools\":{}}");
	fake_exit(last(), "exit status 7");
	settle();
}

START_TEST(M5_a_lost_connection_comes_back_by_itself)
{
	fixture_start(DEMO);
	bring_up(last(), TOOLS_A);
	diary();
	int64_t before = loop_now_ms();
	fake_exit(last(), "exit status 1; last stderr lines: oh no");
	settle();
	ck_assert_str_eq(diary(), "demo reconnecting\n");
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.reconnect_attempt, 1);
	ck_assert_int_gt(info.next_attempt_ms, 0);
	ck_assert_int_le(info.next_attempt_ms, 550);
	assert_contains(info.last_error, "oh no");
	ck_assert_ptr_nonnull(info.last_error_at);
	WAIT_UNTIL(f.n_made == 2);
	ck_assert_int_ge(loop_now_ms() - before, 450);
	bring_up(last(), TOOLS_A);
	assert_state("demo", "connected");
	assert_contains(diary(), "demo new connection 0\n");
	server_get_info(server_of("demo"), &info);
	ck_assert_uint_eq(info.reconnect_attempt, 0);
	/* Delays start anew with a connection. */
	fake_exit(last(), NULL);
	settle();
	server_get_info(server_of("demo"), &info);
	ck_assert_int_le(info.next_attempt_ms, 550);
	fixture_done();
}
END_TEST

START_TEST(M5_failed_attempts_wait_longer_each_time)
{
	static const int64_t plain[] = { 500, 1000, 2000 };
	fixture_start(DEMO);
	for (int i = 0; i < 3; i++) {
		lose_in_handshake();
		assert_state("demo", "reconnecting");
		struct server_info info;
		server_get_info(server_of("demo"), &info);
		ck_assert_uint_eq(info.reconnect_attempt, i + 1);
		ck_assert_int_le(info.next_attempt_ms, plain[i] * 11 / 10);
		ck_assert_int_gt(info.next_attempt_ms, plain[i] / 2);
		WAIT_UNTIL(f.n_made == (size_t)i + 2);
	}
	fixture_done();
}
END_TEST

/* Opens the breaker by asking for the server again and again. */
static void open_breaker(void)
{
	for (int i = 0; i < 6; i++) {
		call(&b, "b", "demo", 1);
		lose_in_handshake();
		if (i < 5) {
			ck_assert_uint_eq(b.n_done, 0);
			server_cancel(server_of("demo"), b.number, "enough");
			settle();
		}
		outcome_free(&b);
	}
}

START_TEST(M5_more_than_five_losses_open_the_breaker)
{
	fixture_start("'demo':{'command':'x','lazy':true}");
	call(&a, "a", "demo", 1);
	open_breaker();
	ck_assert_uint_eq(f.n_made, 6);
	assert_state("demo", "failed");
	assert_done(&a, MCPD_E_UNAVAILABLE, "exit status 7");
	assert_contains(a.message, "mcpctl connect demo");
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	assert_contains(info.last_error, "more than 5 times within 30 s");
	outcome_free(&a);
	/* No attempt by itself, and none for a call that comes too early. */
	call(&a, "a", "demo", 1);
	settle();
	assert_done(&a, MCPD_E_UNAVAILABLE, "Server \"demo\" is failed: ");
	outcome_free(&a);
	STAYS(700, f.n_made == 6);
	/* Half a minute later the first call tries once, and waits for it. */
	ck_assert_int_gt(server_of("demo")->main->retry_after_ms, loop_now_ms() + LANE_RETRY_MS - 10000);
	server_of("demo")->main->retry_after_ms = loop_now_ms();
	call(&a, "a", "demo", 1);
	ck_assert_uint_eq(f.n_made, 7);
	assert_state("demo", "connecting");
	lose_in_handshake();
	assert_done(&a, MCPD_E_UNAVAILABLE, "exit status 7");
	assert_state("demo", "failed");
	outcome_free(&a);
	STAYS(700, f.n_made == 7);
	server_of("demo")->main->retry_after_ms = loop_now_ms();
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	assert_state("demo", "connected");
	outcome_free(&a);
	/* And from there all is as ever. */
	fake_exit(last(), NULL);
	settle();
	assert_state("demo", "reconnecting");
	fixture_done();
}
END_TEST

START_TEST(M5_a_server_that_dies_after_each_connection_opens_the_breaker_too)
{
	fixture_start(DEMO);
	for (int i = 0; i < 6; i++) {
		bring_up(last(), TOOLS_A);
		call(&a, "a", "demo", 1);
		fake_exit(last(), "exit status 9");
		settle();
		assert_done(&a, MCPD_E_TRANSPORT, NULL);
		outcome_free(&a);
		if (i < 5)
			WAIT_UNTIL(f.n_made == (size_t)i + 2);
	}
	assert_state("demo", "failed");
	fixture_done();
}
END_TEST

static struct server_counters counters(const char *name, uint64_t *ret_unsent, unsigned *ret_connections)
{
	struct server_counters c;
	uint64_t unsent;
	unsigned connections;
	server_get_counters(server_of(name), &c, ret_unsent ? ret_unsent : &unsent,
			    ret_connections ? ret_connections : &connections);
	return c;
}

START_TEST(connections_and_their_bytes_are_counted)
{
	struct server_counters c;
	uint64_t unsent;
	unsigned connections;
	fixture_start("'demo':{'command':'x','lazy':true}");
	c = counters("demo", NULL, &connections);
	ck_assert_uint_eq(c.starts + c.connects + c.received_bytes, 0);
	ck_assert_uint_eq(connections, 0);
	/* A call that waits for the connection, and one that does not. */
	int64_t before = loop_now_us();
	call(&a, "a", "demo", 1);
	bring_up(last(), TOOLS_A);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	fake_set_traffic(last(), 1000, 200, 30);
	c = counters("demo", &unsent, &connections);
	ck_assert_uint_eq(c.starts, 1);
	ck_assert_uint_eq(c.connects, 1);
	ck_assert_uint_eq(c.received_bytes, 1000);
	ck_assert_uint_eq(c.sent_bytes, 200);
	ck_assert_uint_eq(unsent, 30);
	ck_assert_uint_eq(connections, 1);
	ck_assert_uint_eq(c.losses + c.restarts + c.connect_failures + c.breaker_openings, 0);
	/* What had passed stays when the connection goes; what was unsent does not. */
	fake_exit(last(), "gone");
	settle();
	c = counters("demo", &unsent, &connections);
	ck_assert_uint_eq(c.losses, 1);
	ck_assert_uint_eq(c.restarts, 0);
	ck_assert_uint_eq(c.received_bytes, 1000);
	ck_assert_uint_eq(unsent, 0);
	ck_assert_uint_eq(connections, 0);
	/* A failed attempt in between does not hide that it was a loss. */
	WAIT_UNTIL(f.n_made == 2);
	lose_in_handshake();
	WAIT_UNTIL(f.n_made == 3);
	bring_up(last(), TOOLS_A);
	fake_set_traffic(last(), 5, 6, 0);
	c = counters("demo", NULL, NULL);
	ck_assert_uint_eq(c.starts, 3);
	ck_assert_uint_eq(c.connects, 2);
	ck_assert_uint_eq(c.connect_failures, 1);
	ck_assert_uint_eq(c.restarts, 1);
	ck_assert_uint_eq(c.received_bytes, 1005);
	ck_assert_uint_eq(c.sent_bytes, 206);
	call(&a, "a", "demo", 1);
	answer_call(last(), "{}");
	assert_done(&a, 0, NULL);
	outcome_free(&a);
	c = counters("demo", NULL, NULL);
	uint64_t waited = 0;
	for (int i = 0; i <= METRIC_BUCKETS; i++)
		waited += c.wait.buckets[i];
	ck_assert_uint_eq(waited, 2);
	ck_assert_uint_gt(c.wait.sum_us, 0);
	ck_assert_uint_le(c.wait.sum_us, (uint64_t)(loop_now_us() - before));
	fixture_done();
}
END_TEST

START_TEST(the_breaker_is_counted)
{
	fixture_start("'demo':{'command':'x','lazy':true}");
	call(&a, "a", "demo", 1);
	open_breaker();
	assert_done(&a, MCPD_E_UNAVAILABLE, NULL);
	outcome_free(&a);
	struct server_counters c = counters("demo", NULL, NULL);
	ck_assert_uint_eq(c.breaker_openings, 1);
	ck_assert_uint_eq(c.connect_failures, 6);
	ck_assert_uint_eq(c.starts, 6);
	uint64_t waited = c.wait.sum_us;
	for (int i = 0; i <= METRIC_BUCKETS; i++)
		waited += c.wait.buckets[i];
	ck_assert_uint_eq(waited, 0); /* it was never sent */
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

START_TEST(M5_by_hand_the_breaker_is_forgotten)
{
	fixture_start("'demo':{'command':'x','lazy':true}");
	open_breaker();
	assert_state("demo", "failed");
	n_orders = 0;
	server_order(server_of("demo"), SERVER_ORDER_CONNECT, -1, on_order, NULL);
	ck_assert_uint_eq(f.n_made, 7);
	lose_in_handshake();
	ck_assert_uint_eq(n_orders, 1);
	ck_assert(order_failed);
	/* Attempts go on behind. */
	assert_state("demo", "reconnecting");
	WAIT_UNTIL(f.n_made == 8);
	bring_up(last(), TOOLS_A);
	assert_state("demo", "connected");
	fixture_done();
}
END_TEST

START_TEST(a_handshake_that_hangs_is_given_up)
{
	fixture_start("'demo':{'command':'x','connectTimeout':100}");
	f.fake.connect_by_hand = true;
	configure("'demo':{'command':'y','connectTimeout':100}");
	WAIT_UNTIL(state_of("demo") == SERVER_RECONNECTING);
	struct server_info info;
	server_get_info(server_of("demo"), &info);
	assert_contains(info.last_error, "within 100 ms");
	fixture_done();
}
END_TEST

int main(void)
{
	return RUN_TESTS("manager_reconnect", M5_a_lost_connection_comes_back_by_itself,
			 M5_failed_attempts_wait_longer_each_time, M5_more_than_five_losses_open_the_breaker,
			 M5_a_server_that_dies_after_each_connection_opens_the_breaker_too,
			 M5_by_hand_the_breaker_is_forgotten, a_handshake_that_hangs_is_given_up,
			 connections_and_their_bytes_are_counted, the_breaker_is_counted);
}

/* Sessions: framing, ids, the ends of a connection, limits (PROTOCOL "Framing", house rule 5). */
#include "run.h"
#include "session_fixture.h"

/* --- framing and ids --- */

START_TEST(what_is_no_message_is_refused_and_the_connection_lives)
{
	begin();
	struct peer *p = peer_new();
	send_text(p, "{not json");
	expect_error(p, "null", -32700, "Parse error", NULL);
	send_text(p, "");
	expect_error(p, "null", -32700, "Parse error", NULL);
	send_text(p, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon/status\"}]");
	expect_error(p, "null", -32600, "batch", NULL);
	send_text(p, "{\"id\":5,\"method\":\"daemon/status\"}");
	expect_error(p, "5", -32600, "jsonrpc", NULL);
	ask(p, "\"id\":null,\"method\":\"daemon/status\"");
	expect_error(p, "null", -32600, "id", NULL);
	ask(p, "\"id\":{},\"method\":\"daemon/status\"");
	expect_error(p, "null", -32600, "id", NULL);
	ask(p, "\"id\":1,\"id\":2,\"method\":\"daemon/status\"");
	expect_error(p, "null", -32600, "twice", NULL);
	ask(p, "\"id\":\"a\",\"method\":\"no/such\"");
	expect_error(p, "\"a\"", -32601, "no/such", NULL);
	ask(p, "\"id\":7,\"method\":\"servers/list\",\"params\":[]");
	expect_error(p, "7", -32602, "object", NULL);
	send_text(p, "17");
	expect_error(p, "null", -32600, "object", NULL);
	ask(p, "\"id\":8,\"method\":\"events/unsubscribe\",\"params\":{\"topics\":[\"logs\"]}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(ids_are_echoed_byte_for_byte)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	const char *const ids[] = { "1.10",           "1e400",      "-0", "123456789012345678901234567890",
				    "\"\\u0041\\/\"", "\"\\ud800\"" };
	for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
		char *members =
			xasprintf("\"id\":%s,\"method\":\"servers/release\",\"params\":{\"server\":\"s\"}", ids[i]);
		ask(p, members);
		expect_error(p, ids[i], -32602, "exclusive", NULL);
		free(members);
	}
	peer_close(p);
	end();
}
END_TEST

/* PROTOCOL "Framing": an id in flight is refused, strings compared decoded, numbers by their bytes; the first goes on.
 */
START_TEST(an_id_in_flight_is_refused_and_the_first_left_alone)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p, CALL("\"A\""));
	ask(p, CALL("\"\\u0041\""));
	expect_error(p, "\"\\u0041\"", -32600, "in flight", NULL);
	ask(p, CALL("1"));
	ask(p, CALL("1.0"));
	ask(p, CALL("1"));
	expect_error(p, "1", -32600, "in flight", NULL);
	ck_assert_uint_eq(fake.n_calls, 3);
	fake_result(fake_call_at(1), "{\"second\":1}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"second\":1}}");
	fake_result(fake_call_at(0), "{\"first\":1}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":\"A\",\"result\":{\"first\":1}}");
	ask(p, CALL("1")); /* free again */
	passes(2);
	ck_assert_uint_eq(fake.n_calls, 4);
	peer_close(p);
	end();
}
END_TEST

START_TEST(lines_come_in_any_pieces)
{
	begin();
	struct peer *p = peer_new();
	const char *line =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"events/unsubscribe\",\"params\":{\"topics\":[\"logs\"]}}\r\n";
	for (const char *c = line; *c; c++) {
		send_bytes(p, c, 1);
		passes(1);
	}
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_line_over_the_limit_ends_the_connection_after_the_error)
{
	begin();
	fake.config.limits.value[LIMIT_MESSAGE_BYTES] = 4096;
	struct peer *p = peer_new();
	char *line = xcalloc(1, 4096 + 2);
	memset(line, ' ', 4096);
	memcpy(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}", 43);
	send_text(p, line); /* exactly the limit */
	expect_error(p, "1", -32601, "no/such", NULL);
	line[4096] = ' ';
	send_text(p, line);
	ask(p, "\"id\":2,\"method\":\"daemon/status\"");
	expect_error(p, "null", -32600, "maxMessageBytes", NULL);
	expect_eof(p);
	free(line);
	peer_close(p);
	end();
}
END_TEST

/* PITFALLS "Sockets": EOF on read is not "the peer stopped reading". */
START_TEST(a_half_closed_client_gets_its_answers_then_the_end)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p, CALL("1"));
	ask(p, CALL("2"));
	/* The last line may lack its newline. */
	const char *last =
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"events/unsubscribe\",\"params\":{\"topics\":[\"logs\"]}}";
	send_bytes(p, last, strlen(last));
	shutdown(p->fd, SHUT_WR);
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
	expect_silence(p);
	fake_result(fake_call_at(1), "{}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	expect_silence(p);
	ck_assert_ptr_null(fake_call_at(0)->cancelled);
	fake_result(fake_call_at(0), "{}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	expect_eof(p);
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_closed_client_cancels_what_it_has_in_flight)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, CALL("1"));
	ask(q, CALL("1"));
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 2);
	struct fake_call *mine = fake_call_at(0)->client == 1 ? fake_call_at(0) : fake_call_at(1);
	struct fake_call *other = mine == fake_call_at(0) ? fake_call_at(1) : fake_call_at(0);
	shutdown(p->fd, SHUT_WR);
	passes(3);
	ck_assert_ptr_null(mine->cancelled); /* it may still read */
	peer_close(p);
	ck_assert_ptr_nonnull(mine->cancelled);
	ck_assert_uint_eq(fake.n_gone, 1);
	ck_assert_uint_eq(fake.gone[0], 1);
	fake_result(mine, "{}");
	fake_result(other, "{\"x\":0}");
	expect_line(q, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":0}}");
	peer_close(q);
	end();
}
END_TEST

/* --- limits --- */

START_TEST(too_many_requests_are_refused_by_name)
{
	begin();
	fake_add("s");
	fake.config.limits.value[LIMIT_REQUESTS_PER_CLIENT] = 2;
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, CALL("1"));
	ask(p, CALL("2"));
	ask(p, CALL("3"));
	expect_error(p, "3", -32009, "too many", "{\"limit\":\"maxRequestsPerClient\",\"value\":2}");
	ask(q, CALL("1"));
	passes(2);
	ck_assert_uint_eq(fake.n_calls, 3);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

START_TEST(too_many_clients_are_refused_by_name)
{
	begin();
	fake.config.limits.value[LIMIT_CLIENTS] = 1;
	struct peer *p = peer_new(), *q = peer_new();
	expect_error(q, "null", -32009, "too many clients", "{\"limit\":\"maxClients\",\"value\":1}");
	expect_eof(q);
	peer_close(p);
	peer_close(q);
	struct peer *r = peer_new();
	expect_silence(r);
	peer_close(r);
	end();
}
END_TEST

START_TEST(too_many_subscriptions_are_refused_by_name)
{
	begin();
	fake_add("s");
	fake.config.limits.value[LIMIT_SUBSCRIPTIONS] = 2;
	struct peer *p = peer_new();
	ask(p, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"logs\"]}");
	next_line(p);
	ask(p, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"logs\"]}"); /* the same: none more */
	next_line(p);
	ask(p,
	    "\"id\":2,\"method\":\"mcp/request\",\"params\":{\"server\":\"s\",\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"u\"}}");
	passes(2);
	fake_result(fake_call_at(0), "{}");
	next_line(p);
	ask(p,
	    "\"id\":3,\"method\":\"mcp/request\",\"params\":{\"server\":\"s\",\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"v\"}}");
	expect_error(p, "3", -32009, "subscriptions", "{\"limit\":\"maxSubscriptionsPerClient\",\"value\":2}");
	ask(p, "\"id\":4,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"calls\"]}");
	expect_error(p, "4", -32009, "subscriptions", NULL);
	peer_close(p);
	end();
}
END_TEST

static void flood(struct server *server, unsigned events)
{
	static char text[4096];
	memset(text, 'x', sizeof text);
	for (unsigned i = 0; i < events; i++)
		fake.callbacks->on_log(fake.arg, server, "2026-01-01T00:00:00.000Z",
				       (struct span){ text, sizeof text });
}

/* House rule 5: a slow client costs only itself. Its events are dropped, and told as a number; its requests wait. */
START_TEST(a_slow_client_loses_events_and_is_not_read)
{
	begin();
	struct server *server = fake_add("s");
	fake.config.limits.value[LIMIT_CLIENT_QUEUE_SOFT] = 65536;
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"logs\"]}");
	next_line(p);
	flood(server, 1000);
	ask(p, CALL("2"));
	ask(q, CALL("2"));
	passes(5);
	ck_assert_uint_eq(fake.n_calls, 1); /* the other's */
	ck_assert_uint_eq(fake_call_at(0)->client, 2);
	unsigned events = 0, dropped = 0;
	while (!dropped) {
		const char *line = next_line(p);
		if (strstr(line, "events/log"))
			events++;
		else
			ck_assert_int_eq(
				sscanf(line,
				       "{\"jsonrpc\":\"2.0\",\"method\":\"events/dropped\",\"params\":{\"count\":%u}}",
				       &dropped),
				1);
	}
	ck_assert_uint_eq(events + dropped, 1000);
	ck_assert_uint_gt(dropped, 0);
	passes(5);
	ck_assert_uint_eq(fake.n_calls, 2); /* read again */
	flood(server, 1);
	ck_assert_ptr_nonnull(strstr(next_line(p), "events/log"));
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

START_TEST(a_client_past_the_hard_limit_is_disconnected)
{
	begin();
	fake_add("s");
	fake.config.limits.value[LIMIT_CLIENT_QUEUE_HARD] = 1 << 20;
	fake.config.limits.value[LIMIT_MESSAGE_BYTES] = 1 << 20;
	struct peer *p = peer_new(), *q = peer_new();
	for (int i = 0; i < 8; i++) {
		char *members = xasprintf(CALL("%d"), i);
		ask(p, members);
		free(members);
	}
	ask(q, CALL("1"));
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 9);
	char *result = xcalloc(1, 500001);
	memset(result, '1', 500000);
	struct fake_call *other = NULL;
	for (size_t i = 0; i < 9; i++) {
		if (fake.calls[i].client == 1)
			fake_result(&fake.calls[i], result);
		else
			other = &fake.calls[i];
	}
	passes(5);
	ck_assert_uint_eq(fake.n_gone, 1);
	ck_assert_uint_eq(fake.gone[0], 1);
	fake_result(other, "{}");
	expect_line(q, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	free(result);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

/* Four clients with as much unsent: one does not read, one reads a little now and then, one has sent its last and does
 * not read, one is past the soft limit no more. */
START_TEST(a_client_that_does_not_read_has_a_grace_period)
{
	enum { GRACE_MS = 400 };
	begin();
	struct server *server = fake_add("s");
	fake.config.limits.value[LIMIT_CLIENT_QUEUE_SOFT] = 65536;
	fake.config.limits.value[LIMIT_CLIENT_QUEUE_GRACE] = GRACE_MS;
	struct peer *p[4];
	for (int i = 0; i < 4; i++) {
		p[i] = peer_new();
		ask(p[i], "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"logs\"]}");
		next_line(p[i]);
	}
	flood(server, 1000);
	int64_t begun = loop_now_ms();
	shutdown(p[2]->fd, SHUT_WR);
	for (int i = 0; i < 100; i++) {
		read_some(p[3]);
		passes(1);
	}
	char bytes[8192];
	ssize_t total = 0;
	while (loop_now_ms() < begun + 5 * GRACE_MS) {
		/* A slow reader's pace is counted in what the kernel takes, which is not every byte that is read. */
		ssize_t n = recv(p[1]->fd, bytes, sizeof bytes, MSG_DONTWAIT);
		total += n > 0 ? n : 0;
		int64_t until = loop_now_ms() + GRACE_MS / 20;
		while (loop_now_ms() < until)
			loop_once(loop, 5);
		if (loop_now_ms() < begun + GRACE_MS / 2)
			ck_assert_uint_le(fake.n_gone, 1); /* the one that has shut down */
	}
	ck_assert_int_gt(total, 8192);
	bool gone[5] = { false };
	for (size_t i = 0; i < fake.n_gone; i++)
		gone[fake.gone[i]] = true;
	ck_assert(gone[1] && !gone[2] && gone[3] && !gone[4]);
	/* What had gone out before can still be read, and then it ends. */
	while (!p[0]->eof || !p[2]->eof) {
		read_some(p[0]);
		read_some(p[2]);
		ck_assert_int_lt(loop_now_ms() - begun, 60000);
		loop_once(loop, 1);
	}
	ask(p[3], CALL("2"));
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 1);
	for (int i = 0; i < 4; i++)
		peer_close(p[i]);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("session", what_is_no_message_is_refused_and_the_connection_lives,
			 ids_are_echoed_byte_for_byte, an_id_in_flight_is_refused_and_the_first_left_alone,
			 lines_come_in_any_pieces, a_line_over_the_limit_ends_the_connection_after_the_error,
			 a_half_closed_client_gets_its_answers_then_the_end,
			 a_closed_client_cancels_what_it_has_in_flight, too_many_requests_are_refused_by_name,
			 too_many_clients_are_refused_by_name, too_many_subscriptions_are_refused_by_name,
			 a_slow_client_loses_events_and_is_not_read, a_client_that_does_not_read_has_a_grace_period,
			 a_client_past_the_hard_limit_is_disconnected);
}

/* libmcpd-client: requests, events, questions, and a daemon that misbehaves in every way (client_peer.h). */
#include "client_peer.h"

START_TEST(answers_come_verbatim_and_in_any_order)
{
	struct seen seen, other = { 0 };
	mcpd_client *client = connected_client(&seen);
	uint64_t first = request(client, "servers/list", NULL, &seen);
	uint64_t second = request(client, "daemon/status", "{\"a\": 1}", &other);
	ck_assert_uint_eq(mcpd_in_flight(client), 2);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"params\":{\"a\": 1}"));
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":%llu,\"result\":{\"n\":123456789012345678901234567890, \"n\":1.0}}\n",
		  (unsigned long long)second);
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_uint_eq(seen.replies, 0);
	ck_assert_uint_eq(other.request, second);
	ck_assert_str_eq(other.text, "{\"n\":123456789012345678901234567890, \"n\":1.0}");
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":%llu,\"error\":{\"code\":-32001,\"message\":\"Unknown server\","
		  "\"data\":{\"known\":[],\"maybeExecuted\":true}}}\n",
		  (unsigned long long)first);
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_int_eq(seen.status, 1);
	ck_assert_int_eq(seen.code, -32001);
	ck_assert_int_eq(seen.maybe, 1);
	ck_assert_str_eq(seen.text, "Unknown server");
	/* A second answer, and one for nobody, change nothing. */
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":%llu,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n",
		  (unsigned long long)first);
	ck_assert_int_eq(mcpd_process(client), 0);
	ck_assert_uint_eq(mcpd_in_flight(client), 0);
	mcpd_client_free(client);
}
END_TEST

START_TEST(a_byte_at_a_time_is_one_answer)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	request(client, "servers/list", NULL, &seen);
	const char *answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"\xf0\x9f\x98\x80\xe2\x80\xa8\"}}\n";
	for (const char *at = answer; *at; at++) {
		ck_assert_uint_eq(seen.replies, 0);
		ck_assert_int_eq(send(peer, at, 1, 0), 1);
		ck_assert_int_ge(mcpd_process(client), 0);
	}
	ck_assert_uint_eq(seen.replies, 1);
	ck_assert_str_eq(seen.text, "{\"text\":\"\xf0\x9f\x98\x80\xe2\x80\xa8\"}");
	mcpd_client_free(client);
}
END_TEST

START_TEST(rubbish_ends_the_connection_and_every_request)
{
	static const char *const rubbish[] = { "no json\n", "{\"neither\":1}\n", "[]\n",
					       "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\n" };
	for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
		struct seen seen;
		mcpd_client *client = connected_client(&seen);
		request(client, "servers/list", NULL, &seen);
		peer_send("%s", rubbish[i]);
		ck_assert_int_eq(mcpd_process(client), -EBADMSG);
		ck_assert_uint_eq(seen.replies, 1);
		ck_assert_int_eq(seen.status, -EBADMSG);
		ck_assert_int_eq(seen.maybe, 1);
		ck_assert_int_eq(seen.state, MCPD_DISCONNECTED);
		ck_assert_int_eq(seen.state_error, -EBADMSG);
		ck_assert_int_eq(mcpd_get_fd(client), -1);
		ck_assert_int_eq(mcpd_request(client, "servers/list", NULL, NULL, on_reply, &seen, NULL), -ENOTCONN);
		mcpd_client_free(client);
	}
}
END_TEST

START_TEST(a_line_over_the_limit_ends_the_connection)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_set_max_message(client, 100), -EINVAL);
	ck_assert_int_eq(mcpd_set_max_message(client, 1024), 0);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	peer_send(HELLO_ANSWER);
	ck_assert_int_eq(mcpd_process(client), 1);
	char big[2000];
	memset(big, ' ', sizeof big);
	big[sizeof big - 1] = '\0';
	peer_send("{%s}", big);
	ck_assert_int_eq(mcpd_process(client), -EMSGSIZE);
	ck_assert_int_eq(seen.state, MCPD_DISCONNECTED);
	mcpd_client_free(client);
}
END_TEST

/* What had been sent may have been run; what was still in our own queue was not. */
START_TEST(a_daemon_that_dies_tells_sent_from_unsent)
{
	struct seen sent, unsent = { 0 };
	mcpd_client *client = connected_client(&sent);
	request(client, "servers/list", NULL, &sent);
	/* Far more than a socket takes, so that this request waits with us; and a stalled daemon blocks nobody. */
	size_t size = 8 << 20;
	char *params = malloc(size);
	ck_assert_ptr_nonnull(params);
	memset(params, 'x', size);
	memcpy(params, "{\"pad\":\"", 8);
	strcpy(params + size - 3, "\"}");
	request(client, "daemon/status", params, &sent);
	free(params);
	request(client, "daemon/status", NULL, &unsent);
	ck_assert_int_eq(mcpd_get_events(client), POLLIN | POLLOUT);
	close(peer);
	peer = -1;
	ck_assert_int_lt(mcpd_process(client), 0);
	ck_assert_uint_eq(sent.replies, 2);
	ck_assert_int_eq(sent.maybe, 1);
	ck_assert_uint_eq(unsent.replies, 1);
	ck_assert_int_lt(unsent.status, 0);
	ck_assert_int_eq(unsent.maybe, 0);
	ck_assert_int_eq(sent.state, MCPD_DISCONNECTED);
	mcpd_client_free(client);
}
END_TEST

/* Answers that were on their way when the daemon went are delivered, not lost. */
START_TEST(answers_before_the_end_count)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	request(client, "servers/list", NULL, &seen);
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	close(peer);
	peer = -1;
	ck_assert_int_eq(mcpd_process(client), -ECONNRESET);
	ck_assert_uint_eq(seen.replies, 1);
	ck_assert_int_eq(seen.status, 0);
	mcpd_client_free(client);
}
END_TEST

START_TEST(a_stalled_daemon_costs_the_timeout_and_is_told)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = 30 };
	ck_assert_int_eq(mcpd_request(client, "servers/list", NULL, &options, on_reply, &seen, NULL), 0);
	ck_assert_int_ge(mcpd_get_timeout(client), 0);
	ck_assert_int_le(mcpd_get_timeout(client), 30);
	while (seen.replies == 0)
		ck_assert_int_ge(mcpd_wait(client, -1), 0);
	ck_assert_int_eq(seen.status, -ETIMEDOUT);
	ck_assert_int_eq(seen.maybe, 1);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"notifications/cancelled\",\"params\":{\"requestId\":1"));
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	ck_assert_int_eq(mcpd_process(client), 0);
	ck_assert_uint_eq(seen.replies, 1);
	ck_assert_int_eq(mcpd_get_timeout(client), -1);
	mcpd_client_free(client);
}
END_TEST

START_TEST(a_daemon_that_never_says_hello_is_a_timeout)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect(client, 30), -ETIMEDOUT);
	ck_assert_int_eq(seen.state, MCPD_DISCONNECTED);
	ck_assert_ptr_nonnull(strstr(mcpd_last_error(client), socket_path));
	mcpd_client_free(client);
}
END_TEST

START_TEST(hello_refused_is_told)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	peer_send(
		"{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"error\":{\"code\":-32602,\"message\":\"protocol 1 is gone\"}}\n");
	ck_assert_int_eq(mcpd_process(client), -EPROTONOSUPPORT);
	ck_assert_ptr_nonnull(strstr(mcpd_last_error(client), "protocol 1 is gone"));
	mcpd_client_free(client);
}
END_TEST

/* The daemon takes the connection and closes it unread, as one that is leaving does with what it has not accepted. */
static void cut(mcpd_client *client)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	close(fd);
	struct pollfd wait = { .fd = mcpd_get_fd(client), .events = (short)mcpd_get_events(client) };
	poll(&wait, 1, 5000);
}

/* Until the next attempt is made. */
static void try_again(mcpd_client *client)
{
	ck_assert_int_eq(mcpd_process(client), 0);
	ck_assert_int_eq(mcpd_get_fd(client), -1);
	poll(NULL, 0, mcpd_get_timeout(client));
	ck_assert_int_eq(mcpd_process(client), 0);
	ck_assert_int_eq(mcpd_get_state(client), MCPD_CONNECTING);
}

START_TEST(what_ends_before_hello_was_answered_is_tried_again)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect_start(client, 60000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	request(client, "servers/list", NULL, &seen);
	for (int i = 0; i < 3; i++) {
		cut(client);
		try_again(client);
	}
	ck_assert_uint_eq(seen.states, 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	const char *sent = peer_read();
	ck_assert_ptr_nonnull(strstr(sent, "\"daemon/hello\""));
	ck_assert_ptr_nonnull(strstr(sent, "\"servers/list\""));
	peer_send(HELLO_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	ck_assert_int_eq(mcpd_process(client), 2);
	ck_assert_int_eq(seen.state, MCPD_CONNECTED);
	ck_assert_int_eq(seen.status, 0);
	mcpd_client_free(client);
}
END_TEST

START_TEST(but_not_for_ever)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect_start(client, 60000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	for (int i = 0; i < 3; i++) {
		cut(client);
		try_again(client);
	}
	cut(client);
	int r = mcpd_process(client);
	ck_assert_msg(r == -ECONNRESET || r == -EPIPE, "%d", r);
	ck_assert_int_eq(seen.state, MCPD_DISCONNECTED);
	mcpd_client_free(client);
}
END_TEST

START_TEST(why_the_daemon_does_not_want_us_is_told)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect_start(client, 60000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	peer_read();
	peer_send(
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32009,\"message\":\"too many clients are connected\"}}\n");
	ck_assert_int_eq(mcpd_process(client), -EPROTONOSUPPORT);
	ck_assert_ptr_nonnull(strstr(mcpd_last_error(client), "too many clients are connected"));
	mcpd_client_free(client);
}
END_TEST

START_TEST(nobody_listens_is_told_with_the_path)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	mcpd_set_socket(client, "/tmp/mcpd-client-none/socket");
	ck_assert_int_eq(mcpd_connect(client, 1000), -ENOENT);
	ck_assert_ptr_nonnull(strstr(mcpd_last_error(client), "/tmp/mcpd-client-none/socket"));
	char too_long[300];
	memset(too_long, 'x', sizeof too_long);
	too_long[0] = '/';
	too_long[sizeof too_long - 1] = '\0';
	mcpd_set_socket(client, too_long);
	ck_assert_int_eq(mcpd_connect(client, 1000), -ENAMETOOLONG); /* R38 */
	mcpd_client_free(client);
}
END_TEST

START_TEST(requests_made_while_connecting_follow_hello)
{
	struct seen seen;
	mcpd_client *client = new_client(&seen);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), 0);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), -EISCONN);
	request(client, "servers/list", NULL, &seen);
	ck_assert_int_eq(mcpd_process(client), 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	const char *sent = peer_read();
	ck_assert_ptr_nonnull(strstr(sent, "daemon/hello"));
	ck_assert_ptr_nonnull(strstr(strchr(sent, '\n'), "servers/list"));
	peer_send(HELLO_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
	ck_assert_int_eq(mcpd_process(client), 2);
	ck_assert_uint_eq(seen.replies, 1);
	ck_assert_str_eq(mcpd_get_hello(client), "{\"protocol\":1}");
	mcpd_client_free(client);
}
END_TEST

START_TEST(cancel_is_a_notification_and_the_answer_still_comes)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	uint64_t number = request(client, "tools/call", "{\"server\":\"s\",\"name\":\"t\"}", &seen);
	peer_read();
	ck_assert_int_eq(mcpd_cancel(client, number, "no \"longer\""), 0);
	ck_assert_ptr_nonnull(strstr(peer_read(), "{\"requestId\":1,\"reason\":\"no \\\"longer\\\"\"}"));
	ck_assert_uint_eq(mcpd_in_flight(client), 1);
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32005,\"message\":\"no longer\"}}\n");
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_int_eq(seen.code, -32005);
	ck_assert_int_eq(mcpd_cancel(client, number, NULL), -ENOENT);
	mcpd_client_free(client);
}
END_TEST

START_TEST(progress_has_our_token_where_each_method_wants_it)
{
	static const struct {
		const char *method, *params, *sent;
	} cases[] = {
		{ "tools/call", "{\"name\":\"t\"}", "\"_meta\":{\"progressToken\":1}" },
		{ "tools/call", "{\"_meta\":{\"x\":1.10,\"progressToken\":\"mine\"},\"name\":\"t\"}", "{\"x\":1.10" },
		{ "mcp/request", "{\"server\":\"s\",\"method\":\"m\"}",
		  "\"params\":{\"_meta\":{\"progressToken\":1}}" },
		{ "mcp/request", "{\"server\":\"s\",\"params\":{\"a\":1},\"method\":\"m\"}",
		  "\"a\":1,\"_meta\":{\"progressToken\":1}" },
		{ "mcp/request", "{}", "{\"params\":{\"_meta\":{\"progressToken\":1}}}" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct seen seen;
		mcpd_client *client = connected_client(&seen);
		struct mcpd_request_options options = { .size = sizeof options, .progress = on_progress };
		ck_assert_int_eq(
			mcpd_request(client, cases[i].method, cases[i].params, &options, on_reply, &seen, NULL), 0);
		const char *sent = peer_read();
		ck_assert_msg(strstr(sent, cases[i].sent) != NULL, "%s lacks %s", sent, cases[i].sent);
		ck_assert_ptr_null(strstr(sent, "mine"));
		peer_send(
			"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":0.5}}\n");
		ck_assert_int_eq(mcpd_process(client), 1);
		ck_assert_uint_eq(seen.progress, 1);
		ck_assert_uint_eq(seen.request, 1);
		/* R26: late or invented progress is nobody's. */
		peer_send(
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"
			"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}\n"
			"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"1\"}}\n");
		ck_assert_int_eq(mcpd_process(client), 1);
		ck_assert_uint_eq(seen.progress, 1);
		ck_assert_int_eq(mcpd_get_state(client), MCPD_CONNECTED);
		mcpd_client_free(client);
	}
}
END_TEST

START_TEST(bad_params_are_refused_before_anything_is_sent)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	static const char *const bad[] = { "", "[]", "1", "{", "{}{}", "{\"a\":NaN}", "{\"a\":\"\xff\"}" };
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		ck_assert_int_eq(mcpd_request(client, "m", bad[i], NULL, on_reply, &seen, NULL), -EINVAL);
		ck_assert_int_eq(mcpd_request_tool(client, "s", "t", bad[i], NULL, on_reply, &seen, NULL), -EINVAL);
		ck_assert_int_eq(mcpd_notify(client, "m", bad[i]), -EINVAL);
		ck_assert_int_eq(mcpd_set_identity(client, "n", "1", bad[i]), -EINVAL);
	}
	ck_assert_str_eq(peer_read(), "");
	/* Newlines between tokens are JSON; on the wire they would cut the line. */
	ck_assert_int_eq(mcpd_request_tool(client, "s\n\"", "t", "{\n\"a\": [\r\n1]}", NULL, on_reply, &seen, NULL), 0);
	const char *sent = peer_read();
	ck_assert_ptr_eq(strchr(sent, '\n'), sent + strlen(sent) - 1);
	ck_assert_ptr_nonnull(strstr(sent, "\"server\":\"s\\n\\\"\""));
	mcpd_client_free(client);
}
END_TEST

START_TEST(a_tool_call_tells_the_daemon_its_timeout)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = 1500 };
	ck_assert_int_eq(mcpd_request_tool(client, "s", "t", NULL, &options, on_reply, &seen, NULL), 0);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"timeoutMs\":1500"));
	ck_assert_int_gt(mcpd_get_timeout(client), 1500); /* the daemon's clock should be the one that is heard */
	mcpd_client_free(client);
}
END_TEST

START_TEST(events_reach_their_handler)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	peer_send("{\"jsonrpc\":\"2.0\",\"method\":\"events/tools\",\"params\":{\"server\":\"a\"}}\n");
	ck_assert_int_eq(mcpd_process(client), 0); /* nobody listens yet */
	mcpd_on_event(client, on_event, &seen);
	peer_send("{\"jsonrpc\":\"2.0\",\"method\":\"events/tools\",\"params\":{\"server\":\"b\"}}\n");
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_str_eq(seen.text, "events/tools {\"server\":\"b\"}");
	mcpd_client_free(client);
}
END_TEST

START_TEST(questions_are_answered_once_or_refused)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":\"q\\u0031\",\"method\":\"roots/list\"}\n");
	ck_assert_int_eq(mcpd_process(client), 0);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"id\":\"q\\u0031\",\"error\":{\"code\":-32601"));
	mcpd_on_question(client, on_question, &seen);
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\",\"params\":{\"m\":1}}\n");
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_str_eq(seen.text, "sampling/createMessage {\"m\":1}");
	ck_assert_int_eq(mcpd_answer(client, seen.question, "{no"), -EINVAL);
	ck_assert_int_eq(mcpd_answer(client, seen.question + 1, "{}"), -ENOENT);
	ck_assert_int_eq(mcpd_answer(client, seen.question, "{\"role\":\"user\"}"), 0);
	ck_assert_str_eq(peer_read(), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"role\":\"user\"}}\n");
	ck_assert_int_eq(mcpd_answer(client, seen.question, "{}"), -ENOENT);
	/* Withdrawn: told, and no longer to be answered. */
	peer_send(
		"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"elicitation/create\"}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":8,\"reason\":\"late\"}}\n");
	ck_assert_int_eq(mcpd_process(client), 2);
	ck_assert_str_eq(seen.text, "withdrawn \"late\"");
	ck_assert_int_eq(mcpd_answer_error(client, seen.question, -1, "no"), -ENOENT);
	mcpd_client_free(client);
}
END_TEST

static void free_from_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)reply;
	++*(unsigned *)userdata;
	mcpd_client_free(client);
}

START_TEST(a_client_may_be_freed_in_its_callback)
{
	struct seen seen;
	unsigned calls = 0;
	mcpd_client *client = connected_client(&seen);
	ck_assert_int_eq(mcpd_request(client, "a", NULL, NULL, free_from_reply, &calls, NULL), 0);
	ck_assert_int_eq(mcpd_request(client, "b", NULL, NULL, free_from_reply, &calls, NULL), 0);
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n");
	mcpd_process(client);
	ck_assert_uint_eq(calls, 1); /* the other ended silently */
	/* The same when the connection's loss ends them. */
	calls = 0;
	client = connected_client(&seen);
	ck_assert_int_eq(mcpd_request(client, "a", NULL, NULL, free_from_reply, &calls, NULL), 0);
	ck_assert_int_eq(mcpd_request(client, "b", NULL, NULL, free_from_reply, &calls, NULL), 0);
	close(peer);
	peer = -1;
	mcpd_process(client);
	ck_assert_uint_eq(calls, 1);
}
END_TEST

static void reconnect_from_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	*(int *)userdata = mcpd_reply_status(reply);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), 0);
	ck_assert_int_eq(mcpd_request(client, "again", NULL, NULL, NULL, NULL, NULL), 0);
}

START_TEST(the_caller_may_reconnect_from_a_lost_requests_callback)
{
	struct seen seen;
	int status = 1;
	mcpd_client *client = connected_client(&seen);
	ck_assert_int_eq(mcpd_request(client, "a", NULL, NULL, reconnect_from_reply, &status, NULL), 0);
	close(peer);
	peer = -1;
	ck_assert_int_lt(mcpd_process(client), 0);
	ck_assert_int_lt(status, 0);
	ck_assert_int_eq(mcpd_get_state(client), MCPD_CONNECTING);
	ck_assert_int_eq(mcpd_process(client), 0);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"again\""));
	ck_assert_uint_eq(mcpd_in_flight(client), 1);
	mcpd_client_free(client);
}
END_TEST

START_TEST(disconnect_ends_requests_in_the_next_process)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	request(client, "a", NULL, &seen);
	mcpd_disconnect(client);
	ck_assert_uint_eq(seen.replies, 0);
	ck_assert_int_eq(mcpd_get_timeout(client), 0);
	ck_assert_int_eq(mcpd_request(client, "b", NULL, NULL, NULL, NULL, NULL), -ENOTCONN);
	ck_assert_int_eq(mcpd_process(client), -ECONNRESET);
	ck_assert_uint_eq(seen.replies, 1);
	ck_assert_int_eq(seen.status, -ECONNRESET);
	ck_assert_int_eq(mcpd_process(client), 0);
	mcpd_client_free(client);
}
END_TEST

static void answer_in_event(mcpd_client *client, const char *method, const char *params, void *userdata)
{
	(void)method, (void)params;
	mcpd_reply *reply = NULL;
	peer_send("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"blocking\":true}}\n");
	*(int *)userdata = mcpd_call(client, "servers/list", NULL, 5000, &reply);
	mcpd_reply_unref(reply);
}

START_TEST(a_blocking_call_may_run_inside_a_callback)
{
	struct seen seen;
	int result = -1;
	mcpd_client *client = connected_client(&seen);
	mcpd_on_event(client, answer_in_event, &result);
	peer_send("{\"jsonrpc\":\"2.0\",\"method\":\"events/x\"}\n");
	ck_assert_int_ge(mcpd_process(client), 1);
	ck_assert_int_eq(result, 0);
	mcpd_client_free(client);
}
END_TEST

START_TEST(many_requests_are_found_again)
{
	struct seen seen;
	mcpd_client *client = connected_client(&seen);
	for (unsigned i = 0; i < 1000; i++)
		request(client, "a", NULL, &seen);
	for (unsigned i = 1000; i > 0; i--) {
		peer_read();
		peer_send("{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":%u}\n", i, i);
		while (seen.replies < 1001 - i)
			ck_assert_int_ge(mcpd_process(client), 0);
		ck_assert_uint_eq(seen.request, i);
	}
	ck_assert_uint_eq(mcpd_in_flight(client), 0);
	mcpd_client_free(client);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		answers_come_verbatim_and_in_any_order,
		a_byte_at_a_time_is_one_answer,
		rubbish_ends_the_connection_and_every_request,
		a_line_over_the_limit_ends_the_connection,
		a_daemon_that_dies_tells_sent_from_unsent,
		answers_before_the_end_count,
		a_stalled_daemon_costs_the_timeout_and_is_told,
		a_daemon_that_never_says_hello_is_a_timeout,
		hello_refused_is_told,
		what_ends_before_hello_was_answered_is_tried_again,
		but_not_for_ever,
		why_the_daemon_does_not_want_us_is_told,
		nobody_listens_is_told_with_the_path,
		requests_made_while_connecting_follow_hello,
		cancel_is_a_notification_and_the_answer_still_comes,
		progress_has_our_token_where_each_method_wants_it,
		bad_params_are_refused_before_anything_is_sent,
		a_tool_call_tells_the_daemon_its_timeout,
		events_reach_their_handler,
		questions_are_answered_once_or_refused,
		a_client_may_be_freed_in_its_callback,
		the_caller_may_reconnect_from_a_lost_requests_callback,
		disconnect_ends_requests_in_the_next_process,
		a_blocking_call_may_run_inside_a_callback,
		many_requests_are_found_again,
		NULL,
	};
	return run_with_peer("client_library", tests);
}

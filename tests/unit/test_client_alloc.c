/* libmcpd-client with every allocation failed once: each failure is an error that is told, and nothing is lost or leaked. */
#include "alloc_fail.h"
#include "client_peer.h"

/* Check allocates too: not what is to fail here. */
#define peer_send_unwatched(...)                                                                                       \
	do {                                                                                                           \
		bool watching = alloc_state.watching;                                                                  \
		alloc_state.watching = false;                                                                          \
		peer_send(__VA_ARGS__);                                                                                \
		alloc_state.watching = watching;                                                                       \
	} while (0)

/* All that a client does in its life, every result looked at. The peer's part is played without allocating. */
static void whole_life(struct seen *seen, bool *ret_connected)
{
	mcpd_client *client = NULL;
	*ret_connected = false;
	if (mcpd_client_new(&client) < 0)
		return;
	mcpd_on_state(client, on_state, seen);
	mcpd_on_event(client, on_event, seen);
	mcpd_on_question(client, on_question, seen);
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = 5000, .progress = on_progress };
	uint64_t number = 0;
	if (mcpd_set_socket(client, socket_path) < 0 || mcpd_set_identity(client, "test", "1", "{\"roots\":{}}") < 0 ||
	    mcpd_connect_start(client, 5000) < 0 || mcpd_process(client) < 0)
		goto out;
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	peer_send_unwatched(HELLO_ANSWER);
	int r = mcpd_process(client);
	if (r == -ENOMEM && mcpd_get_state(client) == MCPD_CONNECTING)
		goto out;
	if (mcpd_get_state(client) != MCPD_CONNECTED)
		goto out;
	*ret_connected = true;
	bool asked = mcpd_request_tool(client, "s", "t", "{\"a\":1}", &options, on_reply, seen, &number) == 0;
	peer_send_unwatched(
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"events/x\",\"params\":{}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"roots/list\"}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"m\",\"data\":{\"x\":1}}}\n");
	/* Short memory is told and nothing is lost: the next call goes on where this one stopped. */
	for (int i = 0; i < 5; i++) {
		r = mcpd_process(client);
		if (r < 0 && r != -ENOMEM)
			abort(); /* ck_assert() would allocate */
	}
	if (seen->question && mcpd_answer(client, seen->question, "{}") == -ENOMEM)
		mcpd_answer(client, seen->question, "{}");
	alloc_state.watching = false;
	ck_assert_uint_eq(seen->events, 1);
	ck_assert_uint_eq(seen->questions, 1);
	ck_assert_uint_eq(seen->replies, asked ? 1 : 0);
	ck_assert_uint_eq(seen->progress, asked ? 1 : 0);
	ck_assert_int_eq(mcpd_get_state(client), MCPD_CONNECTED);
out:
	mcpd_client_free(client);
}

START_TEST(every_allocation_failed_once)
{
	bool failed = true, connected = false;
	unsigned n = 0;
	while (failed) {
		struct seen seen = { 0 };
		long live;
		alloc_watch(++n);
		whole_life(&seen, &connected);
		failed = alloc_state.failed;
		alloc_done(&live);
		/* The next round must not find this one's connection in the backlog. */
		if (peer >= 0)
			close(peer);
		peer = -1;
		fcntl(listener, F_SETFL, O_NONBLOCK);
		int waiting;
		while ((waiting = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			close(waiting);
		fcntl(listener, F_SETFL, 0);
	}
	ck_assert(connected);
	ck_assert_uint_gt(n, 15);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { every_allocation_failed_once, NULL };
	return run_with_peer("client_alloc", tests);
}

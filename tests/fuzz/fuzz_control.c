/*
 * What local clients send, over a socketpair and in small writes: the control dialect, and after mcp/attach the MCP
 * dialect, with sessions, requests and router above the manager of the unit tests. First byte: how many bytes a write
 * has. The rest are lines; one that begins with '!' is a doing of the servers or of another client (r: the oldest call
 * gets its result, f: it fails, i: an input-required result, q: a server asks the client of the newest call, w: and
 * withdraws that, n: it notifies, l: its lists change, s: its state, g: it is removed and added, p: another client takes
 * the lines from here on, x: this one closes its writing side), every other is sent as it is.
 *
 * Whatever comes: each line that comes back is JSON, and there are no more answers than values that were sent; in the
 * end everything is freed.
 */
#include "session_fixture.h"

#include "log.h"
#include "proto/json_scan.h"

#define PEERS_MAX 8
#define LINES_MAX 200

struct world {
	struct peer *peers[PEERS_MAX];
	size_t n_peers;
	struct server *server;
	size_t step; /* bytes of one write */
	size_t sent, answers;
	uint64_t question;
};

static void look_at(struct world *w, struct span line)
{
	struct jsonrpc_message m;
	ck_assert_int_eq(json_check(line, NULL), 0);
	if (jsonrpc_parse(line, &m, NULL) == 0 && (m.kind == JSONRPC_RESULT || m.kind == JSONRPC_ERROR))
		w->answers++;
}

static void read_all(struct world *w)
{
	for (size_t i = 0; i < w->n_peers; i++) {
		struct peer *p = w->peers[i];
		while (!p->eof && read_some(p))
			;
		char *at = p->data, *end = p->data + p->len, *newline;
		while (p->len && (newline = memchr(at, '\n', (size_t)(end - at)))) {
			look_at(w, (struct span){ at, (size_t)(newline - at) });
			at = newline + 1;
			p->len = (size_t)(end - at);
		}
		if (p->len)
			memmove(p->data, at, p->len);
	}
}

static void add_peer(struct world *w)
{
	if (w->n_peers < PEERS_MAX)
		w->peers[w->n_peers++] = peer_new();
}

static void send_line_to(struct world *w, struct span line)
{
	struct peer *p = w->peers[w->n_peers - 1];
	const char *at = line.ptr, *end = line.ptr + line.len;
	while (at < end && !p->eof) {
		size_t n = (size_t)(end - at) < w->step ? (size_t)(end - at) : w->step;
		ssize_t written = send(p->fd, at, n, MSG_NOSIGNAL);
		if (written > 0)
			at += written;
		else if (errno != EAGAIN)
			break;
		passes(1);
		read_all(w);
	}
	(void)!send(p->fd, "\n", 1, MSG_NOSIGNAL);
	w->sent += line.len + 1;
}

static struct fake_call *oldest_call(void)
{
	for (size_t i = 0; i < fake.n_calls; i++)
		if (fake.calls[i].open)
			return &fake.calls[i];
	return NULL;
}

static struct fake_call *newest_call(void)
{
	for (size_t i = fake.n_calls; i > 0; i--)
		if (fake.calls[i - 1].open)
			return &fake.calls[i - 1];
	return NULL;
}

static void act(struct world *w, char what)
{
	static const char *const methods[] = { "\"elicitation/create\"", "\"sampling/createMessage\"",
					       "\"roots/list\"" };
	struct fake_call *oldest = oldest_call(), *newest = newest_call();
	switch (what) {
	case 'r':
		if (oldest)
			fake_result(oldest, "{\"content\":[],\"x\":1.10}");
		break;
	case 'f':
		if (oldest)
			fake_fail(oldest, MCPD_E_TIMEOUT, "Request timeout after 5ms", true);
		break;
	case 'i':
		if (oldest)
			fake_result(oldest, "{\"resultType\":\"input_required\",\"requestState\":\"s\"}");
		break;
	case 'q':
		if (newest && newest->client) {
			w->question++;
			fake_ask(newest->server, w->question, methods[w->question % 3], "{\"message\":\"?\"}",
				 MCP_PROOF_SOLE_OWNER, newest->client, w->question % 2 ? newest->id : 0, false);
		}
		break;
	case 'w':
		fake.callbacks->on_question_withdrawn(fake.arg, w->question, SPAN_LIT("\"no\""));
		break;
	case 'n':
		fake.callbacks->on_notification(fake.arg, w->server, 0, SPAN_LIT("\"notifications/resources/updated\""),
						SPAN_LIT("{\"uri\":\"a://b\"}"));
		fake.callbacks->on_notification(fake.arg, w->server, 0, SPAN_LIT("\"notifications/message\""),
						SPAN_LIT("{\"level\":\"error\",\"data\":1}"));
		break;
	case 'l':
		for (int list = 0; list < SERVER_LIST_COUNT; list++) {
			fake_set_list(w->server, (enum server_list)list, w->sent % 3 != 0,
				      "[{\"name\":\"t\",\"uri\":\"a://b\",\"uriTemplate\":\"a://{x}\"}]",
				      w->sent % 2 ? "r1" : "r2");
			fake.callbacks->on_list(fake.arg, w->server, (enum server_list)list);
		}
		fake.callbacks->on_listing(fake.arg, w->server);
		break;
	case 's':
		fake_set_state(w->server, (enum server_state)(w->sent % SERVER_STATE_COUNT));
		break;
	case 'p':
		add_peer(w);
		break;
	case 'x':
		shutdown(w->peers[w->n_peers - 1]->fd, SHUT_WR);
		break;
	default:
		passes(1);
	}
}

static void finish(struct world *w)
{
	/* What waits for an order is told that it was not to be. */
	for (size_t i = 0; i < fake.n_orders; i++)
		fake.orders[i].done(fake.orders[i].arg, fake.orders[i].server, NULL);
	fake.n_orders = 0;
	passes(2);
	read_all(w);
	ck_assert(w->answers <= w->sent);
	for (size_t i = 0; i < w->n_peers; i++)
		peer_close(w->peers[i]);
	end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	struct world w = { .step = data[0] % 64 + 1 };
	const char *at = (const char *)data + 1, *stop = (const char *)data + size;
	log_init(LOG_LEVEL_ERROR, NULL);
	begin();
	w.server = fake_add("s");
	fake_add("t");
	add_peer(&w);
	for (unsigned lines = 0; at < stop && lines < LINES_MAX && fake.n_calls < FAKE_MAX / 2 && fake.n_orders < 12 &&
				 fake.n_answers < 60 && fake.n_gone < 50;
	     lines++) {
		const char *newline = memchr(at, '\n', (size_t)(stop - at));
		const char *line_end = newline ? newline : stop;
		if (*at == '!' && line_end > at + 1)
			act(&w, at[1]);
		else
			send_line_to(&w, (struct span){ at, (size_t)(line_end - at) });
		passes(2);
		read_all(&w);
		at = line_end + 1;
	}
	finish(&w);
	return 0;
}

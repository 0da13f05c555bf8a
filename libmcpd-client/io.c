/* Bytes in and out of the socket, and the one function that drives everything. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES 65536
#define READS_PER_CALL 16 /* a bounded amount of work for each mcpd_process() */
#define LINES_PER_CALL 256
#define KEEP_BYTES (1U << 16) /* queue memory kept when it is empty */

/* keep: what is sent may have to be sent again. */
static int flush_one(mcpd_client *client, struct buf *queue, size_t *sent, bool keep)
{
	while (*sent < queue->len) {
		ssize_t n = send(client->fd, queue->data + *sent, queue->len - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0) {
			*sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		return errno == EAGAIN ? -EAGAIN : -errno;
	}
	if (keep)
		return 0;
	*sent = 0;
	if (queue->cap > KEEP_BYTES)
		buf_done(queue);
	else
		buf_reset(queue);
	return 0;
}

int io_flush(mcpd_client *client)
{
	if (client->fd < 0)
		return 0;
	int r = flush_one(client, &client->hello_out, &client->hello_sent, false);
	if (r == 0)
		r = flush_one(client, &client->out, &client->out_sent, client->step == STEP_HELLO);
	return r == -EAGAIN ? 0 : r;
}

int io_queue(mcpd_client *client, const struct buf *line)
{
	if (buf_failed(line))
		return client_fail(client, -ENOMEM, "out of memory");
	if (line->len > client->max_message)
		return client_fail(client, -EMSGSIZE, "a message of %zu bytes is over the limit of %zu", line->len,
				   client->max_message);
	/* What was sent need not be kept: moving the rest to the front bounds the queue by what is unsent. */
	if (client->step != STEP_HELLO && client->out_sent > 0 && client->out_sent >= client->out.len / 2) {
		memmove(client->out.data, client->out.data + client->out_sent, client->out.len - client->out_sent);
		client->out.len -= client->out_sent;
		client->out_sent = 0;
	}
	if (buf_reserve(&client->out, line->len) < 0) {
		client->out.error = 0; /* what is queued is whole */
		return client_fail(client, -ENOMEM, "out of memory");
	}
	buf_add_span(&client->out, buf_span(line));
	client->queued_total += line->len;
	/* A broken socket shows itself to mcpd_process(), where callbacks may run. */
	io_flush(client);
	return 0;
}

/* Hands out the lines that are whole. 0, or the errno that ends the connection, or -ENOMEM with the line kept. */
static int deliver_lines(mcpd_client *client, unsigned *budget)
{
	while (*budget > 0 && !client->doomed && client->fd >= 0 && !client->lost) {
		size_t mark = client->in.start;
		struct span line;
		enum framer_result got = framer_next(&client->in, &line);
		if (got == FRAMER_NEED_MORE)
			return 0;
		if (got == FRAMER_TOO_LONG)
			return client_fail(client, -EMSGSIZE, "the daemon sent a line of over %zu bytes",
					   client->max_message);
		line = framer_clean(line);
		if (line.len == 0)
			continue;
		(*budget)--;
		int r = dispatch_line(client, line);
		if (r == -ENOMEM) {
			client->in.start = client->in.scanned = mark;
			return r;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_some(mcpd_client *client)
{
	unsigned budget = LINES_PER_CALL;
	int r = deliver_lines(client, &budget);
	for (unsigned i = 0; r == 0 && i < READS_PER_CALL && budget > 0; i++) {
		if (client->doomed || client->fd < 0 || client->lost)
			return 0;
		size_t room;
		char *space = framer_space(&client->in, READ_BYTES, &room);
		if (!space)
			return client_fail(client, -ENOMEM, "out of memory");
		ssize_t n = recv(client->fd, space, room, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return client_fail(client, -errno, "reading from the daemon failed: %s", strerror(errno));
		if (n == 0)
			return client_fail(client, -ECONNRESET, "the daemon closed the connection");
		framer_filled(&client->in, (size_t)n);
		r = deliver_lines(client, &budget);
	}
	if (r == 0 && !client->doomed && client->fd >= 0)
		framer_shrink(&client->in);
	return r;
}

static int process_connection(mcpd_client *client)
{
	if (client->state == MCPD_DISCONNECTED)
		return 0;
	if (client->state == MCPD_CONNECTING) {
		int r = connect_step(client);
		if (r < 0 || client->step == STEP_REACH)
			return r;
	}
	/* Answers that came before the daemon went are still answers: read before looking at a failed write. */
	int written = io_flush(client);
	int r = read_some(client);
	if (r == 0 && written < 0 && !client->doomed)
		return client_fail(client, written, "writing to the daemon failed: %s", strerror(-written));
	return r;
}

MCPD_PUBLIC int mcpd_process(mcpd_client *client)
{
	client_enter(client);
	unsigned before = client->callbacks;
	int r = 0;
	if (!client->lost)
		r = process_connection(client);
	if (r < 0 && !client->doomed && connect_again(client, r))
		r = 0;
	if (!client->doomed && client->lost) {
		r = client->lost;
		client->lost = 0;
	}
	bool short_of_memory = r == -ENOMEM && client->state == MCPD_CONNECTED;
	if (r < 0 && !short_of_memory && !client->doomed)
		connect_lost(client, r);
	if (!client->doomed)
		requests_expire(client);
	int callbacks = (int)(client->callbacks - before);
	client_leave(client);
	return r < 0 ? r : callbacks;
}

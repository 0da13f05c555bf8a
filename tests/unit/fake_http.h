/*
 * A scripted HTTP/1.1 server in the test's own process: fake_http_step() accepts, reads and calls the script for each
 * whole request, which answers with raw bytes, at once or later. Nothing here waits.
 */
#pragma once

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_HTTP_CONNS 512

struct fake_conn {
	int fd; /* -1: free */
	char *in;
	size_t in_len;
	unsigned requests; /* taken from it */
};

struct fake_request {
	struct fake_conn *conn;
	char *method, *target;
	char *head; /* all header lines */
	char *body;
	size_t body_len;
};

struct fake_http;
typedef void fake_http_script(struct fake_http *server, const struct fake_request *request);

struct fake_http {
	int fd;
	int port;
	fake_http_script *script;
	void *arg;
	unsigned accepted, requests, hangups;
	struct fake_conn conns[FAKE_HTTP_CONNS];
};

/* port 0: any. Listens on 127.0.0.1. */
static inline void fake_http_start(struct fake_http *server, int port, fake_http_script *script, void *arg)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t len = sizeof(address);
	int one = 1;
	memset(server, 0, sizeof(*server));
	for (int i = 0; i < FAKE_HTTP_CONNS; i++)
		server->conns[i].fd = -1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ck_assert_int_eq(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(server->fd, 512), 0);
	getsockname(server->fd, (struct sockaddr *)&address, &len);
	server->port = ntohs(address.sin_port);
	server->script = script;
	server->arg = arg;
}

static inline void fake_conn_close(struct fake_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	free(conn->in);
	*conn = (struct fake_conn){ .fd = -1 };
}

/* With RST in place of FIN. */
static inline void fake_conn_reset(struct fake_conn *conn)
{
	struct linger linger = { 1, 0 };
	setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	fake_conn_close(conn);
}

static inline void fake_http_stop(struct fake_http *server)
{
	for (int i = 0; i < FAKE_HTTP_CONNS; i++)
		fake_conn_close(&server->conns[i]);
	if (server->fd >= 0)
		close(server->fd);
	server->fd = -1;
}

/* Sends all of it; false if the peer is gone or takes no more (the rest is dropped). */
static inline bool fake_send(struct fake_conn *conn, const void *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = send(conn->fd, bytes, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		bytes = (const char *)bytes + n;
		len -= (size_t)n;
	}
	return true;
}

static inline bool fake_send_text(struct fake_conn *conn, const char *text)
{
	return fake_send(conn, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static inline bool fake_sendf(struct fake_conn *conn, const char *format, ...)
{
	char text[8192];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ck_assert_int_lt(len, (int)sizeof(text));
	return fake_send(conn, text, (size_t)len);
}

/* A whole response; headers: lines with CRLF each, or "". */
static inline bool fake_respond(struct fake_conn *conn, const char *status, const char *headers, const char *body)
{
	return fake_sendf(conn, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, headers, strlen(body)) &&
	       fake_send(conn, body, strlen(body));
}

/* The value of a request's header in a static buffer, or NULL. */
static inline const char *fake_header(const struct fake_request *request, const char *name)
{
	static char value[4096];
	size_t len = strlen(name);
	for (const char *line = request->head; *line; line = strchr(line, '\n') + 1) {
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		const char *start = line + len + 1 + strspn(line + len + 1, " ");
		snprintf(value, sizeof(value), "%.*s", (int)strcspn(start, "\r\n"), start);
		return value;
	}
	return NULL;
}

/* The JSON-RPC id in a request's body, quotes included, in a static buffer; "null" if there is none. */
static inline const char *fake_id(const struct fake_request *request)
{
	static char id[64];
	const char *at = strstr(request->body, "\"id\":\"m-");
	snprintf(id, sizeof(id), "%.*s", at ? (int)strcspn(at + 5, ",}") : 4, at ? at + 5 : "null");
	return id;
}

static inline bool fake_is(const struct fake_request *request, const char *method)
{
	char text[128];
	snprintf(text, sizeof(text), "\"method\":\"%s\"", method);
	return strstr(request->body, text) != NULL;
}

/* Takes one whole request off a connection's input; false if there is none. */
static inline bool fake_take_request(struct fake_http *server, struct fake_conn *conn)
{
	char *end = conn->in ? strstr(conn->in, "\r\n\r\n") : NULL;
	if (!end)
		return false;
	size_t head_len = (size_t)(end - conn->in) + 4;
	char *length = strcasestr(conn->in, "content-length:");
	size_t body_len = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
	if (conn->in_len < head_len + body_len)
		return false;
	struct fake_request request = { .conn = conn, .body_len = body_len };
	char *all = strndup(conn->in, head_len);
	request.body = malloc(body_len + 1);
	memcpy(request.body, conn->in + head_len, body_len);
	request.body[body_len] = '\0';
	conn->in_len -= head_len + body_len;
	memmove(conn->in, conn->in + head_len + body_len, conn->in_len + 1);
	request.method = strtok(all, " ");
	request.target = strtok(NULL, " ");
	char *version = strtok(NULL, "\r");
	request.head = version + strlen(version) + 2; /* behind the line end, of which strtok() took the CR */
	conn->requests++;
	server->requests++;
	server->script(server, &request);
	free(request.body);
	free(all);
	return true;
}

static inline void fake_conn_step(struct fake_http *server, struct fake_conn *conn)
{
	char bytes[65536];
	ssize_t n;
	while (conn->fd >= 0 && (n = recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) >= 0) {
		if (n == 0) {
			server->hangups++;
			fake_conn_close(conn);
			return;
		}
		conn->in = realloc(conn->in, conn->in_len + (size_t)n + 1);
		memcpy(conn->in + conn->in_len, bytes, (size_t)n);
		conn->in_len += (size_t)n;
		conn->in[conn->in_len] = '\0';
	}
	if (conn->fd >= 0 && errno != EAGAIN) {
		server->hangups++;
		fake_conn_close(conn);
		return;
	}
	while (conn->fd >= 0 && fake_take_request(server, conn))
		;
}

static inline void fake_http_step(struct fake_http *server)
{
	int one = 1;
	for (int fd; (fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
		int i = 0;
		while (i < FAKE_HTTP_CONNS && server->conns[i].fd >= 0)
			i++;
		ck_assert_int_lt(i, FAKE_HTTP_CONNS);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		server->conns[i] = (struct fake_conn){ .fd = fd };
		server->accepted++;
	}
	for (int i = 0; i < FAKE_HTTP_CONNS; i++)
		if (server->conns[i].fd >= 0)
			fake_conn_step(server, &server->conns[i]);
}

#include "loop/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "loop/curl_loop.h"
#include "proto/buf.h"
#include "xalloc.h"

/* What is handed out in one pass, and what is kept at most before libcurl has to wait (plus one piece of libcurl's). */
#define PIECE_BYTES ((size_t)64 << 10)
/* A peer that is gone without a word is noticed on silent event streams. */
#define KEEPALIVE_SECONDS 60L
/*
 * A kept connection that the server closes just as a request leaves costs that request: it may have run, and is not sent again (H12). Servers
 * close what is idle, the common ones after 5 s; so none older than this is used again.
 */
#define REUSE_SECONDS 4L

/* What OpenSSL says of a certificate (X509_V_ERR_..), as CURLINFO_SSL_VERIFYRESULT gives it. */
#define VERIFY_OK 0
#define VERIFY_UNSPECIFIED 1
#define VERIFY_NOT_YET_VALID 9
#define VERIFY_EXPIRED 10
#define VERIFY_HOST 62
#define VERIFY_IP 64

struct transfer {
	struct curl_loop *cl;
	uint64_t number; /* in the curl_loop; 0: not there any more */
	CURL *easy;
	struct curl_slist *headers;
	struct transfer_callbacks callbacks;
	void *arg;
	struct task *task; /* hands out what has come */

	struct buf body; /* of the request; given back once it has left */
	size_t body_len, body_sent;
	bool has_body;
	struct transfer_traffic *traffic; /* or NULL */

	struct buf head; /* the response's header lines, each NUL-terminated; the first is the status line */
	size_t max_headers, n_headers, head_bytes, max_header_bytes;
	int status;
	bool head_done, head_told;

	struct buf unread; /* body that was not handed out yet, from unread_at on */
	size_t unread_at;
	bool paused;

	bool ended, end_told, closed;
	struct transfer_end end;
	char detail[CURL_ERROR_SIZE];
};

/* -- what libcurl calls: notes only */

static void fail(struct transfer *t, enum transfer_error error)
{
	if (t->end.error == TRANSFER_OK)
		t->end.error = error;
}

static size_t on_read(char *to, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t left = t->body_len - t->body_sent;
	size_t len = size * n < left ? size * n : left;
	if (len > 0)
		memcpy(to, t->body.data + t->body_sent, len);
	t->body_sent += len;
	if (t->traffic)
		t->traffic->sent += len;
	if (t->body_sent == t->body_len)
		buf_done(&t->body);
	return len;
}

/* libcurl wants to begin again (a kept connection was dead): only as long as nothing has left. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
	struct transfer *t = arg;
	if (origin != SEEK_SET || offset != 0 || t->body_sent > 0)
		return CURL_SEEKFUNC_FAIL;
	return CURL_SEEKFUNC_OK;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	struct span line = { bytes, len };
	while (line.len > 0 && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
		line.len--;
	t->head_bytes += len;
	if (t->head_bytes > t->max_header_bytes) {
		fail(t, TRANSFER_HEADER_BYTES);
		return 0;
	}
	if (t->head_done)
		return len; /* trailers */
	if (line.len == 0) {
		long status = 0;
		curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
		if (status >= 200) {
			t->status = (int)status;
			t->head_done = true;
			task_schedule(t->task);
		}
		return len;
	}
	if (line.len >= 5 && strncasecmp(line.ptr, "HTTP/", 5) == 0) {
		buf_reset(&t->head); /* an interim response came before */
		t->n_headers = 0;
	} else if (++t->n_headers > t->max_headers) {
		fail(t, TRANSFER_HEADER_COUNT);
		return 0;
	}
	buf_add_span(&t->head, line);
	buf_add_char(&t->head, '\0');
	if (buf_failed(&t->head)) {
		fail(t, TRANSFER_NO_MEMORY);
		return 0;
	}
	return len;
}

static size_t on_write(char *bytes, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	if (t->unread.len - t->unread_at >= PIECE_BYTES) {
		t->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	buf_add(&t->unread, bytes, len);
	if (buf_failed(&t->unread)) {
		fail(t, TRANSFER_NO_MEMORY);
		return 0;
	}
	if (t->traffic)
		t->traffic->received += len;
	task_schedule(t->task);
	return len;
}

static enum transfer_error certificate_error(struct transfer *t)
{
	long result = VERIFY_OK;
	curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &result);
	switch (result) {
	case VERIFY_OK: /* the chain is good: libcurl itself compares the host, before it notes this result */
	case VERIFY_UNSPECIFIED:
	case VERIFY_HOST:
	case VERIFY_IP:
		return TRANSFER_TLS_HOST;
	case VERIFY_NOT_YET_VALID:
	case VERIFY_EXPIRED:
		return TRANSFER_TLS_EXPIRED;
	default:
		return TRANSFER_TLS_UNTRUSTED;
	}
}

/* libcurl has one code for a timeout while connecting and after; after, there is none here. */
static enum transfer_error error_of(struct transfer *t, CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return TRANSFER_OK;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return TRANSFER_BAD_URL;
	case CURLE_COULDNT_RESOLVE_HOST:
		return TRANSFER_RESOLVE;
	case CURLE_COULDNT_RESOLVE_PROXY:
		return TRANSFER_RESOLVE_PROXY;
	case CURLE_COULDNT_CONNECT:
		return TRANSFER_CONNECT;
	case CURLE_OPERATION_TIMEDOUT:
		return TRANSFER_CONNECT_TIMEOUT;
	case CURLE_PROXY:
		return TRANSFER_PROXY;
	case CURLE_PEER_FAILED_VERIFICATION:
		return certificate_error(t);
	case CURLE_SSL_CACERT_BADFILE:
		return TRANSFER_CA_FILE;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_CERTPROBLEM:
		return TRANSFER_TLS;
	case CURLE_OUT_OF_MEMORY:
		return TRANSFER_NO_MEMORY;
	default:
		return TRANSFER_LOST;
	}
}

/* The words that go with the error: the system's for a connection, else libcurl's. */
static void set_detail(struct transfer *t, CURLcode code)
{
	long error = 0;
	long connect_code = 0;
	if (code == CURLE_OK)
		return;
	curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
	curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &connect_code);
	if (t->end.error == TRANSFER_LOST && connect_code >= 300)
		t->end.error = TRANSFER_PROXY;
	if (t->end.error == TRANSFER_CONNECT && error != 0)
		snprintf(t->detail, sizeof(t->detail), "%s", strerror((int)error));
	else if (code == CURLE_SEND_FAIL_REWIND)
		snprintf(t->detail, sizeof(t->detail), "the connection was closed before an answer");
	else if (!t->detail[0])
		snprintf(t->detail, sizeof(t->detail), "%s", curl_easy_strerror(code));
}

static void on_done(void *arg, int code)
{
	struct transfer *t = arg;
	t->number = 0;
	t->ended = true;
	fail(t, error_of(t, (CURLcode)code));
	set_detail(t, (CURLcode)code);
	task_schedule(t->task);
}

/* -- handing out */

/* Lets libcurl go on once enough was taken; it may bring the next piece at once. */
static void resume(struct transfer *t)
{
	if (!t->paused || t->unread.len - t->unread_at >= PIECE_BYTES)
		return;
	t->paused = false;
	if (t->number)
		curl_easy_pause(t->easy, CURLPAUSE_CONT);
}

static void hand_out_data(struct transfer *t)
{
	size_t left = t->unread.len - t->unread_at;
	struct span piece = { t->unread.data + t->unread_at, left < PIECE_BYTES ? left : PIECE_BYTES };
	size_t taken = t->callbacks.on_data(t->arg, piece);
	if (t->closed)
		return;
	t->unread_at += taken;
	if (t->unread_at == t->unread.len) {
		buf_reset(&t->unread);
		t->unread_at = 0;
	} else if (t->unread_at >= PIECE_BYTES) {
		size_t rest = t->unread.len - t->unread_at;
		memmove(t->unread.data, t->unread.data + t->unread_at, rest);
		buf_truncate(&t->unread, rest);
		t->unread_at = 0;
	}
	resume(t);
}

static void hand_out(void *arg)
{
	struct transfer *t = arg;
	if (t->head_done && !t->head_told) {
		t->head_told = true;
		t->callbacks.on_head(t->arg);
	}
	if (!t->closed && t->unread.len > t->unread_at)
		hand_out_data(t);
	if (t->closed)
		return;
	if (t->unread.len > t->unread_at) {
		task_schedule(t->task);
	} else if (t->ended && !t->end_told) {
		t->end_told = true;
		t->callbacks.on_end(t->arg, &t->end);
	}
}

/* -- setting up */

static void add_header(struct transfer *t, const char *line)
{
	/* libcurl takes "Name:" for "no such header" and "Name;" for an empty one. */
	const char *colon = strchr(line, ':');
	bool empty = colon && colon[1 + strspn(colon + 1, " \t")] == '\0';
	char *text = empty ? xasprintf("%.*s;", (int)(colon - line), line) : NULL;
	struct curl_slist *headers = curl_slist_append(t->headers, text ? text : line);
	free(text);
	if (headers)
		t->headers = headers;
	else
		fail(t, TRANSFER_NO_MEMORY);
}

static void set_headers(struct transfer *t, const char *const *headers)
{
	bool agent = false;
	for (; headers && *headers; headers++) {
		agent |= strncasecmp(*headers, "User-Agent:", 11) == 0;
		add_header(t, *headers);
	}
	if (!agent)
		add_header(t, "User-Agent: mcpd");
	/* No waiting for "100 Continue" before large bodies. */
	t->headers = curl_slist_append(t->headers, "Expect:");
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void set_body(struct transfer *t, struct span body)
{
	buf_add_span(&t->body, body);
	if (buf_failed(&t->body))
		fail(t, TRANSFER_NO_MEMORY);
	t->has_body = true;
	t->body_len = body.len;
	curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
	curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read);
	curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_SEEKFUNCTION, on_seek);
	curl_easy_setopt(t->easy, CURLOPT_SEEKDATA, t);
}

static void set_options(struct transfer *t, const struct transfer_request *request)
{
	CURL *easy = t->easy;
	if (curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK)
		fail(t, TRANSFER_NO_MEMORY);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Closing a transfer must not wait for the resolver's thread. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_SECONDS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_SECONDS);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->detail);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_timeout_ms);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	if (request->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file);
	if (request->insecure) {
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, REUSE_SECONDS);
	/* A GET is an event stream: servers that end one close its connection, too. */
	if (strcmp(request->method, "GET") == 0)
		curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
	if (request->body.ptr)
		set_body(t, request->body);
	else if (strcmp(request->method, "GET") != 0)
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	set_headers(t, request->headers);
}

struct transfer *transfer_start(struct curl_loop *cl, const struct transfer_request *request,
				const struct transfer_callbacks *callbacks, void *arg)
{
	struct transfer *t = xnew(struct transfer);
	t->cl = cl;
	t->callbacks = *callbacks;
	t->arg = arg;
	t->max_headers = request->max_headers;
	t->max_header_bytes = request->max_header_bytes;
	t->traffic = request->traffic;
	t->end.detail = t->detail;
	t->task = task_new(curl_loop_loop(cl), hand_out, t);
	t->easy = curl_easy_init();
	if (t->easy)
		set_options(t, request);
	else
		fail(t, TRANSFER_NO_MEMORY);
	if (t->end.error == TRANSFER_OK)
		t->number = curl_loop_add(cl, t->easy, on_done, t);
	if (!t->number) {
		t->ended = true;
		fail(t, TRANSFER_NO_MEMORY);
		task_schedule(t->task);
	}
	return t;
}

static void destroy(void *arg)
{
	struct transfer *t = arg;
	curl_easy_cleanup(t->easy);
	curl_slist_free_all(t->headers);
	task_free(t->task);
	buf_done(&t->body);
	buf_done(&t->head);
	buf_done(&t->unread);
	free(t);
}

void transfer_close(struct transfer *t)
{
	if (!t || t->closed)
		return;
	t->closed = true;
	task_cancel(t->task);
	curl_loop_remove(t->cl, t->number);
	t->number = 0;
	loop_bury(curl_loop_loop(t->cl), t, destroy);
}

int transfer_status(const struct transfer *t)
{
	return t->status;
}

struct span transfer_reason(const struct transfer *t)
{
	/* HTTP/1.1 404 Not Found */
	const char *space = t->head.len ? strchr(t->head.data, ' ') : NULL;
	space = space ? strchr(space + 1, ' ') : NULL;
	return span_of(space ? space + 1 : "");
}

struct span transfer_header(const struct transfer *t, const char *name)
{
	size_t name_len = strlen(name);
	const char *end = t->head.data + t->head.len;
	for (const char *line = t->head.data; line && line < end; line += strlen(line) + 1) {
		if (strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
			continue;
		struct span value = span_of(line + name_len + 1 + strspn(line + name_len + 1, " \t"));
		while (value.len > 0 && (value.ptr[value.len - 1] == ' ' || value.ptr[value.len - 1] == '\t'))
			value.len--;
		return value;
	}
	return SPAN_NONE;
}

bool transfer_sent(const struct transfer *t)
{
	return t->has_body ? t->body_sent > 0 : true;
}

size_t transfer_unsent(const struct transfer *t)
{
	return t->body_len - t->body_sent;
}

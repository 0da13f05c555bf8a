/*
 * One HTTP request and its response, on libcurl in the loop (loop/curl_loop.h, PITFALLS "libcurl multi").
 *
 * Everything is told from tasks, never from inside libcurl and never inside transfer_start(): a caller may start and
 * close transfers wherever it likes. At most 64 KiB of a body are handed out in a pass; while the caller is behind,
 * libcurl is told to wait, and so is the server (bounded memory).
 *
 * Nothing is decided here that a server could gain from: redirects are not followed (credentials would travel), only
 * http and https are spoken, no compression is asked for, and a request whose body has begun to leave is never sent
 * again (libcurl would, on a kept connection that turns out to be dead; contract H12). Proxies come from the
 * environment as usual. Host names are resolved in a thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "proto/span.h"

struct curl_loop;
struct transfer;

enum transfer_error {
	TRANSFER_OK,
	TRANSFER_BAD_URL,
	TRANSFER_RESOLVE, /* no such host */
	TRANSFER_RESOLVE_PROXY,
	TRANSFER_CONNECT,
	TRANSFER_CONNECT_TIMEOUT,
	TRANSFER_PROXY,
	TRANSFER_TLS, /* the handshake failed otherwise */
	TRANSFER_TLS_UNTRUSTED,
	TRANSFER_TLS_EXPIRED, /* or not yet valid */
	TRANSFER_TLS_HOST,
	TRANSFER_CA_FILE,      /* cannot be read */
	TRANSFER_HEADER_COUNT, /* over max_headers */
	TRANSFER_HEADER_BYTES, /* over max_header_bytes */
	TRANSFER_NO_MEMORY,
	TRANSFER_LOST, /* the connection broke, or no HTTP came */
};

struct transfer_end {
	enum transfer_error error;
	/* The reason as libcurl or the system tells it, for people; "" if there is none. Names hosts, no paths and no
	 * secrets. */
	const char *detail;
};

struct transfer_callbacks {
	/* Status and headers of the response are there (not of 1xx ones). Once at most. */
	void (*on_head)(void *arg);
	/* A piece of the body: returns how much of it was taken (at least one byte); the rest is told again in the
	 * next pass. */
	size_t (*on_data)(void *arg, struct span bytes);
	/* The response is complete, or what became of it. Once, after all data; the transfer is still to be closed. */
	void (*on_end)(void *arg, const struct transfer_end *end);
};

/* Bytes of bodies of several transfers. */
struct transfer_traffic {
	uint64_t received, sent;
};

struct transfer_request {
	const char *method; /* POST, GET, DELETE */
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; copied */
	struct span body;           /* copied; absent: none */
	const char *ca_file;        /* NULL: the system's */
	bool insecure;              /* the certificate is not checked */
	int64_t connect_timeout_ms; /* resolving, connecting and TLS; 0: libcurl's default */
	size_t max_headers, max_header_bytes;
	struct transfer_traffic *traffic; /* is added to; outlives the transfer; NULL: nobody counts */
};

/* Never NULL; what fails at once is told by on_end. */
struct transfer *transfer_start(struct curl_loop *cl, const struct transfer_request *request,
				const struct transfer_callbacks *callbacks, void *arg);
/* Ends it, if it has not ended: the connection (HTTP/2: the stream) is closed. Nothing more is called back. The
 * transfer is gone. NULL is fine. */
void transfer_close(struct transfer *t);
/* From on_head on. */
int transfer_status(const struct transfer *t);
/* The reason phrase behind the status, often empty. */
struct span transfer_reason(const struct transfer *t);
/* The value of the first header of that name, without white space around it, or absent. Valid as long as the
 * transfer. */
struct span transfer_header(const struct transfer *t, const char *name);
/* Bytes of the body have been handed out for sending: the server may have seen the request. For one without a body:
 * it was started. */
bool transfer_sent(const struct transfer *t);
/* Bytes of the body not yet handed out. */
size_t transfer_unsent(const struct transfer *t);

/* Sending: requests, notifications, answers to the server's requests (contract H1, H5, H7). For transport/http*.c
 * only. */
#pragma once

#include "proto/span.h"
#include "transport/transport.h"

struct exchange;
struct http;

/* Both add the operation and send it; what fails at once is told later. */
uint64_t http_send_request(struct http *h, struct span method, struct span params,
			   const struct transport_options *options);
uint64_t http_send_notify(struct http *h, struct span method, struct span params,
			  const struct transport_options *options);
/* 0, -ENOTCONN, -ENOBUFS if too many answers are under way, -ENOMEM, -E2BIG. */
int http_send_response(struct http *h, struct span id, struct span result, struct span error);
/* The fallback to HTTP+SSE has come to its end: the initialize is sent to the endpoint, or fails as it had. */
void http_fallback_over(struct exchange *x, bool opened);

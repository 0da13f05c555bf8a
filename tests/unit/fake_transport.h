/*
 * A scripted transport (daemon/transport/transport.h) for the floors above: it records what it is told, and the test
 * plays the server.
 *
 * It keeps the interface's promises: completions exactly once and from a task where the code under test is what ends an
 * operation; what the test does (fake_answer(), fake_exit(), ...) is an event of the loop and calls back at once. It
 * checks what it is given: params must be valid JSON on one line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "transport/transport.h"

struct fake_transport;

enum fake_kind { FAKE_REQUEST, FAKE_NOTIFY, FAKE_RESPONSE };

/* One thing that the transport was told to send. Texts are NUL-terminated copies; absent spans are NULL. */
struct fake_sent {
	enum fake_kind kind;
	uint64_t number; /* request, notification */
	bool pending;
	bool given_up; /* a tombstone: fake_late_answer() may be called */
	char *method;  /* decoded */
	char *params;
	char *id;             /* requests: the id on the wire; responses: the id that is answered */
	char *result, *error; /* responses */
	int64_t timeout_ms, deadline_ms, max_timeout_ms;
	bool handshake;
	char *headers; /* one line each, or NULL */
	char *cancel_reason;
	unsigned touched;
	transport_done_fn *done;
	void *arg;
	struct transport_reply failure; /* due from the task */
	bool due;
};

struct fake_options {
	enum transport_kind kind;
	const char *connect_error; /* on_connect fails with this; NULL: it succeeds */
	int connect_code;          /* MCPD_E_TRANSPORT if 0 */
	bool connect_may_pass;     /* the failure is not permanent */
	bool connect_by_hand;      /* nothing happens until fake_connected() */
	bool close_at_once; /* completions and on_close inside transport_close(), which an implementation may do */
	int notify_code;    /* notifications complete with this code, not sent */
};

/* The transport, for mcp_client_start(); it frees itself in transport_free(). *ret_fake is valid until then. */
struct transport *fake_transport_new(struct loop *loop, const struct fake_options *options,
				     const struct transport_callbacks *callbacks, void *arg,
				     struct fake_transport **ret_fake);

/* What was sent, in order. */
size_t fake_count(const struct fake_transport *fake);
struct fake_sent *fake_at(const struct fake_transport *fake, size_t index);
/* The last one of that method, or NULL; and the last response. */
struct fake_sent *fake_last(const struct fake_transport *fake, const char *method);
struct fake_sent *fake_last_response(const struct fake_transport *fake);
/* How many of that method were sent; pending ones only. */
size_t fake_count_of(const struct fake_transport *fake, const char *method);
size_t fake_pending(const struct fake_transport *fake);
/* All methods in order, separated by spaces; a response shows as "=". Valid until the next call. */
const char *fake_methods(struct fake_transport *fake);
/* As told by transport_set_protocol(), or NULL. */
const char *fake_protocol(const struct fake_transport *fake, bool *ret_modern);
unsigned fake_listens(const struct fake_transport *fake);
bool fake_closed(const struct fake_transport *fake); /* transport_close() was called */
bool fake_connected_now(const struct fake_transport *fake);

/* The server's doings. */
void fake_connected(struct fake_transport *fake);
void fake_answer(struct fake_transport *fake, struct fake_sent *sent, const char *result);
void fake_error(struct fake_transport *fake, struct fake_sent *sent, const char *error);
/* Any other end: the reply is the test's own. */
void fake_fail(struct fake_transport *fake, struct fake_sent *sent, const struct transport_reply *reply);
void fake_time_out(struct fake_transport *fake, struct fake_sent *sent);
void fake_late_answer(struct fake_transport *fake, struct fake_sent *sent);
void fake_notification(struct fake_transport *fake, const char *method, const char *params);
/* id is JSON; on: the request on whose stream it comes, or NULL. */
void fake_request(struct fake_transport *fake, const char *id, const char *method, const char *params,
		  const struct fake_sent *on);
void fake_log(struct fake_transport *fake, const char *text);
void fake_listener_end(struct fake_transport *fake, int http_status, const char *message);
/* What has passed so far. */
void fake_set_traffic(struct fake_transport *fake, uint64_t received, uint64_t sent, uint64_t unsent);
/* The server has gone: everything pending fails, then on_close. */
void fake_exit(struct fake_transport *fake, const char *reason);

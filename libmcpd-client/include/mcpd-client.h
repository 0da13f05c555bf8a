/*
 * libmcpd-client: talk to mcpd, the daemon that shares MCP servers among local programs.
 *
 * One mcpd_client is one connection to the daemon's socket (proto/PROTOCOL.md, "Control dialect"). Payloads go in and come out as JSON text,
 * byte for byte; the library brings no JSON library of its own into your program.
 *
 * Two ways to use it:
 *
 *   Blocking: mcpd_connect(), then mcpd_call() or mcpd_call_tool(). Each takes a timeout.
 *
 *   Non-blocking, in any event loop: mcpd_connect_start(), then, for ever: wait until mcpd_get_fd() is ready for
 *   mcpd_get_events() (poll(2) bits) or mcpd_get_timeout() milliseconds have passed, then call mcpd_process(). Ask all three again after every call
 *   into the library: the descriptor changes while connecting. Requests are sent with mcpd_request(); their ends, events and questions
 *   arrive as callbacks from inside mcpd_process(), never from inside another function of the library.
 *
 * The library never prints, exits, raises or handles signals, and the non-blocking functions never block. Functions return 0 (or a count) or
 * a negative errno. -ENOMEM leaves everything as it was unless said otherwise. A client belongs to one thread at a time; different clients are
 * independent. Callbacks may call any function, mcpd_client_free() included.
 *
 * Text handed in is copied. Text handed out is NUL-terminated UTF-8 and valid until the object it came from is freed, or the callback returns.
 */
#ifndef MCPD_CLIENT_H
#define MCPD_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mcpd_client mcpd_client;
typedef struct mcpd_reply mcpd_reply;

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *mcpd_client_version(void);

/* ---- The connection ------------------------------------------------------------------------------------------------ */

/* A client that is not connected yet. 0 with *ret_client, or -ENOMEM. */
int mcpd_client_new(mcpd_client **ret_client);
/* Closes the connection and frees everything; calls still in flight end silently: their callbacks are not called. Takes NULL. */
void mcpd_client_free(mcpd_client *client);

/* Settings, to be made before connecting; each returns 0, -ENOMEM, or -EINVAL for text that is no JSON object where one is wanted. */

/* The socket. Default (NULL): MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock (PROTOCOL.md, "Framing"). */
int mcpd_set_socket(mcpd_client *client, const char *path);
/* Start the daemon when nothing listens on the socket. `program` is the mcpd to run: NULL: MCPD_PROGRAM, else `mcpd` along PATH; "" (the default): never start one.
 * However many clients do this at once, one daemon results. The daemon outlives the client, and is no child of it. */
int mcpd_set_start(mcpd_client *client, const char *program);
/* What `daemon/hello` says of this program. capabilities: the MCP client capabilities (JSON object) whose questions this client answers, or NULL. */
int mcpd_set_identity(mcpd_client *client, const char *name, const char *version, const char *capabilities);
/* Longest line accepted from the daemon, in bytes; default 64 MiB and a margin for the envelope. */
int mcpd_set_max_message(mcpd_client *client, size_t bytes);

/* Connects and says hello; blocking, at most timeout_ms (-1: no limit). 0 or a negative errno; mcpd_last_error() says more. Also after a loss. A daemon that is just leaving may
 * close the connection unseen: it is then made anew. */
int mcpd_connect(mcpd_client *client, int timeout_ms);
/* The same without blocking: 0 when under way; the state callback tells the end. timeout_ms bounds the whole. */
int mcpd_connect_start(mcpd_client *client, int timeout_ms);
/* Ends the connection; calls in flight end with -ECONNRESET in the next mcpd_process(), which may be called without a connection. */
void mcpd_disconnect(mcpd_client *client);

enum mcpd_state {
	MCPD_DISCONNECTED,
	MCPD_CONNECTING, /* includes starting the daemon, and hello */
	MCPD_CONNECTED,
};
enum mcpd_state mcpd_get_state(const mcpd_client *client);
/* Called when the state becomes CONNECTED or DISCONNECTED; error is 0 or the negative errno that ended it. After a loss, calls that were in flight have
 * ended before it with what is known of them (mcpd_reply_maybe_executed()). The library does not reconnect by itself: call
 * mcpd_connect_start() again, here or later, if you want that. Subscriptions and settings at servers are then yours to make anew. */
typedef void mcpd_state_fn(mcpd_client *client, enum mcpd_state state, int error, void *userdata);
void mcpd_on_state(mcpd_client *client, mcpd_state_fn *fn, void *userdata);
/* Why the last connect or function failed, for people. Never NULL. */
const char *mcpd_last_error(const mcpd_client *client);
/* The daemon's answer to hello (JSON object), NULL before. */
const char *mcpd_get_hello(const mcpd_client *client);

/* ---- Any event loop -------------------------------------------------------------------------------------------------- */

/* -1 when there is nothing to wait for but the timeout. */
int mcpd_get_fd(const mcpd_client *client);
/* POLLIN, POLLOUT or both, as of <poll.h>. */
int mcpd_get_events(const mcpd_client *client);
/* Milliseconds until mcpd_process() wants to be called whatever the descriptor does; 0: at once; -1: no clock runs. */
int mcpd_get_timeout(const mcpd_client *client);
/* Reads, writes and calls back what is due, a bounded amount of it. Number of callbacks made, or a negative errno if the connection ended in this call (its calls have
 * then been ended, and the state callback was called); -ENOMEM: memory was short, the connection lives and nothing is lost, call again. */
int mcpd_process(mcpd_client *client);
/* Blocking helper: waits for the descriptor and processes, once, at most timeout_ms (-1: no limit). As mcpd_process(); 0 also when time ran out. */
int mcpd_wait(mcpd_client *client, int timeout_ms);

/* ---- Requests -------------------------------------------------------------------------------------------------------- */

/* How a request ended. Exactly once for each request that was accepted. The reply is valid during the call only, unless kept with mcpd_reply_ref(). */
typedef void mcpd_reply_fn(mcpd_client *client, mcpd_reply *reply, void *userdata);
/* Progress of one request: the params of notifications/progress (JSON object). Never after its reply. */
typedef void mcpd_progress_fn(mcpd_client *client, uint64_t request, const char *params, void *userdata);

/* What a request may be given beside its method and params. Set size to sizeof(struct mcpd_request_options); zero is a good default for the rest. */
struct mcpd_request_options {
	size_t size;
	int timeout_ms; /* this side's clock; 0: none. At its end the daemon is told to cancel, and the request ends with -ETIMEDOUT */
	mcpd_progress_fn *progress; /* ask for progress; NULL: do not */
};

/* Sends a request of the control dialect, such as "servers/list". params: JSON object or NULL. Queued while connecting. 0 with *ret_request (may be NULL), a number for
 * mcpd_cancel() that is never reused; -ENOTCONN, -EINVAL (params is no JSON object), -ENOMEM, or -EMSGSIZE. */
int mcpd_request(mcpd_client *client, const char *method, const char *params,
		 const struct mcpd_request_options *options, mcpd_reply_fn *fn, void *userdata, uint64_t *ret_request);
/* tools/call in one step. arguments: JSON object or NULL. With options->timeout_ms the daemon gets it as the call's timeoutMs, and this side waits a little longer. */
int mcpd_request_tool(mcpd_client *client, const char *server, const char *tool, const char *arguments,
		      const struct mcpd_request_options *options, mcpd_reply_fn *fn, void *userdata,
		      uint64_t *ret_request);
/* Asks for cancellation: the request still ends through its callback, normally with code -32005. 0, -ENOENT if it is not in flight, -ENOMEM. */
int mcpd_cancel(mcpd_client *client, uint64_t request, const char *reason);
/* A notification to the daemon; the control dialect knows only notifications/cancelled today, which mcpd_cancel() sends. */
int mcpd_notify(mcpd_client *client, const char *method, const char *params);
/* Requests in flight. */
size_t mcpd_in_flight(const mcpd_client *client);

/* The same two, blocking: send, wait at most timeout_ms (-1: no limit), give the reply to the caller, who frees it with mcpd_reply_unref(). Callbacks of other
 * requests, events and questions may run meanwhile. 0 whenever there is a reply, also an error reply; else a negative errno. */
int mcpd_call(mcpd_client *client, const char *method, const char *params, int timeout_ms, mcpd_reply **ret_reply);
int mcpd_call_tool(mcpd_client *client, const char *server, const char *tool, const char *arguments, int timeout_ms,
		   mcpd_reply **ret_reply);

mcpd_reply *mcpd_reply_ref(mcpd_reply *reply);
void mcpd_reply_unref(mcpd_reply *reply); /* takes NULL */
uint64_t mcpd_reply_request(const mcpd_reply *reply);
/* 0: a result. 1: the daemon answered with an error. Negative: there is no answer: -ECONNRESET (connection lost), or the errno that ended connecting, -ETIMEDOUT, or
 * -ENOMEM (an answer came, and there was no memory to keep it). */
int mcpd_reply_status(const mcpd_reply *reply);
/* The result as JSON text, verbatim; NULL unless the status is 0. */
const char *mcpd_reply_result(const mcpd_reply *reply);
size_t mcpd_reply_result_length(const mcpd_reply *reply);
/* The error (PROTOCOL.md, "Errors"): code (0 unless the status is 1), message for people (also for a negative status; "" for a result), data as JSON text or NULL. */
int mcpd_reply_code(const mcpd_reply *reply);
const char *mcpd_reply_message(const mcpd_reply *reply);
const char *mcpd_reply_data(const mcpd_reply *reply);
/* Whether the request may have been run although there is no result (PROTOCOL.md, maybeExecuted; for a lost connection: whether any of it had been sent). */
int mcpd_reply_maybe_executed(const mcpd_reply *reply);

/* ---- Events and questions -------------------------------------------------------------------------------------------- */

/* Every notification from the daemon but progress: after events/subscribe, such as "events/server" with its params (JSON object). */
typedef void mcpd_event_fn(mcpd_client *client, const char *method, const char *params, void *userdata);
void mcpd_on_event(mcpd_client *client, mcpd_event_fn *fn, void *userdata);

/* A question of a server, for one of this client's own calls: sampling/createMessage, elicitation/create or roots/list, as declared by mcpd_set_identity(). Answer it, now or
 * later, with mcpd_answer() or mcpd_answer_error(). Without a handler every question is refused with -32601. method NULL: question `question` was withdrawn; params is
 * then the reason (JSON) or NULL, and no answer is due. */
typedef void mcpd_question_fn(mcpd_client *client, uint64_t question, const char *method, const char *params,
			      void *userdata);
void mcpd_on_question(mcpd_client *client, mcpd_question_fn *fn, void *userdata);
/* result: JSON. 0, -ENOENT (not asked, withdrawn, or answered already), -EINVAL, -ENOMEM, -ENOTCONN. */
int mcpd_answer(mcpd_client *client, uint64_t question, const char *result);
int mcpd_answer_error(mcpd_client *client, uint64_t question, int code, const char *message);

#ifdef __cplusplus
}
#endif

#endif

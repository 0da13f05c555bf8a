#include "transport/transport.h"

#include <stdlib.h>

#include "config/redact.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

void transport_connect(struct transport *t)
{
	t->ops->connect(t);
}

bool transport_is_connected(const struct transport *t)
{
	return t->ops->is_connected(t);
}

uint64_t transport_request(struct transport *t, struct span method, struct span params,
			   const struct transport_options *options)
{
	return t->ops->request(t, method, params, options);
}

uint64_t transport_notify(struct transport *t, struct span method, struct span params,
			  const struct transport_options *options)
{
	return t->ops->notify(t, method, params, options);
}

void transport_cancel(struct transport *t, uint64_t request, const char *reason)
{
	t->ops->cancel(t, request, reason);
}

void transport_touch(struct transport *t, uint64_t request)
{
	t->ops->touch(t, request);
}

struct span transport_wire_id(const struct transport *t, uint64_t request)
{
	return t->ops->wire_id(t, request);
}

int transport_respond(struct transport *t, struct span id, struct span result, struct span error)
{
	return t->ops->respond(t, id, result, error);
}

void transport_set_protocol(struct transport *t, const char *version, bool modern)
{
	t->ops->set_protocol(t, version, modern);
}

void transport_listen(struct transport *t)
{
	t->ops->listen(t);
}

enum transport_kind transport_kind_of(const struct transport *t)
{
	return t->ops->kind;
}

pid_t transport_pid(const struct transport *t)
{
	return t->ops->pid(t);
}

void transport_get_traffic(const struct transport *t, struct transport_traffic *ret)
{
	t->ops->get_traffic(t, ret);
}

void transport_close(struct transport *t)
{
	t->ops->close(t);
}

void transport_free(struct transport *t)
{
	if (t)
		t->ops->free(t);
}

char *transport_error_text(const struct transport *t, struct span error)
{
	struct buf text = BUF_INIT;
	struct span code = json_trim(json_member(error, "code"));
	buf_add_text(&text, "MCP error ");
	if (json_type_of(code) == JSON_NUMBER)
		buf_add_span(&text, code);
	else
		buf_add_char(&text, '?');
	buf_add_text(&text, ": ");
	json_string_decode(json_member(error, "message"), &text);
	struct buf clean = BUF_INIT, result = BUF_INIT;
	buf_add_span(&result, redact(t->redactor, buf_span(&text), &clean));
	char *stolen = buf_failed(&text) ? NULL : buf_steal(&result);
	buf_done(&result);
	buf_done(&clean);
	buf_done(&text);
	return stolen ? stolen : xstrdup("MCP error");
}

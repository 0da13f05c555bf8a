#include "ipc/failure.h"

#include "ipc/ipc_internal.h"
#include "proto/errors.h"

void failure_add_last_error(struct buf *out, const struct server_info *info)
{
	if (!info->last_error)
		return;
	buf_add_text(out, ",\"lastError\":{\"message\":");
	buf_add_json_text(out, info->last_error);
	if (info->last_error_at) {
		buf_add_text(out, ",\"at\":");
		buf_add_json_text(out, info->last_error_at);
	}
	buf_add_char(out, '}');
}

static void add_text(struct buf *out, const char *key, const char *text)
{
	if (!text)
		return;
	buf_addf(out, ",\"%s\":", key);
	buf_add_json_text(out, text);
}

static void add_int(struct buf *out, const char *key, int64_t value)
{
	buf_addf(out, ",\"%s\":%lld", key, (long long)value);
}

/* `state`, and what else the server's present state has to say. */
static void add_state(struct buf *out, struct ipc *ipc, const struct failure_context *context, bool last_error)
{
	struct server *server = manager_by_id(ipc->options.manager, context->server);
	struct server_info info;
	if (!server)
		return;
	server_get_info(server, &info);
	add_text(out, "state", server_state_name(info.state));
	if (last_error)
		failure_add_last_error(out, &info);
}

static void add_http(struct buf *out, const struct transport_reply *reply)
{
	if (reply->http_status)
		add_int(out, "status", reply->http_status);
	if (reply->http_body.ptr) {
		buf_add_text(out, ",\"body\":");
		buf_add_json_string(out, reply->http_body);
	}
	add_text(out, "wwwAuthenticate", reply->www_authenticate);
	add_text(out, "mcpAuthServer", reply->mcp_auth_server);
}

static void add_timeout(struct buf *out, const struct failure_context *context, const struct transport_reply *reply)
{
	add_int(out, "timeoutMs", reply->timeout_ms);
	if (reply->max_timeout_ms)
		add_int(out, "maxTimeoutMs", reply->max_timeout_ms);
	if (context->queue_position && !reply->sent)
		add_int(out, "queuePosition", context->queue_position);
}

static void add_limit(struct buf *out, const struct ipc *ipc, int limit)
{
	if (limit < 0 || limit >= LIMIT_COUNT)
		return;
	add_text(out, "limit", limit_table[limit].key);
	add_int(out, "value", ipc_limits(ipc)->value[limit]);
}

static void add_by_code(struct buf *out, struct ipc *ipc, const struct failure_context *context,
			const struct transport_reply *reply, const char *reason)
{
	switch (reply->code) {
	case MCPD_E_UNAVAILABLE:
		add_state(out, ipc, context, true);
		break;
	case MCPD_E_TRANSPORT:
		/* In flight: the server's state is about to follow, and says nothing yet. */
		if (!reply->sent)
			add_state(out, ipc, context, false);
		break;
	case MCPD_E_TIMEOUT:
		add_timeout(out, context, reply);
		add_state(out, ipc, context, false);
		break;
	case MCPD_E_CANCELLED:
		add_text(out, "reason", reason ? reason : reply->message);
		break;
	case MCPD_E_SERVER:
		buf_add_text(out, ",\"error\":");
		buf_add_span(out, reply->error.ptr ? reply->error : SPAN_LIT("{}"));
		break;
	case MCPD_E_HTTP:
		add_http(out, reply);
		break;
	case MCPD_E_LIMIT:
		add_limit(out, ipc, reply->limit);
		break;
	case MCPD_E_NEEDS_AUTH:
		/* The definition's headers are where the credentials go; a reload then connects anew. */
		add_text(out, "how", "mcpctl reload");
		add_state(out, ipc, context, true);
		add_http(out, reply);
		break;
	default:
		break;
	}
}

static bool may_have_run(const struct transport_reply *reply)
{
	switch (reply->code) {
	case MCPD_E_TRANSPORT:
	case MCPD_E_TIMEOUT:
	case MCPD_E_CANCELLED:
	case MCPD_E_HTTP:
	case MCPD_E_PROTOCOL:
		return reply->sent;
	default:
		return false;
	}
}

static void begin(struct buf *data, const struct failure_context *context)
{
	buf_add_text(data, "\"server\":");
	buf_add_json_text(data, context->server_name);
}

void failure_write_data(struct buf *out, struct ipc *ipc, const struct failure_context *context,
			const struct transport_reply *reply, const char *cancel_reason)
{
	begin(out, context);
	add_by_code(out, ipc, context, reply, cancel_reason);
	if (may_have_run(reply))
		buf_add_text(out, ",\"maybeExecuted\":true");
}

void failure_answer(struct request *r, const struct failure_context *context, const struct transport_reply *reply)
{
	struct buf data = BUF_INIT;
	buf_add_char(&data, '{');
	failure_write_data(&data, request_ipc(r), context, reply, request_cancel_reason(r));
	buf_add_char(&data, '}');
	request_error_buf(r, reply->code, reply->message, &data);
}

void failure_answer_unavailable(struct request *r, const struct failure_context *context, const char *message)
{
	struct buf data = BUF_INIT;
	buf_add_char(&data, '{');
	begin(&data, context);
	add_state(&data, request_ipc(r), context, true);
	buf_add_char(&data, '}');
	request_error_buf(r, MCPD_E_UNAVAILABLE, message, &data);
}

#include "transport/http_message.h"

#include <errno.h>

#include "transport/http_internal.h"
#include "transport/http_reply.h"

static void tell(struct http *h, const struct jsonrpc_message *message, const struct http_reader *reader)
{
	const struct transport_callbacks *callbacks = &h->base.callbacks;
	switch (message->kind) {
	case JSONRPC_NOTIFICATION:
		if (callbacks->on_notification)
			callbacks->on_notification(h->base.arg, message->method, message->params);
		break;
	case JSONRPC_REQUEST:
		if (callbacks->on_request)
			callbacks->on_request(h->base.arg, message->id, message->method, message->params,
					      reader->on_request);
		break;
	case JSONRPC_RESULT:
	case JSONRPC_ERROR:
		reader->answer(reader->arg, message);
		break;
	default:
		break; /* valid JSON that is no message is nobody's */
	}
}

static bool over(const struct http *h, const struct http_reader *reader)
{
	return h->state >= HTTP_CLOSING || reader->ended(reader->arg);
}

int http_message(struct http *h, struct span text, const struct http_reader *reader, struct json_error *ret_error)
{
	struct jsonrpc_message message;
	struct json_iter it;
	struct span element;
	int r = jsonrpc_parse_within(text, http_limit(h, LIMIT_NESTING), &message, ret_error);
	if (r < 0)
		return r;
	if (message.kind != JSONRPC_BATCH) {
		tell(h, &message, reader);
		return 0;
	}
	json_iter_init(&it, message.text);
	while (h->batches && !over(h, reader) && json_iter_element(&it, &element))
		if (jsonrpc_parse(element, &message, NULL) == 0 && message.kind != JSONRPC_BATCH)
			tell(h, &message, reader);
	return 0;
}

static void read_event(struct http *h, const struct sse_event *event, const struct http_reader *reader)
{
	struct json_error error;
	if (event->data.len == 0)
		return;
	if (!span_is(event->type, "message")) {
		if (reader->other)
			reader->other(reader->arg, event);
		return;
	}
	if (http_message(h, event->data, reader, &error) < 0)
		reader->malformed(reader->arg, event->data, http_parse_message("event", &error));
}

size_t http_read_events(struct http *h, struct sse_parser *parser, struct span bytes, const struct http_reader *reader,
			bool *ret_no_memory)
{
	struct span left = bytes;
	*ret_no_memory = false;
	for (unsigned n = 0; n < HTTP_EVENTS_PER_PASS; n++) {
		struct sse_event event;
		enum sse_result result = sse_parser_next(parser, &left, &event);
		if (result == SSE_NEED_MORE)
			break;
		if (result == SSE_NO_MEMORY) {
			*ret_no_memory = true;
			break;
		}
		if (result == SSE_TOO_LONG)
			reader->too_long(reader->arg, event.data);
		else
			read_event(h, &event, reader);
		if (over(h, reader))
			return bytes.len;
	}
	return bytes.len - left.len;
}

/*
 * The lists: from what the manager knows, live or remembered, in pages.
 *
 * A view of one server waits for it as long as a request to it would take; the union waits no longer than M2 allows,
 * since one slow server must not hide the others, and tells of the change when it comes. A cursor says where to go on
 * in the list as it then is.
 */
#include "ipc/facade_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

#define UNION_WAIT_MS 250
/* For a server whose requests may take for ever. */
#define SINGLE_WAIT_MS_MAX 60000
#define CURSOR_PREFIX "mcpd-"

/* A page is no longer than a quarter of what a line may be, unless one item is. */
static struct view_page page_at(const struct ipc *ipc, size_t offset)
{
	const struct limits *limits = ipc_limits(ipc);
	return (struct view_page){
		.max_items = (size_t)limits->value[LIMIT_LIST_PAGE],
		.max_bytes = (size_t)limits->value[LIMIT_MESSAGE_BYTES] / 4,
		.offset = offset,
	};
}

static void answer(struct request *r, enum server_list list, bool modern, size_t offset)
{
	struct facade *f = facade_of(request_session(r));
	struct view view = facade_view(f);
	struct view_page page = page_at(request_ipc(r), offset);
	struct buf result = BUF_INIT;
	buf_addf(&result, "{\"%s\":", view_list_member(list));
	view_write_page(&view, list, &page, &result);
	if (page.next)
		buf_addf(&result, ",\"nextCursor\":\"" CURSOR_PREFIX "%zu\"", page.next);
	if (modern)
		buf_addf(&result, ",\"resultType\":\"complete\",\"ttlMs\":%" PRId64 ",\"cacheScope\":\"%s\"",
			 page.ttl_ms, page.cache_private ? "private" : "public");
	buf_add_char(&result, '}');
	view_find_revision(&view, list, &f->seen[list]);
	request_result_buf(r, &result);
}

/* Nothing to show, and a reason: that is what the client is told. */
static bool answer_error(struct request *r, enum server_list list)
{
	struct facade *f = facade_of(request_session(r));
	struct view view = facade_view(f);
	const char *error = view_error(&view, list);
	if (!error)
		return false;
	struct buf data = BUF_INIT;
	buf_add_text(&data, "\"server\":");
	buf_add_json_text(&data, f->only);
	facade_fail(r, MCPD_E_UNAVAILABLE, error, buf_span(&data));
	buf_done(&data);
	return true;
}

static void go(struct session *s, struct facade_wait *wait, bool timed_out)
{
	struct facade *f = facade_of(s);
	struct request *r = wait->request;
	struct view view = facade_view(f);
	if (timed_out && f->only && view_is_empty(&view, wait->list))
		facade_fail(r, MCPD_E_TIMEOUT, "The server has not told its list in time; try again later", SPAN_NONE);
	else if (timed_out || !answer_error(r, wait->list))
		answer(r, wait->list, wait->modern, wait->offset);
}

/* False: no cursor of ours. */
static bool read_cursor(struct span cursor, size_t *ret_offset)
{
	char *text = json_string_dup(cursor), *end = NULL;
	size_t prefix = strlen(CURSOR_PREFIX);
	bool good = text && strncmp(text, CURSOR_PREFIX, prefix) == 0 && text[prefix] >= '1' && text[prefix] <= '9';
	unsigned long long offset = good ? strtoull(text + prefix, &end, 10) : 0;
	good = good && *end == '\0' && offset <= SIZE_MAX / 2;
	free(text);
	*ret_offset = (size_t)offset;
	return good;
}

static int64_t wait_ms(struct server *server)
{
	struct server_info info;
	if (!server)
		return UNION_WAIT_MS;
	server_get_info(server, &info);
	int64_t ms = info.config->timeout_ms;
	if (info.state != SERVER_CONNECTED && info.config->connect_timeout_ms > ms)
		ms = info.config->connect_timeout_ms;
	return ms <= 0 || ms > SINGLE_WAIT_MS_MAX ? SINGLE_WAIT_MS_MAX : ms;
}

static void list(struct request *r, const struct facade_message *fm, enum server_list which)
{
	struct facade *f = fm->facade;
	struct span cursor = json_member(fm->m->params, "cursor");
	struct server *server = NULL;
	size_t offset = 0;
	if (cursor.ptr && !read_cursor(cursor, &offset)) {
		request_error(r, MCPD_E_INVALID_PARAMS, "Invalid cursor: begin the list anew, without one", SPAN_NONE);
		return;
	}
	if (f->only && !(server = facade_find_server(r)))
		return;
	struct view view = facade_view(f);
	if (view_is_settled(&view, which, offset == 0)) {
		if (!answer_error(r, which))
			answer(r, which, fm->modern, offset);
		return;
	}
	struct facade_wait *wait = facade_wait_new(r, 1u << which, loop_now_ms() + wait_ms(server), go);
	wait->list = which;
	wait->offset = offset;
	wait->modern = fm->modern;
}

void facade_list_tools(struct request *r, const struct facade_message *fm)
{
	list(r, fm, SERVER_TOOLS);
}

void facade_list_prompts(struct request *r, const struct facade_message *fm)
{
	list(r, fm, SERVER_PROMPTS);
}

void facade_list_resources(struct request *r, const struct facade_message *fm)
{
	list(r, fm, SERVER_RESOURCES);
}

void facade_list_templates(struct request *r, const struct facade_message *fm)
{
	list(r, fm, SERVER_TEMPLATES);
}

/*
 * Which server a request is for. A view of one server has one answer; in the union the name of a tool or prompt, the
 * URI of a resource or the id of a task says it.
 */
#include "ipc/facade_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/failure.h"
#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* How long a request in the union waits for lists that may tell whose it is. */
#define FIND_WAIT_MS 30000

void facade_pass(struct request *r, const struct facade_message *fm)
{
	struct server *server = facade_find_server(r);
	if (server)
		facade_forward(r, fm, server, fm->m->params);
}

/* The string parameter, or an absent span and the request is answered. */
static struct span string_param(struct request *r, struct span object, const char *name)
{
	struct span value = json_member(object, name);
	if (json_type_of(value) == JSON_STRING)
		return value;
	char *message = xasprintf("`%s` must be a string", name);
	request_error(r, MCPD_E_INVALID_PARAMS, message, SPAN_NONE);
	free(message);
	return SPAN_NONE;
}

/* --- waiting for lists --- */

static facade_fn go_on;

static void on_listed(struct session *s, struct facade_wait *wait, bool timed_out)
{
	struct request *r = wait->request;
	struct jsonrpc_message m;
	struct facade_message fm = {
		.session = s, .facade = facade_of(s), .m = &m, .modern = wait->modern, .waited = true
	};
	(void)timed_out;
	jsonrpc_parse(span_of(wait->text), &m, NULL);
	go_on(r, &fm);
}

/* Waits until the lists are there; true if they are. */
static bool lists_are_there(struct request *r, const struct facade_message *fm, unsigned lists)
{
	struct view view = facade_view(fm->facade);
	bool settled = true;
	for (int list = 0; list < SERVER_LIST_COUNT && !fm->waited; list++)
		if (lists >> list & 1)
			settled &= view_is_settled(&view, (enum server_list)list, true);
	if (settled)
		return true;
	char *text = strndup(fm->m->text.ptr, fm->m->text.len);
	if (!text) {
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
		return false;
	}
	struct facade_wait *wait = facade_wait_new(r, lists, loop_now_ms() + FIND_WAIT_MS, on_listed);
	wait->modern = fm->modern;
	wait->text = text;
	return false;
}

/* --- tools and prompts --- */

static void refuse_name(struct request *r, struct span name, const char *what)
{
	struct buf message = BUF_INIT;
	buf_addf(&message, "Unknown %s: ", what);
	if (name.len <= 256)
		json_string_decode(name, &message);
	request_error(r, MCPD_E_INVALID_PARAMS, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

static void use_name(struct request *r, const struct facade_message *fm, enum server_list list, const char *what)
{
	struct span name = string_param(r, fm->m->params, "name");
	struct view view = facade_view(fm->facade);
	struct buf own = BUF_INIT, params = BUF_INIT;
	if (!name.ptr)
		return;
	struct server *server = view_find_name(&view, list, name, &own);
	struct json_edit edit = { "name", JSON_EDIT_REPLACE, buf_span(&own) };
	if (!server && lists_are_there(r, fm, 1u << list))
		refuse_name(r, name, what);
	if (!server)
		return;
	if (buf_failed(&own) || json_edit(&params, fm->m->params, &edit, 1) < 0)
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	else
		facade_forward(r, fm, server, buf_span(&params));
	buf_done(&own);
	buf_done(&params);
}

void facade_call_tool(struct request *r, const struct facade_message *fm)
{
	if (facade_park_resume(r, fm))
		return;
	if (fm->facade->only)
		facade_pass(r, fm);
	else
		use_name(r, fm, SERVER_TOOLS, "tool");
}

void facade_get_prompt(struct request *r, const struct facade_message *fm)
{
	if (facade_park_resume(r, fm))
		return;
	if (fm->facade->only)
		facade_pass(r, fm);
	else
		use_name(r, fm, SERVER_PROMPTS, "prompt");
}

/* --- resources --- */

static void refuse_uri(struct request *r, const struct facade_message *fm, struct span uri)
{
	struct buf error = BUF_INIT;
	buf_addf(&error, "{\"code\":%d,\"message\":\"Resource not found: no server has it\",\"data\":{\"uri\":",
		 fm->modern ? MCPD_E_INVALID_PARAMS : -32002);
	buf_add_span(&error, uri);
	buf_add_text(&error, "}}");
	if (buf_failed(&error))
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	else
		request_error_object(r, buf_span(&error));
	buf_done(&error);
}

static void forward_or_refuse(struct request *r, const struct facade_message *fm, struct server *server,
			      struct span uri)
{
	if (server)
		facade_forward(r, fm, server, fm->m->params);
	else
		refuse_uri(r, fm, uri);
}

void facade_use_resource(struct request *r, const struct facade_message *fm)
{
	if (facade_park_resume(r, fm))
		return;
	if (fm->facade->only) {
		facade_pass(r, fm);
		return;
	}
	if (string_param(r, fm->m->params, "uri").ptr &&
	    lists_are_there(r, fm, 1u << SERVER_RESOURCES | 1u << SERVER_TEMPLATES))
		go_on(r, fm);
}

/* --- completion --- */

/* The prompt's own name stands in the reference, wherever that is. */
static void complete_prompt(struct request *r, const struct facade_message *fm, struct span ref)
{
	struct span name = string_param(r, ref, "name");
	struct view view = facade_view(fm->facade);
	struct buf own = BUF_INIT, ref_text = BUF_INIT, params = BUF_INIT;
	if (!name.ptr)
		return;
	struct server *server = view_find_name(&view, SERVER_PROMPTS, name, &own);
	struct json_edit name_edit = { "name", JSON_EDIT_REPLACE, buf_span(&own) };
	int error = server ? json_edit(&ref_text, ref, &name_edit, 1) : 0;
	struct json_edit ref_edit = { "ref", JSON_EDIT_REPLACE, buf_span(&ref_text) };
	if (!server)
		refuse_name(r, name, "prompt");
	else if (buf_failed(&own) || error < 0 || json_edit(&params, fm->m->params, &ref_edit, 1) < 0)
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	else
		facade_forward(r, fm, server, buf_span(&params));
	buf_done(&own);
	buf_done(&ref_text);
	buf_done(&params);
}

void facade_complete(struct request *r, const struct facade_message *fm)
{
	struct span ref = json_member(fm->m->params, "ref");
	struct span type = json_member(ref, "type");
	if (fm->facade->only) {
		facade_pass(r, fm);
	} else if (json_string_is(type, "ref/prompt")) {
		if (lists_are_there(r, fm, 1u << SERVER_PROMPTS))
			go_on(r, fm);
	} else if (json_string_is(type, "ref/resource")) {
		if (string_param(r, ref, "uri").ptr &&
		    lists_are_there(r, fm, 1u << SERVER_RESOURCES | 1u << SERVER_TEMPLATES))
			go_on(r, fm);
	} else {
		request_error(r, MCPD_E_INVALID_PARAMS, "`ref` must have the type \"ref/prompt\" or \"ref/resource\"",
			      SPAN_NONE);
	}
}

/* What had to wait for lists, now that they are there. */
static void go_on(struct request *r, const struct facade_message *fm)
{
	struct view view = facade_view(fm->facade);
	struct span ref = json_member(fm->m->params, "ref");
	if (json_string_is(fm->m->method, "tools/call")) {
		use_name(r, fm, SERVER_TOOLS, "tool");
	} else if (json_string_is(fm->m->method, "prompts/get")) {
		use_name(r, fm, SERVER_PROMPTS, "prompt");
	} else if (!json_string_is(fm->m->method, "completion/complete")) {
		struct span uri = json_member(fm->m->params, "uri");
		forward_or_refuse(r, fm, view_find_uri(&view, uri), uri);
	} else if (json_string_is(json_member(ref, "type"), "ref/prompt")) {
		complete_prompt(r, fm, ref);
	} else {
		struct span uri = json_member(ref, "uri");
		forward_or_refuse(r, fm, view_find_template(&view, uri), uri);
	}
}

/* --- tasks --- */

void facade_use_task(struct request *r, const struct facade_message *fm)
{
	if (fm->facade->only) {
		facade_pass(r, fm);
		return;
	}
	struct span id = string_param(r, fm->m->params, "taskId");
	if (!id.ptr)
		return;
	struct server *server = router_task_server(request_ipc(r)->options.router, session_id(fm->session), id);
	if (server)
		facade_forward(r, fm, server, fm->m->params);
	else
		request_error(r, MCPD_E_INVALID_PARAMS, "Unknown task", SPAN_NONE);
}

/* --- the log level --- */

static bool was_levelled(const struct facade *f, uint64_t server)
{
	for (size_t i = 0; i < f->n_levelled; i++)
		if (f->levelled[i] == server)
			return true;
	return false;
}

static void set_level_at(struct facade *f, struct server *server)
{
	struct server_info info;
	server_get_info(server, &info);
	if (info.known_facts && !info.known_facts->has_logging)
		return;
	struct buf params = BUF_INIT;
	buf_addf(&params, "{\"level\":%s}", f->level);
	struct call_options options = {
		.client = session_id(f->session),
		.server = server,
		.method = JSONRPC_METHOD("logging/setLevel"),
		.params = buf_span(&params),
		.timeout_ms = -1,
	};
	if (!buf_failed(&params))
		router_request(session_ipc(f->session)->options.router, &options);
	buf_done(&params);
}

void facade_apply_level(struct facade *f, struct server *server)
{
	if (!f->level || was_levelled(f, server_id(server)))
		return;
	f->levelled = xrealloc(f->levelled, f->n_levelled + 1, sizeof *f->levelled);
	f->levelled[f->n_levelled++] = server_id(server);
	set_level_at(f, server);
}

/* Whether the view's one server has no logging; the request is then answered as the server would. */
static bool lacks_logging(struct request *r, const struct facade *f)
{
	struct server *server = f->only ? facade_find_server(r) : NULL;
	struct server_info info;
	if (!f->only)
		return false;
	if (!server)
		return true;
	server_get_info(server, &info);
	if (!info.known_facts || info.known_facts->has_logging)
		return false;
	request_error(r, MCPD_E_METHOD_NOT_FOUND, "Method not found: the server has no logging", SPAN_NONE);
	return true;
}

/* A wish is kept, and told to each server that runs, at once, and to others before the client's first request to
 * them: a level starts no server. */
void facade_set_level(struct request *r, const struct facade_message *fm)
{
	struct facade *f = fm->facade;
	struct view view = facade_view(f);
	struct span level = json_member(fm->m->params, "level");
	struct server *server;
	if (!router_is_log_level(level)) {
		request_error(r, MCPD_E_INVALID_PARAMS,
			      "`level` must be one of debug, info, notice, warning, error, "
			      "critical, alert, emergency",
			      SPAN_NONE);
		return;
	}
	if (lacks_logging(r, f))
		return;
	free(f->level);
	f->level = xstrndup(level.ptr, level.len);
	f->n_levelled = 0;
	for (size_t at = 0; (server = view_next(&view, &at));) {
		struct server_info info;
		server_get_info(server, &info);
		if (info.state == SERVER_CONNECTED && info.config->sharing == CONFIG_SHARED)
			facade_apply_level(f, server);
	}
	request_result(r, SPAN_LIT("{}"));
}

/*
 * tools/list: what every server has to show now, or after a short wait (contract M2).
 *
 * A listing waits only for servers that have nothing to show and may have soon, and at most waitMs from its arrival, so
 * that one slow server never holds up the tools of the others. The revision hashes what is shown, not the states: it is
 * the same live, from the cache and after a restart.
 */
#include "ipc/control_internal.h"

#include <stdlib.h>
#include <string.h>

#include "config/digest.h"
#include "proto/json_iter.h"
#include "xalloc.h"

#define WAIT_MS_DEFAULT 250
/* An answer to a wait this long has no use; the number is only there to keep the sum from overflowing. */
#define WAIT_MS_MAX (24LL * 60 * 60 * 1000)

struct listing_wait {
	struct listing_wait *next, **at;
	struct request *request;
	struct timer *timer;
	uint64_t server;   /* 0: all */
	char *if_revision; /* or NULL */
};

/* Calls fn for the server, or for all. */
static void walk(struct ipc *ipc, uint64_t only, void (*fn)(void *arg, struct server *server), void *arg)
{
	struct manager *manager = ipc->options.manager;
	struct server *server = only ? manager_by_id(manager, only) : NULL;
	if (server)
		fn(arg, server);
	for (size_t i = 0; !only && i < manager_count(manager); i++)
		fn(arg, manager_at(manager, i));
}

struct settling {
	bool start;
	bool settled;
};

static void look(void *arg, struct server *server)
{
	struct settling *all = arg;
	struct server_listing listing;
	server_get_list(server, SERVER_TOOLS, all->start, &listing);
	all->settled &= !listing.visible || listing.settled;
}

/* Whether there is nothing to wait for. start: sets lazy servers without a cache in motion. */
static bool is_settled(struct ipc *ipc, uint64_t only, bool start)
{
	struct settling all = { start, true };
	walk(ipc, only, look, &all);
	return all.settled;
}

struct revising {
	struct digest digest;
	bool only;
	char *ret;
};

static void add_to_revision(void *arg, struct server *server)
{
	struct revising *revising = arg;
	struct server_listing listing;
	server_get_list(server, SERVER_TOOLS, false, &listing);
	if (!listing.visible)
		return;
	digest_text(&revising->digest, listing.revision);
	for (size_t i = 0; revising->only && i < sizeof listing.revision; i++)
		revising->ret[i] = listing.revision[i];
}

/* One server's is its own revision, as events/tools tells it; that of all hashes theirs. */
static void find_revision(struct ipc *ipc, uint64_t only, char ret[static DIGEST_HEX])
{
	struct revising revising = { .only = only != 0, .ret = ret };
	digest_init(&revising.digest);
	digest_hex(&revising.digest, ret);
	walk(ipc, only, add_to_revision, &revising);
	if (!only)
		digest_hex(&revising.digest, ret);
}

struct writing {
	struct buf *out;
	bool any;
};

static void write_server(void *arg, struct server *server)
{
	struct writing *writing = arg;
	struct buf *out = writing->out;
	struct server_listing listing;
	struct server_info info;
	server_get_list(server, SERVER_TOOLS, false, &listing);
	if (!listing.visible)
		return;
	server_get_info(server, &info);
	buf_add_text(out, writing->any ? ",{\"name\":" : "{\"name\":");
	writing->any = true;
	buf_add_json_text(out, server_name(server));
	buf_addf(out, ",\"state\":\"%s\",\"deferred\":%s", server_state_name(info.state),
		 listing.deferred ? "true" : "false");
	if (listing.error) {
		buf_add_text(out, ",\"error\":");
		buf_add_json_text(out, listing.error);
	}
	buf_add_text(out, ",\"tools\":");
	buf_add_span(out, listing.items);
	buf_add_char(out, '}');
}

static void answer(struct request *r, uint64_t only, const char *if_revision)
{
	struct ipc *ipc = request_ipc(r);
	struct buf result = BUF_INIT;
	char revision[DIGEST_HEX];
	find_revision(ipc, only, revision);
	buf_addf(&result, "{\"revision\":\"%s\",", revision);
	if (if_revision && strcmp(if_revision, revision) == 0) {
		buf_add_text(&result, "\"notModified\":true}");
	} else {
		struct writing writing = { &result, false };
		buf_add_text(&result, "\"servers\":[");
		walk(ipc, only, write_server, &writing);
		buf_add_text(&result, "]}");
	}
	request_result_buf(r, &result);
}

/* The request has gone, answered or not. */
static void on_gone(uint64_t arg)
{
	struct listing_wait *wait = (struct listing_wait *)(uintptr_t)arg;
	*wait->at = wait->next;
	if (wait->next)
		wait->next->at = wait->at;
	timer_free(wait->timer);
	free(wait->if_revision);
	free(wait);
}

static void on_time(void *arg)
{
	struct listing_wait *wait = arg;
	answer(wait->request, wait->server, wait->if_revision);
}

static void wait_for_servers(struct request *r, uint64_t only, char *if_revision, int64_t wait_ms)
{
	struct ipc *ipc = request_ipc(r);
	struct listing_wait *wait = xnew(struct listing_wait);
	wait->request = r;
	wait->server = only;
	wait->if_revision = if_revision;
	wait->timer = timer_new(ipc->options.loop, on_time, wait);
	timer_set(wait->timer, loop_now_ms() + wait_ms);
	wait->next = ipc->listing_waits;
	wait->at = &ipc->listing_waits;
	if (wait->next)
		wait->next->at = &wait->next;
	ipc->listing_waits = wait;
	request_pend(r, NULL, on_gone, (uint64_t)(uintptr_t)wait);
}

void control_listing_changed(struct ipc *ipc)
{
	for (struct listing_wait *wait = ipc->listing_waits, *next; wait; wait = next) {
		next = wait->next;
		/* An answer ends this wait and no other: next stays. */
		if (is_settled(ipc, wait->server, false))
			answer(wait->request, wait->server, wait->if_revision);
	}
}

void control_tools_list(struct request *r, const struct jsonrpc_message *m)
{
	struct ipc *ipc = request_ipc(r);
	struct server *server = NULL;
	if (m->param[PARAM_SERVER].ptr) {
		server = control_find_server(r, m->param[PARAM_SERVER]);
		if (!server)
			return;
	}
	uint64_t only = server ? server_id(server) : 0;
	int64_t wait_ms = control_integer(json_member(m->params, "waitMs"), WAIT_MS_DEFAULT);
	char *if_revision = json_string_dup(json_member(m->params, "ifRevision"));
	if (wait_ms > WAIT_MS_MAX)
		wait_ms = WAIT_MS_MAX;
	if (is_settled(ipc, only, true) || wait_ms == 0) {
		answer(r, only, if_revision);
		free(if_revision);
	} else {
		wait_for_servers(r, only, if_revision, wait_ms);
	}
}

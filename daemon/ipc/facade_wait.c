/* Requests that wait for servers' lists: for a bounded time, and no longer than the lists take to settle. */
#include "ipc/facade_internal.h"

#include <stdlib.h>

#include "xalloc.h"

static void end(struct facade_wait *wait)
{
	*wait->at = wait->next;
	if (wait->next)
		wait->next->at = wait->at;
	timer_free(wait->timer);
	free(wait);
}

/* The request has gone unanswered. */
static void on_gone(uint64_t arg)
{
	struct facade_wait *wait = (struct facade_wait *)(uintptr_t)arg;
	free(wait->text);
	end(wait);
}

/* The request waits no longer, for this; it may wait for something else when fn has gone on with it. */
static void go(struct facade_wait *wait, bool timed_out)
{
	struct facade_wait done = *wait;
	request_pend(done.request, NULL, NULL, 0);
	end(wait);
	done.go(request_session(done.request), &done, timed_out);
	free(done.text);
}

static void on_time(void *arg)
{
	go(arg, true);
}

struct facade_wait *facade_wait_new(struct request *r, unsigned lists, int64_t deadline_ms,
				    void (*fn)(struct session *session, struct facade_wait *wait, bool timed_out))
{
	struct facade *f = facade_of(request_session(r));
	struct facade_wait *wait = xnew(struct facade_wait);
	wait->request = r;
	wait->lists = lists;
	wait->go = fn;
	wait->timer = timer_new(request_ipc(r)->options.loop, on_time, wait);
	timer_set(wait->timer, deadline_ms);
	wait->next = f->waits;
	wait->at = &f->waits;
	if (wait->next)
		wait->next->at = &wait->next;
	f->waits = wait;
	request_pend(r, facade_on_cancel_silently, on_gone, (uint64_t)(uintptr_t)wait);
	return wait;
}

static bool is_settled(const struct facade *f, unsigned wanted)
{
	struct view view = facade_view(f);
	for (int list = 0; list < SERVER_LIST_COUNT; list++)
		if ((wanted >> list & 1) && !view_is_settled(&view, (enum server_list)list, false))
			return false;
	return true;
}

void facade_waits_check(struct facade *f)
{
	/* Going on ends this wait and no other, and may make new ones, which come first in the list. */
	for (struct facade_wait *wait = f->waits, *next; wait; wait = next) {
		next = wait->next;
		if (is_settled(f, wait->lists))
			go(wait, false);
	}
}

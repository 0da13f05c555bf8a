#include "loop/curl_loop.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include <curl/curl.h>
#include <event2/event.h>

#include "log.h"
#include "xalloc.h"

#define BUCKETS 256

/* An easy handle in the multi handle. libcurl knows it by number. */
struct member {
	struct member *next;
	uint64_t number;
	CURL *easy;
	curl_loop_done_fn *done;
	void *arg;
};

/* A socket that libcurl wants watched. */
struct watch {
	struct watch *next, **link;
	struct curl_loop *cl;
	struct event *event;
	curl_socket_t fd;
};

struct curl_loop {
	struct loop *loop;
	CURLM *multi;
	struct timer *timer;
	struct watch *watches;
	struct member *members[BUCKETS];
	uint64_t last_number;
	bool inside; /* libcurl is on the stack */
};

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg);
static int on_timer_wanted(CURLM *multi, long timeout_ms, void *arg);

static void must(CURLMcode code, const char *what)
{
	if (code == CURLM_OK)
		return;
	log_error("libcurl: %s: %s", what, curl_multi_strerror(code));
	abort();
}

static void make_multi(struct curl_loop *cl)
{
	cl->multi = curl_multi_init();
	if (!cl->multi) {
		log_error("out of memory for libcurl");
		abort();
	}
	must(curl_multi_setopt(cl->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted), "CURLMOPT_SOCKETFUNCTION");
	must(curl_multi_setopt(cl->multi, CURLMOPT_SOCKETDATA, cl), "CURLMOPT_SOCKETDATA");
	must(curl_multi_setopt(cl->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted), "CURLMOPT_TIMERFUNCTION");
	must(curl_multi_setopt(cl->multi, CURLMOPT_TIMERDATA, cl), "CURLMOPT_TIMERDATA");
}

static struct member **find_member(struct curl_loop *cl, uint64_t number)
{
	struct member **at = &cl->members[number % BUCKETS];
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

/* Takes a member out of the multi handle and the table. */
static void remove_member(struct curl_loop *cl, struct member **at)
{
	struct member *member = *at;
	*at = member->next;
	assert(!cl->inside);
	cl->inside = true;
	curl_multi_remove_handle(cl->multi, member->easy);
	cl->inside = false;
	free(member);
}

static void finish_member(struct curl_loop *cl, struct member **at, CURLcode code)
{
	struct member member = **at;
	remove_member(cl, at);
	member.done(member.arg, code);
}

static void read_messages(struct curl_loop *cl)
{
	CURLMsg *message;
	int left;
	while ((message = curl_multi_info_read(cl->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		/* The message dies with the removal. */
		CURLcode code = message->data.result;
		void *number = NULL;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &number);
		struct member **at = find_member(cl, (uint64_t)(uintptr_t)number);
		if (*at)
			finish_member(cl, at, code);
	}
}

static void act(struct curl_loop *cl, curl_socket_t fd, int what)
{
	int running;
	assert(!cl->inside);
	cl->inside = true;
	CURLMcode code = curl_multi_socket_action(cl->multi, fd, what, &running);
	cl->inside = false;
	if (code == CURLM_OK) {
		read_messages(cl);
		return;
	}
	log_error("libcurl: %s; every HTTP transfer is given up", curl_multi_strerror(code));
	curl_loop_reset(cl);
}

static void on_timer(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct watch *watch = arg;
	int bits = (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
	act(watch->cl, fd, bits); /* may free the watch */
}

static void free_watch(struct watch *watch)
{
	*watch->link = watch->next;
	if (watch->next)
		watch->next->link = watch->link;
	event_free(watch->event);
	free(watch);
}

static struct watch *new_watch(struct curl_loop *cl, curl_socket_t fd)
{
	struct watch *watch = xnew(struct watch);
	watch->cl = cl;
	watch->fd = fd;
	watch->event = event_new(loop_base(cl->loop), fd, 0, on_socket, watch);
	watch->next = cl->watches;
	watch->link = &cl->watches;
	if (watch->next)
		watch->next->link = &watch->next;
	cl->watches = watch;
	return watch;
}

/* libcurl's callback; it may come for a socket never announced, and while the multi handle is cleaned up. */
static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	(void)easy;
	struct curl_loop *cl = arg;
	struct watch *watch = socket_arg;
	if (what == CURL_POLL_REMOVE) {
		if (watch)
			free_watch(watch);
		return 0;
	}
	if (!watch) {
		watch = new_watch(cl, fd);
		curl_multi_assign(cl->multi, fd, watch);
	} else {
		event_del(watch->event);
	}
	short events = EV_PERSIST;
	events |= what & CURL_POLL_IN ? EV_READ : 0;
	events |= what & CURL_POLL_OUT ? EV_WRITE : 0;
	if (!watch->event || event_assign(watch->event, loop_base(cl->loop), fd, events, on_socket, watch) < 0 ||
	    event_add(watch->event, NULL) < 0) {
		log_error("out of memory for an event");
		abort();
	}
	return 0;
}

/* libcurl's callback. It must not be answered from inside; a timer that is due at once fires in the next pass. The
 * timer also serves kept connections: it stays when the last transfer has ended. */
static int on_timer_wanted(CURLM *multi, long timeout_ms, void *arg)
{
	(void)multi;
	struct curl_loop *cl = arg;
	if (timeout_ms < 0)
		timer_cancel(cl->timer);
	else
		timer_set(cl->timer, loop_now_ms() + timeout_ms);
	return 0;
}

struct curl_loop *curl_loop_new(struct loop *loop)
{
	struct curl_loop *cl = xnew(struct curl_loop);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		log_error("libcurl does not start");
		abort();
	}
	cl->loop = loop;
	cl->timer = timer_new(loop, on_timer, cl);
	make_multi(cl);
	return cl;
}

static void clean_multi(struct curl_loop *cl)
{
	cl->inside = true;
	curl_multi_cleanup(cl->multi);
	cl->inside = false;
	while (cl->watches)
		free_watch(cl->watches);
	timer_cancel(cl->timer);
}

void curl_loop_free(struct curl_loop *cl)
{
	if (!cl)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		assert(!cl->members[i]);
	clean_multi(cl);
	timer_free(cl->timer);
	free(cl);
	curl_global_cleanup();
}

struct loop *curl_loop_loop(const struct curl_loop *cl)
{
	return cl->loop;
}

void curl_loop_reset(struct curl_loop *cl)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		while (cl->members[i])
			finish_member(cl, &cl->members[i], CURLE_RECV_ERROR);
	clean_multi(cl);
	make_multi(cl);
}

uint64_t curl_loop_add(struct curl_loop *cl, void *easy, curl_loop_done_fn *done, void *arg)
{
	struct member *member = xnew(struct member);
	*member = (struct member){ .number = ++cl->last_number, .easy = easy, .done = done, .arg = arg };
	curl_easy_setopt(easy, CURLOPT_PRIVATE, (void *)(uintptr_t)member->number);
	assert(!cl->inside);
	cl->inside = true;
	CURLMcode code = curl_multi_add_handle(cl->multi, easy);
	cl->inside = false;
	if (code != CURLM_OK) {
		log_error("libcurl: %s", curl_multi_strerror(code));
		free(member);
		return 0;
	}
	struct member **at = &cl->members[member->number % BUCKETS];
	member->next = *at;
	*at = member;
	return member->number;
}

void curl_loop_remove(struct curl_loop *cl, uint64_t number)
{
	struct member **at = find_member(cl, number);
	if (*at)
		remove_member(cl, at);
}

#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <event2/event.h>

#include "log.h"
#include "xalloc.h"

/* A ring of links with a head; an unlinked node points at itself. */
struct link {
	struct link *next, *prev;
};

struct task {
	struct link link; /* first: a link of a queue is its task */
	struct loop *loop;
	loop_fn *fn;
	void *arg;
};

struct timer {
	struct loop *loop;
	struct event *event;
	int64_t deadline_ms;
	bool set;
	loop_fn *fn;
	void *arg;
};

struct loop_signal {
	struct loop *loop;
	struct event *event;
	loop_fn *fn;
	void *arg;
};

struct grave {
	struct grave *next;
	void *object;
	loop_fn *free_fn;
};

struct loop {
	struct event_base *base;
	struct link tasks;
	struct grave *graves, **graves_end;
	loop_fn *pass_hook;
	void *pass_hook_arg;
	bool stopped;
	unsigned n_tasks, n_timers, n_signals;
};

static void link_init(struct link *link)
{
	link->next = link->prev = link;
}

static bool link_alone(const struct link *link)
{
	return link->next == link;
}

static void link_remove(struct link *link)
{
	link->next->prev = link->prev;
	link->prev->next = link->next;
	link_init(link);
}

static void link_append(struct link *head, struct link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

/* Moves a whole ring to another, empty head. */
static void link_move_all(struct link *from, struct link *to)
{
	if (link_alone(from))
		return;
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
	link_init(from);
}

int64_t loop_now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t loop_now_ms(void)
{
	return loop_now_us() / 1000;
}

struct loop *loop_new(void)
{
	signal(SIGPIPE, SIG_IGN);
	struct loop *loop = xnew(struct loop);
	link_init(&loop->tasks);
	loop->graves_end = &loop->graves;
	errno = 0;
	loop->base = event_base_new();
	if (!loop->base) {
		int error = errno ? errno : ENOMEM;
		free(loop);
		errno = error;
		return NULL;
	}
	return loop;
}

static void empty_graveyard(struct loop *loop)
{
	while (loop->graves) {
		struct grave *grave = loop->graves;
		loop->graves = grave->next;
		if (!loop->graves)
			loop->graves_end = &loop->graves;
		grave->free_fn(grave->object);
		free(grave);
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	empty_graveyard(loop);
	assert(link_alone(&loop->tasks));
	assert(loop->n_tasks == 0 && loop->n_timers == 0 && loop->n_signals == 0);
	event_base_free(loop->base);
	free(loop);
}

/* Only the tasks that are due now: what they schedule is for the next gap. */
static void run_tasks(struct loop *loop)
{
	struct link due;
	link_init(&due);
	link_move_all(&loop->tasks, &due);
	while (!link_alone(&due)) {
		struct task *task = (struct task *)due.next;
		link_remove(&task->link);
		task->fn(task->arg); /* may free the task */
	}
}

static int pass(struct loop *loop, bool block)
{
	int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY;
	if (!block || !link_alone(&loop->tasks))
		flags |= EVLOOP_NONBLOCK;
	errno = 0;
	if (event_base_loop(loop->base, flags) < 0)
		return errno ? -errno : -EIO;
	run_tasks(loop);
	empty_graveyard(loop);
	if (loop->pass_hook)
		loop->pass_hook(loop->pass_hook_arg);
	return 0;
}

int loop_run(struct loop *loop)
{
	loop->stopped = false;
	while (!loop->stopped) {
		int error = pass(loop, true);
		if (error)
			return error;
	}
	return 0;
}

static struct timeval timeval_of_ms(int64_t ms)
{
	return (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
}

/* Events are small and of our own number; without them nothing would ever happen again. */
static void out_of_memory(void)
{
	log_error("out of memory for an event");
	abort();
}

static void wake_up(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

int loop_once(struct loop *loop, int64_t wait_ms)
{
	if (wait_ms <= 0)
		return pass(loop, wait_ms < 0);
	struct event *limit = evtimer_new(loop->base, wake_up, NULL);
	struct timeval tv = timeval_of_ms(wait_ms);
	if (!limit || evtimer_add(limit, &tv) < 0)
		out_of_memory();
	int error = pass(loop, true);
	event_free(limit);
	return error;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}

void loop_set_pass_hook(struct loop *loop, loop_fn *fn, void *arg)
{
	loop->pass_hook = fn;
	loop->pass_hook_arg = arg;
}

struct event_base *loop_base(struct loop *loop)
{
	return loop->base;
}

void loop_bury(struct loop *loop, void *object, loop_fn *free_fn)
{
	struct grave *grave = xnew(struct grave);
	grave->object = object;
	grave->free_fn = free_fn;
	*loop->graves_end = grave;
	loop->graves_end = &grave->next;
}

struct task *task_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct task *task = xnew(struct task);
	link_init(&task->link);
	task->loop = loop;
	task->fn = fn;
	task->arg = arg;
	loop->n_tasks++;
	return task;
}

void task_schedule(struct task *task)
{
	if (link_alone(&task->link))
		link_append(&task->loop->tasks, &task->link);
}

void task_cancel(struct task *task)
{
	link_remove(&task->link);
}

void task_free(struct task *task)
{
	if (!task)
		return;
	task_cancel(task);
	task->loop->n_tasks--;
	free(task);
}

/* Arms the event; in the past: as soon as possible. */
static void arm(struct timer *timer)
{
	int64_t wait = timer->deadline_ms - loop_now_ms();
	/* Longer than libevent can say: on_timeout() sees that it was early and arms again. */
	const int64_t longest = (int64_t)24 * 3600 * 1000;
	struct timeval tv = timeval_of_ms(wait < 0 ? 0 : wait > longest ? longest : wait);
	if (evtimer_add(timer->event, &tv) < 0)
		out_of_memory();
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	struct timer *timer = arg;
	/* libevent counts from its cached time and by a coarse clock, so it may be early (PITFALLS "libevent"). */
	if (loop_now_ms() < timer->deadline_ms) {
		arm(timer);
		return;
	}
	timer->set = false;
	timer->fn(timer->arg); /* may free the timer */
}

struct timer *timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct timer *timer = xnew(struct timer);
	timer->loop = loop;
	timer->fn = fn;
	timer->arg = arg;
	timer->event = evtimer_new(loop->base, on_timeout, timer);
	if (!timer->event)
		out_of_memory();
	loop->n_timers++;
	return timer;
}

void timer_set(struct timer *timer, int64_t deadline_ms)
{
	timer->deadline_ms = deadline_ms;
	timer->set = true;
	arm(timer);
}

void timer_cancel(struct timer *timer)
{
	timer->set = false;
	evtimer_del(timer->event);
}

bool timer_is_set(const struct timer *timer)
{
	return timer->set;
}

void timer_free(struct timer *timer)
{
	if (!timer)
		return;
	event_free(timer->event);
	timer->loop->n_timers--;
	free(timer);
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	(void)signo;
	(void)what;
	struct loop_signal *signal = arg;
	signal->fn(signal->arg); /* may free the signal */
}

struct loop_signal *loop_signal_new(struct loop *loop, int signo, loop_fn *fn, void *arg)
{
	struct loop_signal *signal = xnew(struct loop_signal);
	signal->loop = loop;
	signal->fn = fn;
	signal->arg = arg;
	signal->event = evsignal_new(loop->base, signo, on_signal, signal);
	if (!signal->event || evsignal_add(signal->event, NULL) < 0)
		out_of_memory();
	loop->n_signals++;
	return signal;
}

void loop_signal_free(struct loop_signal *signal)
{
	if (!signal)
		return;
	event_free(signal->event);
	signal->loop->n_signals--;
	free(signal);
}

/*
 * The event loop and the order in which things happen in it (PITFALLS, "Lifetimes in an event loop").
 *
 * One pass: libevent dispatches what is ready (event_base_loop with EVLOOP_ONCE); then due tasks run; then the
 * graveyard is emptied. So memory handed to loop_bury() is released only when no callback of this pass can still be on
 * the stack, and a task scheduled in a callback runs after that callback has returned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct loop;
struct task;
struct timer;

typedef void loop_fn(void *arg);

/* NULL with errno. From here on the process ignores SIGPIPE (PITFALLS "libevent"). */
struct loop *loop_new(void);
/* Empties the graveyard and asserts that no task or timer is left. */
void loop_free(struct loop *loop);
/* Passes until loop_stop(); 0 or a negative errno. */
int loop_run(struct loop *loop);
/* One pass, which waits at most wait_ms (-1: for ever; 0: not at all). For tests. */
int loop_once(struct loop *loop, int64_t wait_ms);
void loop_stop(struct loop *loop);
/* Called between passes, for the watchdog; NULL for none. */
void loop_set_pass_hook(struct loop *loop, loop_fn *fn, void *arg);
/* For the folders that may include libevent. */
struct event_base *loop_base(struct loop *loop);

/* CLOCK_MONOTONIC in milliseconds, and microseconds; never the loop's cached time. */
int64_t loop_now_ms(void);
int64_t loop_now_us(void);

/* fn(object) after this pass. */
void loop_bury(struct loop *loop, void *object, loop_fn *free_fn);

/* A task runs once, in the next gap between passes, in the order of scheduling; scheduling a scheduled task does
 * nothing. A task scheduled by a task runs in the following pass's gap, and the loop does not block in between. Both
 * frees take NULL; freeing cancels. */
struct task *task_new(struct loop *loop, loop_fn *fn, void *arg);
void task_schedule(struct task *task);
void task_cancel(struct task *task);
void task_free(struct task *task);

/* A one-shot timer with a deadline on loop_now_ms(). Setting it again moves it; a deadline in the past fires in the
 * next pass. Never fires early. */
struct timer *timer_new(struct loop *loop, loop_fn *fn, void *arg);
void timer_set(struct timer *timer, int64_t deadline_ms);
void timer_cancel(struct timer *timer);
bool timer_is_set(const struct timer *timer);
void timer_free(struct timer *timer);

/* A signal delivered through the loop. Freed with loop_signal_free(). */
struct loop_signal *loop_signal_new(struct loop *loop, int signo, loop_fn *fn, void *arg);
void loop_signal_free(struct loop_signal *signal);

/* loop/loop.h: the order of things in a pass (PITFALLS "Lifetimes in an event loop" 1, 4), tasks, timers, signals. */
#include "run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "loop_wait.h"

static struct loop *loop;
static char trace[64];

static void note(const char *letter)
{
	ck_assert_uint_lt(strlen(trace) + 1, sizeof trace);
	strcat(trace, letter);
}

static void start(void)
{
	loop = loop_new();
	ck_assert_ptr_nonnull(loop);
	trace[0] = '\0';
}

static void on_note(void *arg)
{
	note(arg);
}

struct order {
	struct task *task;
	struct timer *timer;
};

static void bury_and_schedule(void *arg)
{
	struct order *order = arg;
	loop_bury(loop, (void *)"g", on_note);
	task_schedule(order->task);
	note("e");
}

START_TEST(events_then_tasks_then_graves)
{
	start();
	struct order order = { 0 };
	order.task = task_new(loop, on_note, (void *)"t");
	order.timer = timer_new(loop, bury_and_schedule, &order);
	timer_set(order.timer, 0);
	loop_wait(loop, trace[0] != '\0');
	ck_assert_str_eq(trace, "etg");
	task_free(order.task);
	timer_free(order.timer);
	loop_free(loop);
}
END_TEST

static void bury_more(void *arg)
{
	note("1");
	loop_bury(loop, arg, on_note);
}

START_TEST(graves_in_order_and_from_graves)
{
	start();
	loop_bury(loop, (void *)"3", bury_more);
	loop_bury(loop, (void *)"2", on_note);
	ck_assert_str_eq(trace, "");
	loop_once(loop, 0);
	ck_assert_str_eq(trace, "123");
	loop_bury(loop, (void *)"4", on_note);
	loop_free(loop); /* empties it too */
	ck_assert_str_eq(trace, "1234");
}
END_TEST

static struct task *first, *second;

static void schedule_second(void *arg)
{
	note(arg);
	task_schedule(second);
}

START_TEST(task_of_a_task_runs_in_the_next_gap_without_sleeping)
{
	start();
	first = task_new(loop, schedule_second, (void *)"1");
	second = task_new(loop, on_note, (void *)"2");
	task_schedule(first);
	loop_once(loop, -1);
	ck_assert_str_eq(trace, "1");
	loop_once(loop, -1); /* nothing else would wake it */
	ck_assert_str_eq(trace, "12");
	task_free(first);
	task_free(second);
	loop_free(loop);
}
END_TEST

static void cancel_second(void *arg)
{
	note(arg);
	task_cancel(second);
}

static void free_first(void *arg)
{
	note(arg);
	task_free(first);
}

START_TEST(tasks_run_once_in_order_and_can_be_cancelled_and_freed)
{
	start();
	first = task_new(loop, cancel_second, (void *)"1");
	second = task_new(loop, on_note, (void *)"2");
	struct task *third = task_new(loop, on_note, (void *)"3");
	task_schedule(first);
	task_schedule(second);
	task_schedule(third);
	task_schedule(third);
	loop_settle(loop);
	ck_assert_str_eq(trace, "13");
	task_free(first);

	first = task_new(loop, free_first, (void *)"f");
	task_schedule(first);
	task_schedule(second);
	task_free(second);
	loop_settle(loop);
	ck_assert_str_eq(trace, "13f");
	task_free(third);
	loop_free(loop);
}
END_TEST

#define MANY 3000

struct clock {
	struct timer *timer;
	int64_t deadline;
};

static unsigned fired;

static void on_clock(void *arg)
{
	struct clock *clock = arg;
	ck_assert_int_ge(loop_now_ms(), clock->deadline);
	ck_assert(!timer_is_set(clock->timer));
	fired++;
}

START_TEST(thousands_of_timers_all_fire_and_never_early)
{
	start();
	struct clock *clocks = calloc(MANY, sizeof *clocks);
	fired = 0;
	srand(7);
	for (int i = 0; i < MANY; i++) {
		clocks[i].timer = timer_new(loop, on_clock, &clocks[i]);
		clocks[i].deadline = loop_now_ms() + rand() % 300;
		timer_set(clocks[i].timer, clocks[i].deadline);
	}
	loop_wait(loop, fired == MANY);
	for (int i = 0; i < MANY; i++)
		timer_free(clocks[i].timer);
	free(clocks);
	loop_free(loop);
}
END_TEST

static struct clock late;

static void busy_then_set(void *arg)
{
	(void)arg;
	int64_t until = loop_now_ms() + 80;
	while (loop_now_ms() < until)
		;
	late.deadline = loop_now_ms() + 60;
	timer_set(late.timer, late.deadline);
}

START_TEST(timer_set_late_in_a_long_callback_is_not_early)
{
	start();
	fired = 0;
	late.timer = timer_new(loop, on_clock, &late);
	struct timer *busy = timer_new(loop, busy_then_set, NULL);
	timer_set(busy, 0);
	loop_wait(loop, fired == 1);
	timer_free(busy);
	timer_free(late.timer);
	loop_free(loop);
}
END_TEST

static struct timer *own;

static void free_own(void *arg)
{
	note(arg);
	timer_free(own);
}

START_TEST(timers_move_cancel_and_free_themselves)
{
	start();
	struct timer *moved = timer_new(loop, on_note, (void *)"m");
	struct timer *cancelled = timer_new(loop, on_note, (void *)"c");
	own = timer_new(loop, free_own, (void *)"o");
	timer_set(moved, loop_now_ms() + 3600000);
	timer_set(moved, loop_now_ms() - 5); /* the past: the next pass */
	timer_set(cancelled, loop_now_ms());
	ck_assert(timer_is_set(cancelled));
	timer_cancel(cancelled);
	ck_assert(!timer_is_set(cancelled));
	loop_once(loop, -1);
	ck_assert_str_eq(trace, "m");
	timer_set(own, 0);
	loop_wait(loop, strcmp(trace, "mo") == 0);
	loop_settle(loop);
	ck_assert_str_eq(trace, "mo");
	timer_free(moved);
	timer_free(cancelled);
	timer_free(NULL);
	task_free(NULL);
	loop_free(loop);
}
END_TEST

static unsigned passes;

static void on_pass(void *arg)
{
	(void)arg;
	passes++;
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

START_TEST(run_until_stopped_and_the_hook_between_passes)
{
	start();
	passes = 0;
	loop_set_pass_hook(loop, on_pass, NULL);
	struct task *task = task_new(loop, stop, NULL);
	task_schedule(task);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(passes, 1);
	loop_set_pass_hook(loop, NULL, NULL);
	task_schedule(task);
	ck_assert_int_eq(loop_run(loop), 0);
	ck_assert_uint_eq(passes, 1);
	task_free(task);
	loop_free(loop);
}
END_TEST

START_TEST(one_pass_waits_no_longer_than_told)
{
	start();
	int64_t before = loop_now_ms();
	loop_once(loop, 30);
	ck_assert_int_ge(loop_now_ms() - before, 25);
	loop_free(loop);
}
END_TEST

START_TEST(signals_come_through_the_loop)
{
	start();
	struct loop_signal *sig = loop_signal_new(loop, SIGUSR1, on_note, (void *)"s");
	raise(SIGUSR1);
	ck_assert_str_eq(trace, "");
	loop_wait(loop, trace[0] != '\0');
	ck_assert_str_eq(trace, "s");
	loop_signal_free(sig);
	loop_signal_free(NULL);
	loop_free(loop);
	/* A write to nobody is an error, not the end. */
	raise(SIGPIPE);
}
END_TEST

int main(void)
{
	return RUN_TESTS("loop", events_then_tasks_then_graves, graves_in_order_and_from_graves,
			 task_of_a_task_runs_in_the_next_gap_without_sleeping,
			 tasks_run_once_in_order_and_can_be_cancelled_and_freed,
			 thousands_of_timers_all_fire_and_never_early, timer_set_late_in_a_long_callback_is_not_early,
			 timers_move_cancel_and_free_themselves, run_until_stopped_and_the_hook_between_passes,
			 one_pass_waits_no_longer_than_told, signals_come_through_the_loop);
}

/* daemon/activity.c: when the daemon is idle, and what the service manager is told; with a manager, clients and a clock
 * that do as they are told. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "activity.h"
#include "manager/server.h"
#include "run.h"
#include "service.h"

int64_t __real_loop_now_ms(void);
int64_t __wrap_loop_now_ms(void);

static struct {
	int64_t clock_behind_ms; /* of the activity's clock; its timers run by the real one */
	struct config config;
	bool at_rest;
	unsigned clients, connected, servers, errors;
	unsigned idle, told;
	char status[200];
} world;

int64_t __wrap_loop_now_ms(void)
{
	return __real_loop_now_ms() - world.clock_behind_ms;
}

/* ---- what stands below ---- */

const struct config *manager_config(const struct manager *m)
{
	(void)m;
	return &world.config;
}

bool manager_at_rest(const struct manager *m)
{
	(void)m;
	return world.at_rest;
}

size_t manager_count(const struct manager *m)
{
	(void)m;
	return world.servers;
}

struct server *manager_at(const struct manager *m, size_t index)
{
	(void)m;
	return (struct server *)(index + 1);
}

void server_get_info(struct server *server, struct server_info *ret)
{
	*ret = (struct server_info){ .state = (size_t)server <= world.connected ? SERVER_CONNECTED : SERVER_FAILED };
}

unsigned ipc_clients(const struct ipc *ipc)
{
	(void)ipc;
	return world.clients;
}

const struct config_problem *reload_problems(const struct reload *reload, size_t *ret_n)
{
	static const struct config_problem problems[] = { { .warning = true }, { 0 }, { 0 } };
	(void)reload;
	*ret_n = world.errors ? 1 + world.errors : 0;
	return problems;
}

void service_status(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(world.status, sizeof world.status, format, args);
	va_end(args);
	world.told++;
}

/* ---- the bench ---- */

static struct loop *loop;

static void on_idle(void *arg)
{
	ck_assert_ptr_eq(arg, &world);
	world.idle++;
	loop_stop(loop);
}

static struct activity *begin(bool activated, int64_t idle_exit_ms)
{
	loop = loop_new();
	world.config.idle_exit_ms = idle_exit_ms;
	struct activity_options options = { .loop = loop, .activated = activated, .on_idle = on_idle, .arg = &world };
	return activity_new(&options);
}

static void end(struct activity *activity)
{
	activity_free(activity);
	loop_free(loop);
}

/* Whatever is due now. */
static void passes(void)
{
	for (int i = 0; i < 5; i++)
		loop_once(loop, 0);
}

/* As if so much time had passed, and then something changed. */
static void later(struct activity *activity, int64_t ms)
{
	world.clock_behind_ms -= ms;
	activity_changed(activity);
	passes();
}

static void setup(void)
{
	memset(&world, 0, sizeof world);
	world.clock_behind_ms = (int64_t)1000 * 3600 * 24 * 30;
	world.at_rest = true;
}

/* ---- idleness ---- */

START_TEST(after_the_time_without_anything_the_daemon_may_leave)
{
	struct activity *a = begin(false, 5000);
	passes();
	later(a, 4900);
	ck_assert_uint_eq(world.idle, 0);
	later(a, 100);
	ck_assert_uint_eq(world.idle, 1);
	end(a);
}
END_TEST

START_TEST(started_by_hand_it_stays_unless_told_otherwise)
{
	struct activity *a = begin(false, CONFIG_UNSET);
	later(a, (int64_t)1000 * 3600 * 24 * 20);
	ck_assert_uint_eq(world.idle, 0);
	end(a);
}
END_TEST

START_TEST(with_the_service_managers_socket_it_leaves_after_ten_minutes)
{
	struct activity *a = begin(true, CONFIG_UNSET);
	later(a, 599000);
	ck_assert_uint_eq(world.idle, 0);
	later(a, 1000);
	ck_assert_uint_eq(world.idle, 1);
	end(a);
}
END_TEST

START_TEST(unless_it_is_told_to_stay)
{
	struct activity *a = begin(true, 0);
	later(a, (int64_t)1000 * 3600 * 24 * 20);
	ck_assert_uint_eq(world.idle, 0);
	end(a);
}
END_TEST

START_TEST(a_client_or_a_server_starts_the_time_anew)
{
	struct activity *a = begin(true, 5000);
	later(a, 4900);
	world.clients = 1;
	later(a, 90000);
	ck_assert_uint_eq(world.idle, 0);
	world.clients = 0;
	activity_changed(a);
	later(a, 4900);
	ck_assert_uint_eq(world.idle, 0);
	world.at_rest = false;
	later(a, 90000);
	ck_assert_uint_eq(world.idle, 0);
	world.at_rest = true;
	activity_changed(a);
	later(a, 4900);
	ck_assert_uint_eq(world.idle, 0);
	later(a, 100);
	ck_assert_uint_eq(world.idle, 1);
	end(a);
}
END_TEST

START_TEST(a_server_that_ends_without_a_word_is_noticed)
{
	world.at_rest = false;
	struct activity *a = begin(false, 20);
	passes();
	world.at_rest = true;
	loop_run(loop); /* until on_idle(): nobody calls activity_changed() */
	ck_assert_uint_eq(world.idle, 1);
	end(a);
}
END_TEST

START_TEST(a_new_setting_counts_at_once)
{
	struct activity *a = begin(true, CONFIG_UNSET);
	later(a, 60000);
	world.config.idle_exit_ms = 50000;
	later(a, 0);
	ck_assert_uint_eq(world.idle, 1);
	world.config.idle_exit_ms = 0;
	later(a, 1000000);
	ck_assert_uint_eq(world.idle, 1);
	end(a);
}
END_TEST

START_TEST(a_daemon_that_ends_is_not_idle_and_tells_nothing)
{
	struct activity *a = begin(true, 5000);
	activity_stop(a);
	world.clients = 3;
	later(a, 100000);
	world.clients = 0;
	later(a, 100000);
	ck_assert_uint_eq(world.idle, 0);
	ck_assert_uint_eq(world.told, 1);
	end(a);
}
END_TEST

/* ---- the status ---- */

START_TEST(the_status_counts)
{
	world.servers = 3;
	world.connected = 2;
	struct activity *a = begin(false, 0);
	ck_assert_str_eq(world.status, "2 of 3 servers connected, 0 clients");
	world.clients = 1;
	world.errors = 1;
	later(a, 1000);
	ck_assert_str_eq(world.status,
			 "2 of 3 servers connected, 1 client; 1 error in the configuration, see mcpctl status");
	world.errors = 2;
	world.clients = 2;
	later(a, 1000);
	ck_assert_str_eq(world.status,
			 "2 of 3 servers connected, 2 clients; 2 errors in the configuration, see mcpctl status");
	end(a);
}
END_TEST

START_TEST(a_crowd_is_told_once)
{
	struct activity *a = begin(false, 0);
	for (world.clients = 1; world.clients < 1000; world.clients++)
		activity_changed(a);
	passes();
	ck_assert_uint_eq(world.told, 2);
	/* And nothing that has not changed. */
	for (int i = 0; i < 100; i++)
		later(a, 1000);
	ck_assert_uint_eq(world.told, 2);
	end(a);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		after_the_time_without_anything_the_daemon_may_leave,
		started_by_hand_it_stays_unless_told_otherwise,
		with_the_service_managers_socket_it_leaves_after_ten_minutes,
		unless_it_is_told_to_stay,
		a_client_or_a_server_starts_the_time_anew,
		a_server_that_ends_without_a_word_is_noticed,
		a_new_setting_counts_at_once,
		a_daemon_that_ends_is_not_idle_and_tells_nothing,
		the_status_counts,
		a_crowd_is_told_once,
		NULL,
	};
	return run_tests_with("activity", tests, setup, NULL);
}

/* router/accounts: calls and traffic by server and client name, and that names and servers bound what is kept. */
#include "router/accounts.h"

#include <check.h>
#include <stdio.h>

#include "fake_manager.h"
#include "proto/errors.h"
#include "tests/unit/run.h"

static struct accounts *accounts;

static void on_server_removed(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	accounts_server_removed(accounts);
}

static void setup(void)
{
	static const struct manager_callbacks callbacks = { .on_server_removed = on_server_removed };
	accounts = accounts_new(fake_new(&callbacks, NULL));
}

static void teardown(void)
{
	accounts_free(accounts);
	fake_free();
}

static struct call_info call_of(const struct server *server, unsigned account, const char *method,
				enum mcpd_outcome outcome, int64_t us)
{
	return (struct call_info){
		.server = server_id(server),
		.account = account,
		.method = span_of(method),
		.outcome = outcome,
		.duration_us = us,
	};
}

static void ended(const struct server *server, unsigned account, const char *method, enum mcpd_outcome outcome,
		  int64_t us)
{
	struct call_info info = call_of(server, account, method, outcome, us);
	accounts_call(accounts, &info, &(struct transport_reply){ 0 });
}

START_TEST(names_have_an_index_each)
{
	unsigned a = accounts_client(accounts, SPAN_LIT("a"), 2), b = accounts_client(accounts, SPAN_LIT("b"), 2);
	ck_assert_uint_ne(a, b);
	ck_assert_uint_ge(a, ACCOUNT_NAMES_FIRST);
	ck_assert_uint_eq(accounts_client(accounts, SPAN_LIT("a"), 2), a);
	ck_assert_str_eq(accounts_client_name(accounts, b), "b");
	ck_assert_uint_eq(accounts_client(accounts, SPAN_LIT(""), 2), ACCOUNT_UNNAMED);
	/* Further ones are one, those that are known stay what they are, and it is told. */
	ck_assert_uint_eq(accounts_limit_hits(accounts, LIMIT_CLIENT_NAMES), 0);
	for (int i = 0; i < 1000; i++) {
		char name[16];
		snprintf(name, sizeof name, "n%d", i);
		ck_assert_uint_eq(accounts_client(accounts, span_of(name), 2), ACCOUNT_OTHER);
	}
	ck_assert_uint_eq(accounts_client(accounts, SPAN_LIT("b"), 2), b);
	ck_assert_uint_eq(accounts_client(accounts, SPAN_LIT("other"), 2), ACCOUNT_OTHER);
	ck_assert_uint_eq(accounts_clients(accounts), ACCOUNT_NAMES_FIRST + 2);
	ck_assert_uint_eq(accounts_limit_hits(accounts, LIMIT_CLIENT_NAMES), 1000);
	ck_assert_uint_eq(accounts_client(accounts, SPAN_LIT("c"), 3), b + 1);
}
END_TEST

START_TEST(calls_are_counted_by_server_name_and_method)
{
	struct server *x = fake_add("x"), *y = fake_add("y");
	unsigned a = accounts_client(accounts, SPAN_LIT("a"), 9);
	ck_assert_ptr_null(accounts_server(accounts, server_id(x)));
	ended(x, a, "\"tools/call\"", OUTCOME_OK, 500);
	ended(x, a, "\"tools\\/call\"", OUTCOME_OK, 2000);
	ended(x, a, "\"tools/call\"", OUTCOME_TIMEOUT, 30000000);
	ended(x, ACCOUNT_DAEMON, "\"made/up\"", OUTCOME_ERROR, 1);
	const struct account_server *of = accounts_server(accounts, server_id(x));
	ck_assert_uint_eq(of->methods[ACCOUNT_METHOD_TOOLS_CALL][OUTCOME_OK], 2);
	ck_assert_uint_eq(of->methods[ACCOUNT_METHOD_TOOLS_CALL][OUTCOME_TIMEOUT], 1);
	ck_assert_uint_eq(of->methods[ACCOUNT_METHOD_OTHER][OUTCOME_ERROR], 1);
	ck_assert_uint_gt(of->n_clients, a);
	ck_assert_uint_eq(of->clients[a]->outcomes[OUTCOME_OK], 2);
	ck_assert_uint_eq(of->clients[a]->outcomes[OUTCOME_TIMEOUT], 1);
	ck_assert_uint_eq(of->clients[a]->outcomes[OUTCOME_ERROR], 0);
	ck_assert_uint_eq(of->clients[a]->duration.buckets[0], 1);
	ck_assert_uint_eq(of->clients[a]->duration.sum_us, 30002500);
	ck_assert_uint_eq(of->clients[ACCOUNT_DAEMON]->outcomes[OUTCOME_ERROR], 1);
	ck_assert_ptr_null(of->clients[ACCOUNT_UNNAMED]);
	ck_assert_ptr_null(accounts_server(accounts, server_id(y)));
	struct call_info info = call_of(y, a, "\"ping\"", OUTCOME_LIMIT, 1);
	info.resent = true;
	accounts_call(accounts, &info,
		      &(struct transport_reply){ .code = MCPD_E_LIMIT, .limit = LIMIT_REQUESTS_PER_SERVER });
	ck_assert_uint_eq(accounts_server(accounts, server_id(y))->resent, 1);
	ck_assert_uint_eq(accounts_limit_hits(accounts, LIMIT_REQUESTS_PER_SERVER), 1);
}
END_TEST

START_TEST(a_servers_numbers_go_with_it)
{
	struct server *servers[8];
	uint64_t ids[8];
	for (int i = 0; i < 8; i++) {
		char name[8];
		snprintf(name, sizeof name, "s%d", i);
		servers[i] = fake_add(name);
		ids[i] = server_id(servers[i]);
		ended(servers[i], ACCOUNT_UNNAMED, "\"ping\"", OUTCOME_OK, 1);
	}
	struct call_info late = call_of(servers[0], ACCOUNT_UNNAMED, "\"ping\"", OUTCOME_CLOSED, 1);
	for (int i = 0; i < 8; i += 2)
		fake_remove(servers[i]);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(accounts_server(accounts, ids[i]) != NULL, i % 2);
	/* A call that ends behind it opens no new account. */
	accounts_call(accounts, &late, &(struct transport_reply){ .code = MCPD_E_TRANSPORT });
	ck_assert_ptr_null(accounts_server(accounts, ids[0]));
}
END_TEST

START_TEST(traffic_adds_up_by_name)
{
	unsigned a = accounts_client(accounts, SPAN_LIT("a"), 9);
	accounts_traffic(accounts, a, &(struct account_traffic){ 1, 20, 300 });
	accounts_traffic(accounts, a, &(struct account_traffic){ 4, 50, 600 });
	const struct account_traffic *traffic = accounts_client_traffic(accounts, a);
	ck_assert_uint_eq(traffic->received, 5);
	ck_assert_uint_eq(traffic->sent, 70);
	ck_assert_uint_eq(traffic->dropped, 900);
	ck_assert_uint_eq(accounts_client_traffic(accounts, ACCOUNT_UNNAMED)->sent, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		names_have_an_index_each,
		calls_are_counted_by_server_name_and_method,
		a_servers_numbers_go_with_it,
		traffic_adds_up_by_name,
		NULL,
	};
	return run_tests_with("accounts", tests, setup, teardown);
}

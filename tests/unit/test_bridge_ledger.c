/* contrib/bridge/ledger: what is known of a session when the daemon goes. */
#include "contrib/bridge/ledger.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/run.h"

static struct ledger ledger;

static void setup(void)
{
	ledger_init(&ledger);
}

static void teardown(void)
{
	ledger_done(&ledger);
	ck_assert_uint_eq(ledger.bytes, 0);
}

static struct entry *ask(enum entry_kind kind, const char *id, const char *text, uint64_t end)
{
	return ledger_ask(&ledger, kind, span_of(id), span_of(text), end);
}

static struct entry *find(const char *id)
{
	return ledger_find(&ledger, span_of(id));
}

static void answer(const char *id, bool done)
{
	ck_assert_ptr_nonnull(find(id));
	ledger_answered(&ledger, find(id), done);
}

START_TEST(requests_are_found_by_their_id)
{
	ask(ENTRY_REQUEST, "1", NULL, 1);
	ask(ENTRY_REQUEST, "\"1\"", NULL, 2);
	ask(ENTRY_REQUEST, "\"a\\u0062\"", NULL, 3);
	ck_assert_uint_eq(find("1")->end, 1);
	ck_assert_uint_eq(find("\"1\"")->end, 2);
	ck_assert_uint_eq(find("\"ab\"")->end, 3);
	ck_assert_ptr_null(find("1.0"));
	answer("\"1\"", true);
	ck_assert_ptr_null(find("\"1\""));
	ck_assert_ptr_nonnull(find("1"));
	ck_assert(ledger_answers_due(&ledger));
	answer("1", false);
	answer("\"ab\"", true);
	ck_assert(!ledger_answers_due(&ledger));
	ck_assert_uint_eq(ledger.bytes, 0);
	/* The list's end is where it was. */
	ask(ENTRY_REQUEST, "2", NULL, 4);
	ask(ENTRY_REQUEST, "3", NULL, 5);
	ck_assert_ptr_eq(find("2")->next, find("3"));
}
END_TEST

START_TEST(a_loss_sorts_what_was_in_flight)
{
	ask(ENTRY_REQUEST, "1", NULL, 10);
	ask(ENTRY_INITIALIZE, "2", "{}", 20);
	ask(ENTRY_LISTEN, "3", "{}", 30);
	ask(ENTRY_LISTEN, "4", NULL, 35); /* too long to be kept */
	ask(ENTRY_REPLAY, "5", NULL, 0);
	ask(ENTRY_SUBSCRIBE, "6", "\"a\"", 40);
	ask(ENTRY_REQUEST, "7", NULL, 60);
	ledger.initialized = true;
	ledger.initialized_end = 45;
	ledger_lost(&ledger, 50, false);
	ck_assert_ptr_null(find("5"));
	ck_assert_ptr_null(find("7"));
	ck_assert(ledger.initialized);
	static const char *const unanswered[] = { "1", "4", "6" };
	for (int i = 0; i < 3; i++) {
		struct entry *entry = ledger_next_unanswered(&ledger);
		ck_assert(span_is(entry_id(entry), unanswered[i]));
		ledger_forget(&ledger, entry);
	}
	ck_assert_ptr_null(ledger_next_unanswered(&ledger));
	ck_assert_ptr_eq(ledger_next_again(&ledger), find("2"));
	ck_assert_ptr_eq(ledger_next_again(&ledger), find("3"));
	ck_assert_ptr_null(ledger_next_again(&ledger));
	/* Once more on the next connection. */
	ledger_lost(&ledger, 50, false);
	ck_assert_ptr_eq(ledger_next_again(&ledger), find("2"));
	ledger_lost(&ledger, 44, false);
	ck_assert(!ledger.initialized);
}
END_TEST

START_TEST(a_torn_line_is_answered_not_sent_again)
{
	ask(ENTRY_REQUEST, "1", NULL, 10);
	ask(ENTRY_LISTEN, "2", "{}", 90);
	ledger_lost(&ledger, 50, true);
	ck_assert(!find("1")->torn && find("2")->torn);
	ledger_forget(&ledger, find("1"));
	ck_assert_ptr_eq(ledger_next_unanswered(&ledger), find("2"));
	ck_assert_ptr_null(ledger_next_again(&ledger));
}
END_TEST

static unsigned count_subscriptions(void)
{
	unsigned n = 0;
	for (struct subscription *s = ledger.subscriptions; s; s = s->next)
		n++;
	return n;
}

START_TEST(what_was_set_up_is_kept_once_it_is_answered)
{
	ask(ENTRY_INITIALIZE, "0", "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"a\":1.0}}",
	    1);
	ck_assert_uint_eq(ledger.initialize.len, 0);
	answer("0", true);
	ck_assert_str_eq(ledger.initialize.data, "{\"a\":1.0}");
	ck_assert(!ledger.initialize_lost);
	ask(ENTRY_SET_LEVEL, "1", "\"info\"", 2);
	answer("1", true);
	ask(ENTRY_SET_LEVEL, "2", "\"debug\"", 3);
	answer("2", false);
	ck_assert_str_eq(ledger.level.data, "\"info\"");
	for (int i = 0; i < 3; i++) {
		ask(ENTRY_SUBSCRIBE, "3", i == 2 ? "\"\\u0061\"" : i == 1 ? "\"b\"" : "\"a\"", 4);
		answer("3", true);
	}
	ck_assert_uint_eq(count_subscriptions(), 2);
	ask(ENTRY_UNSUBSCRIBE, "4", "\"b\"", 5);
	answer("4", true);
	ask(ENTRY_UNSUBSCRIBE, "5", "\"nobody's\"", 6);
	answer("5", true);
	ck_assert_uint_eq(count_subscriptions(), 1);
	ck_assert_ptr_null(ledger_next_subscription(&ledger));
	ledger_lost(&ledger, 100, false);
	ck_assert_ptr_nonnull(ledger_next_subscription(&ledger));
	ck_assert_ptr_null(ledger_next_subscription(&ledger));
}
END_TEST

START_TEST(a_handshake_that_was_too_long_is_known_to_be_lost)
{
	ask(ENTRY_INITIALIZE, "0", NULL, 1);
	answer("0", true);
	ck_assert(ledger.initialize_lost);
}
END_TEST

START_TEST(questions_become_stale)
{
	ledger_question(&ledger, SPAN_LIT("\"q1\""));
	ledger_question(&ledger, SPAN_LIT("\"q2\""));
	ledger_question(&ledger, SPAN_LIT("\"q3\""));
	ck_assert(!ledger_question_answered(&ledger, SPAN_LIT("\"q1\"")));
	ledger_question_over(&ledger, SPAN_LIT("\"q2\""));
	struct entry *entry = ledger_next_withdrawn(&ledger);
	ck_assert(span_is(entry_id(entry), "\"q3\""));
	ck_assert_ptr_null(ledger_next_withdrawn(&ledger));
	ck_assert(ledger_question_answered(&ledger, SPAN_LIT("\"q3\"")));
	ck_assert(!ledger_question_answered(&ledger, SPAN_LIT("\"q3\"")));
	/* An id that the next daemon uses again is its own. */
	ledger_question(&ledger, SPAN_LIT("1"));
	ledger_next_withdrawn(&ledger);
	ledger_question(&ledger, SPAN_LIT("1"));
	ck_assert(!ledger_question_answered(&ledger, SPAN_LIT("1")));
}
END_TEST

START_TEST(it_is_full_before_it_is_large)
{
	char id[32];
	int n = 0;
	for (; !ledger_is_full(&ledger); n++) {
		snprintf(id, sizeof(id), "\"%026d\"", n);
		ck_assert_ptr_nonnull(ask(ENTRY_REQUEST, id, NULL, 1));
	}
	ck_assert_int_gt(n, 1024);
	ck_assert_uint_lt(ledger.bytes, LEDGER_FULL_BYTES + 1024);
	/* Nothing else is noted down then. */
	ledger_question(&ledger, SPAN_LIT("\"q\""));
	ck_assert_ptr_null(ledger_next_withdrawn(&ledger));
	ledger_forget(&ledger, ledger.asked);
	ck_assert(!ledger_is_full(&ledger));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { requests_are_found_by_their_id,
				       a_loss_sorts_what_was_in_flight,
				       a_torn_line_is_answered_not_sent_again,
				       what_was_set_up_is_kept_once_it_is_answered,
				       a_handshake_that_was_too_long_is_known_to_be_lost,
				       questions_become_stale,
				       it_is_full_before_it_is_large,
				       NULL };
	return run_tests_with("bridge_ledger", tests, setup, teardown);
}

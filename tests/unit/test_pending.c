/* transport/pending.h: ids, clocks and completions (contract S2, S4, I1, C1 to C4; PITFALLS "Lifetimes" 4, 5, 7). */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop_wait.h"
#include "proto/limits.h"
#include "transport/pending.h"

static struct loop *loop;
static struct pending *pending;
static enum pending_phase phase;
static unsigned gave_up;
static void *given_data;
static char late[64];

/* What became of one operation. */
struct outcome {
	unsigned done;
	int code;
	char message[100], result[100], wire_id[40];
	bool sent;
	int limit;
	int64_t timeout_ms, max_timeout_ms;
	uint64_t number; /* to look at from inside */
	unsigned turn;
	void (*then)(struct outcome *outcome);
};

static unsigned turns;

static enum pending_phase give_up(void *arg, uint64_t number, void *data)
{
	(void)arg;
	(void)number;
	gave_up++;
	given_data = data;
	return phase;
}

static void on_late(void *arg, uint64_t number)
{
	(void)arg;
	size_t len = strlen(late);
	snprintf(late + len, sizeof late - len, "%d ", (int)number);
}

static void on_done(void *arg, const struct transport_reply *reply)
{
	struct outcome *outcome = arg;
	outcome->done++;
	outcome->turn = ++turns;
	outcome->code = reply->code;
	outcome->sent = reply->sent;
	outcome->limit = reply->limit;
	outcome->timeout_ms = reply->timeout_ms;
	outcome->max_timeout_ms = reply->max_timeout_ms;
	snprintf(outcome->message, sizeof outcome->message, "%s", reply->message ? reply->message : "");
	snprintf(outcome->result, sizeof outcome->result, "%.*s", (int)reply->result.len,
		 reply->result.ptr ? reply->result.ptr : "");
	struct span id = pending_wire_id(pending, outcome->number);
	snprintf(outcome->wire_id, sizeof outcome->wire_id, "%.*s", (int)id.len, id.ptr ? id.ptr : "");
	if (outcome->then)
		outcome->then(outcome);
}

static void start(void)
{
	static const struct pending_hooks hooks = { give_up, on_late };
	loop = loop_new();
	pending = pending_new(loop, 30000, &hooks, NULL);
	phase = PENDING_SENT;
	gave_up = turns = 0;
	late[0] = '\0';
}

static void finish(void)
{
	pending_free(pending);
	loop_free(loop);
}

static uint64_t add(enum pending_kind kind, struct outcome *outcome, int64_t timeout_ms)
{
	struct transport_options options = { .timeout_ms = timeout_ms, .done = on_done, .arg = outcome };
	outcome->number = pending_add(pending, kind, &options);
	return outcome->number;
}

static void answer(uint64_t number)
{
	pending_complete(pending, number, &(struct transport_reply){ .result = SPAN_LIT("[1]"), .sent = true });
}

START_TEST(I1_S2_ids_are_own_strings_never_used_twice)
{
	start();
	struct outcome outcomes[300] = { 0 };
	for (int i = 0; i < 300; i++) {
		ck_assert_uint_eq(add(PENDING_REQUEST, &outcomes[i], 0), (uint64_t)i + 1);
		ck_assert_uint_ge(pending_count(pending), 1);
		if (i % 2)
			answer(outcomes[i].number);
	}
	ck_assert_uint_eq(pending_count(pending), 150);
	ck_assert(span_is(pending_wire_id(pending, 299), "\"m-299\""));
	ck_assert_ptr_null(pending_wire_id(pending, 300).ptr);
	ck_assert_uint_eq(pending_find(pending, SPAN_LIT("\"m-299\"")), 299);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-299\"")), 299);
	answer(299);
	ck_assert_str_eq(outcomes[298].result, "[1]");
	ck_assert_str_eq(outcomes[298].wire_id, "\"m-299\"");
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-299\"")), 0);
	answer(299);
	ck_assert_uint_eq(outcomes[298].done, 1);
	pending_fail_all(pending, MCPD_E_TRANSPORT, "Transport closed");
	for (int i = 0; i < 300; i++)
		ck_assert_uint_eq(outcomes[i].done, 1);
	finish();
}
END_TEST

START_TEST(S4_unknown_ids_of_every_kind)
{
	static const char *const ids[] = { "\"m-2\"",
					   "\"m-01\"",
					   "\"m-\"",
					   "\"m-1 \"",
					   "\"M-1\"",
					   "1",
					   "\"1\"",
					   "null",
					   "\"\"",
					   "{}",
					   "\"m-99999999999999999999\"",
					   "\"m--1\"",
					   "\"m-18446744073709551617\"",
					   "\"x-1\"",
					   "\"m-0\"" };
	start();
	struct outcome outcome = { 0 }, notify = { 0 };
	add(PENDING_REQUEST, &outcome, 0);
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
		ck_assert_msg(pending_match(pending, span_of(ids[i])) == 0, "%s", ids[i]);
	ck_assert_uint_eq(pending_match(pending, SPAN_NONE), 0);
	/* The server may write our characters in its own way. */
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"\\u006d-\\u0031\"")), 1);
	/* A notification has no answer. */
	add(PENDING_NOTIFY, &notify, 0);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-2\"")), 0);
	pending_fail_all(pending, MCPD_E_TRANSPORT, "Transport closed");
	finish();
}
END_TEST

START_TEST(C1_C3_timeouts_say_which_clock)
{
	start();
	struct outcome request = { 0 }, notify = { 0 }, none = { 0 }, waited = { 0 }, fast = { 0 };
	int64_t begin = loop_now_ms();
	add(PENDING_REQUEST, &none, 0);
	add(PENDING_REQUEST, &request, 40);
	add(PENDING_NOTIFY, &notify, 30);
	add(PENDING_REQUEST, &fast, 20);
	struct transport_options options = {
		.timeout_ms = 5000, .deadline_ms = loop_now_ms() + 50, .done = on_done, .arg = &waited
	};
	pending_add(pending, PENDING_REQUEST, &options);
	answer(fast.number);
	pending_set_data(pending, request.number, &request);
	loop_wait(loop, request.done && waited.done);
	ck_assert_int_ge(loop_now_ms() - begin, 50);
	ck_assert_str_eq(request.message, "Request timeout after 40ms");
	ck_assert_int_eq(request.code, MCPD_E_TIMEOUT);
	ck_assert_int_eq(request.timeout_ms, 40);
	ck_assert_int_eq(request.max_timeout_ms, 0);
	ck_assert(request.sent);
	ck_assert_str_eq(request.wire_id, "\"m-2\"");
	ck_assert_str_eq(notify.message, "Notify timeout after 30ms");
	ck_assert_str_eq(waited.message, "Request timeout after 5000ms");
	ck_assert_uint_eq(none.done, 0);
	ck_assert_int_eq(fast.code, 0);
	ck_assert_uint_eq(fast.done, 1);
	ck_assert_uint_eq(pending_count(pending), 1);
	answer(none.number);
	finish();
}
END_TEST

START_TEST(C3_the_phase_chooses_the_words)
{
	start();
	struct outcome streaming = { 0 }, unsent = { 0 };
	phase = PENDING_STREAMING;
	add(PENDING_REQUEST, &streaming, 1);
	pending_set_data(pending, streaming.number, &streaming);
	loop_wait(loop, streaming.done);
	ck_assert_str_eq(streaming.message, "SSE response timeout after 1ms");
	ck_assert_ptr_eq(given_data, &streaming);
	phase = PENDING_UNSENT;
	add(PENDING_REQUEST, &unsent, 1);
	loop_wait(loop, unsent.done);
	ck_assert(!unsent.sent);
	finish();
}
END_TEST

START_TEST(R31_progress_moves_the_clock_up_to_its_maximum)
{
	start();
	struct outcome touched = { 0 };
	struct transport_options options = {
		.timeout_ms = 300, .max_timeout_ms = 700, .done = on_done, .arg = &touched
	};
	int64_t begin = loop_now_ms();
	touched.number = pending_add(pending, PENDING_REQUEST, &options);
	while (!touched.done) {
		loop_once(loop, 10);
		pending_touch(pending, touched.number);
		ck_assert_int_lt(loop_now_ms() - begin, LOOP_WAIT_MS);
	}
	ck_assert_int_ge(loop_now_ms() - begin, 700);
	ck_assert_str_eq(touched.message, "Request timeout after 300ms");
	ck_assert_int_eq(touched.timeout_ms, 300);
	ck_assert_int_eq(touched.max_timeout_ms, 700);

	/* Without a maximum progress moves nothing, and never to an earlier time. */
	struct outcome fixed = { 0 };
	add(PENDING_REQUEST, &fixed, 30);
	begin = loop_now_ms();
	while (!fixed.done) {
		pending_touch(pending, fixed.number);
		loop_once(loop, 5);
		ck_assert_int_lt(loop_now_ms() - begin, LOOP_WAIT_MS);
	}
	ck_assert_int_eq(fixed.max_timeout_ms, 0);
	struct outcome far = { 0 };
	begin = loop_now_ms();
	options = (struct transport_options){ .timeout_ms = 1,
					      .deadline_ms = loop_now_ms() + 100,
					      .max_timeout_ms = 1000,
					      .done = on_done,
					      .arg = &far };
	far.number = pending_add(pending, PENDING_REQUEST, &options);
	pending_touch(pending, far.number);
	loop_wait(loop, far.done);
	ck_assert_int_ge(loop_now_ms() - begin, 100);
	finish();
}
END_TEST

START_TEST(a_spoilt_answer_ends_the_request_unless_a_good_one_follows)
{
	start();
	struct outcome spoilt = { 0 }, saved = { 0 }, hasty = { 0 }, endless = { 0 }, cancelled = { 0 };
	add(PENDING_REQUEST, &spoilt, 60000);
	add(PENDING_REQUEST, &saved, 60000);
	add(PENDING_REQUEST, &hasty, 20);
	add(PENDING_REQUEST, &endless, 0);
	add(PENDING_REQUEST, &cancelled, 60000);
	int64_t begin = loop_now_ms();
	struct outcome *all[] = { &spoilt, &saved, &hasty, &endless, &cancelled };
	for (size_t i = 0; i < 5; i++) {
		pending_spoil(pending, all[i]->number, "it was bad");
		pending_spoil(pending, all[i]->number, "and worse");
	}
	pending_spoil(pending, 99, "unknown");
	pending_touch(pending, spoilt.number);
	answer(saved.number);
	pending_cancel(pending, cancelled.number, "no more");
	ck_assert_uint_eq(pending_count(pending), 4);
	loop_wait(loop, pending_count(pending) == 0);
	ck_assert_int_ge(loop_now_ms() - begin, PENDING_SPOILT_MS);
	ck_assert_int_eq(spoilt.code, MCPD_E_PROTOCOL);
	ck_assert_str_eq(spoilt.message, "it was bad");
	ck_assert(spoilt.sent);
	ck_assert_int_eq(endless.code, MCPD_E_PROTOCOL);
	ck_assert_int_eq(saved.code, 0);
	ck_assert_int_eq(hasty.code, MCPD_E_TIMEOUT);
	ck_assert_str_eq(cancelled.message, "no more");
	for (size_t i = 0; i < 5; i++)
		ck_assert_uint_eq(all[i]->done, 1);
	finish();
}
END_TEST

START_TEST(failures_at_once_are_told_later)
{
	start();
	struct outcome failed = { 0 };
	add(PENDING_REQUEST, &failed, 100000);
	char message[] = "it is full";
	struct transport_reply reply = { .code = MCPD_E_LIMIT, .message = message, .limit = LIMIT_SERVER_QUEUE };
	pending_fail(pending, failed.number, &reply);
	message[0] = 'X'; /* it was copied */
	ck_assert_uint_eq(failed.done, 0);
	ck_assert_uint_eq(pending_count(pending), 1);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-1\"")), 0);
	answer(failed.number); /* too late */
	loop_settle(loop);
	ck_assert_uint_eq(failed.done, 1);
	ck_assert_str_eq(failed.message, "it is full");
	ck_assert_int_eq(failed.limit, LIMIT_SERVER_QUEUE);
	ck_assert(!failed.sent);
	ck_assert_uint_eq(gave_up, 0);
	ck_assert_str_eq(late, "");

	struct outcome told = { 0 };
	add(PENDING_NOTIFY, &told, 0);
	pending_succeed(pending, told.number);
	ck_assert_uint_eq(told.done, 0);
	loop_settle(loop);
	ck_assert_int_eq(told.code, 0);
	ck_assert_str_eq(told.result, "{}");
	finish();
}
END_TEST

START_TEST(C4_a_cancel_carries_its_reason)
{
	start();
	struct outcome cancelled = { 0 }, without = { 0 };
	add(PENDING_REQUEST, &cancelled, 0);
	add(PENDING_REQUEST, &without, 0);
	pending_cancel(pending, cancelled.number, "the user pressed Esc");
	pending_cancel(pending, cancelled.number, "again");
	pending_cancel(pending, without.number, NULL);
	pending_cancel(pending, 77, "unknown");
	ck_assert_uint_eq(cancelled.done, 0);
	ck_assert_uint_eq(gave_up, 2);
	loop_settle(loop);
	ck_assert_uint_eq(cancelled.done, 1);
	ck_assert_int_eq(cancelled.code, MCPD_E_CANCELLED);
	ck_assert_str_eq(cancelled.message, "the user pressed Esc");
	ck_assert_str_eq(cancelled.wire_id, "\"m-1\"");
	ck_assert(cancelled.sent);
	ck_assert_str_eq(without.message, "Cancelled");
	finish();
}
END_TEST

START_TEST(C2_late_answers_are_told_once_and_never_before_the_completion)
{
	start();
	struct outcome cancelled = { 0 }, timed_out = { 0 }, early = { 0 };
	add(PENDING_REQUEST, &cancelled, 0);
	add(PENDING_REQUEST, &timed_out, 1);
	add(PENDING_REQUEST, &early, 0);
	pending_cancel(pending, cancelled.number, "no");
	loop_wait(loop, cancelled.done && timed_out.done);
	ck_assert_uint_eq(pending_find(pending, SPAN_LIT("\"m-1\"")), 0);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-1\"")), 0);
	ck_assert_str_eq(late, "1 ");
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-2\"")), 0);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-2\"")), 0);
	ck_assert_str_eq(late, "1 2 ");
	/* Cancelled, and the answer is there before the completion has run. */
	pending_cancel(pending, early.number, "no");
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-3\"")), 0);
	ck_assert_str_eq(late, "1 2 ");
	ck_assert_uint_eq(early.done, 0);
	loop_settle(loop);
	ck_assert_uint_eq(early.done, 1);
	ck_assert_str_eq(late, "1 2 3 ");
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-3\"")), 0);
	ck_assert_str_eq(late, "1 2 3 ");
	finish();
}
END_TEST

START_TEST(tombstones_are_bounded)
{
	start();
	struct outcome outcome = { 0 };
	for (int i = 0; i < PENDING_TOMBSTONES + 5; i++) {
		add(PENDING_REQUEST, &outcome, 0);
		pending_cancel(pending, outcome.number, "no");
	}
	loop_settle(loop);
	ck_assert_uint_eq(outcome.done, PENDING_TOMBSTONES + 5);
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-5\"")), 0);
	ck_assert_str_eq(late, "");
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-6\"")), 0);
	ck_assert_str_eq(late, "6 ");
	finish();
}
END_TEST

static struct outcome follow_up;

static void ask_again(struct outcome *outcome)
{
	(void)outcome;
	add(PENDING_REQUEST, &follow_up, 1);
}

static void fail_again(struct outcome *outcome)
{
	if (outcome->done < 5) {
		struct transport_reply reply = { .code = MCPD_E_TRANSPORT, .message = "again" };
		add(PENDING_REQUEST, outcome, 0);
		pending_fail(pending, outcome->number, &reply);
	}
}

START_TEST(S9_fail_all_in_order_and_completions_may_ask_again)
{
	start();
	struct outcome first = { .then = ask_again }, failed = { 0 }, last = { 0 }, cancelled = { 0 };
	follow_up = (struct outcome){ 0 };
	add(PENDING_REQUEST, &first, 0);
	add(PENDING_REQUEST, &failed, 0);
	add(PENDING_REQUEST, &cancelled, 0);
	add(PENDING_NOTIFY, &last, 0);
	pending_fail(pending, failed.number, &(struct transport_reply){ .code = MCPD_E_LIMIT, .message = "own" });
	pending_cancel(pending, cancelled.number, "own reason");
	pending_fail_all(pending, MCPD_E_TRANSPORT, "Transport closed");
	ck_assert_str_eq(failed.message, "own");
	ck_assert_str_eq(cancelled.message, "own reason");
	ck_assert_str_eq(first.message, "Transport closed");
	ck_assert_str_eq(last.message, "Transport closed");
	ck_assert_uint_eq(failed.turn, 1);
	ck_assert_uint_eq(cancelled.turn, 2);
	ck_assert_uint_eq(first.turn, 3);
	ck_assert_uint_eq(last.turn, 4);
	ck_assert_uint_eq(follow_up.done, 0);
	ck_assert_uint_eq(pending_count(pending), 1);
	/* Tombstones are forgotten. */
	ck_assert_uint_eq(pending_match(pending, SPAN_LIT("\"m-3\"")), 0);
	ck_assert_str_eq(late, "");
	loop_wait(loop, follow_up.done);
	ck_assert_int_eq(follow_up.code, MCPD_E_TIMEOUT);
	finish();
}
END_TEST

START_TEST(a_completion_that_fails_at_once_again_waits_for_the_next_pass)
{
	start();
	struct outcome again = { .then = fail_again };
	add(PENDING_REQUEST, &again, 0);
	pending_fail(pending, again.number, &(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = "first" });
	loop_once(loop, 0);
	ck_assert_uint_eq(again.done, 1);
	loop_once(loop, 0);
	ck_assert_uint_eq(again.done, 2);
	/* What is due when the end comes is not lost. */
	pending_free(pending);
	ck_assert_uint_eq(again.done, 5);
	loop_free(loop);
}
END_TEST

START_TEST(thousands_of_clocks_in_any_order)
{
	enum { N = 5000 };
	start();
	static struct outcome outcomes[N];
	memset(outcomes, 0, sizeof outcomes);
	srand(11);
	for (int i = 0; i < N; i++)
		add(PENDING_REQUEST, &outcomes[i], 1 + rand() % 200);
	for (int i = 0; i < N; i += 3)
		answer(outcomes[i].number);
	loop_wait(loop, pending_count(pending) == 0);
	for (int i = 0; i < N; i++) {
		ck_assert_uint_eq(outcomes[i].done, 1);
		ck_assert_int_eq(outcomes[i].code, i % 3 ? MCPD_E_TIMEOUT : 0);
	}
	finish();
}
END_TEST

int main(void)
{
	return RUN_TESTS("pending", I1_S2_ids_are_own_strings_never_used_twice, S4_unknown_ids_of_every_kind,
			 C1_C3_timeouts_say_which_clock, C3_the_phase_chooses_the_words,
			 R31_progress_moves_the_clock_up_to_its_maximum,
			 a_spoilt_answer_ends_the_request_unless_a_good_one_follows, failures_at_once_are_told_later,
			 C4_a_cancel_carries_its_reason, C2_late_answers_are_told_once_and_never_before_the_completion,
			 tombstones_are_bounded, S9_fail_all_in_order_and_completions_may_ask_again,
			 a_completion_that_fails_at_once_again_waits_for_the_next_pass,
			 thousands_of_clocks_in_any_order);
}

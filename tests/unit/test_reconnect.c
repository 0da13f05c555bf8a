/* manager/reconnect.h: when to try again (contract M5), on a clock of the test's own. */
#include "manager/reconnect.h"
#include "run.h"

static int64_t now_ms;
static struct reconnect r;

static void start(uint64_t seed)
{
	now_ms = 1000000;
	reconnect_init(&r, seed);
}

static void assert_delay(int64_t delay, int64_t plain)
{
	ck_assert_int_ge(delay, plain * 9 / 10);
	ck_assert_int_le(delay, plain * 11 / 10);
}

START_TEST(M5_delays_are_500_1000_2000_4000_then_4000_each)
{
	static const int64_t plain[] = { 500, 1000, 2000, 4000, 4000, 4000, 4000, 4000 };
	for (uint64_t seed = 0; seed < 200; seed++) {
		start(seed);
		for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
			/* Attempts that take their time: the breaker has no say. */
			assert_delay(reconnect_loss(&r, now_ms), plain[i]);
			ck_assert_uint_eq(r.attempt, i + 1);
			now_ms += 10000;
		}
	}
}
END_TEST

START_TEST(M5_delays_have_jitter)
{
	bool differs = false;
	int64_t first = -1;
	for (uint64_t seed = 0; seed < 50; seed++) {
		start(seed);
		int64_t delay = reconnect_loss(&r, now_ms);
		differs |= first >= 0 && delay != first;
		first = delay;
	}
	ck_assert(differs);
}
END_TEST

START_TEST(M5_the_sixth_loss_within_30_s_opens_the_breaker)
{
	start(7);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_ge(reconnect_loss(&r, now_ms), 0);
		now_ms += 6000;
	}
	/* Exactly 30 s after the first. */
	ck_assert_int_eq(reconnect_loss(&r, now_ms), -1);
	ck_assert_uint_eq(r.attempt, 0);
}
END_TEST

START_TEST(M5_losses_older_than_30_s_do_not_count)
{
	start(7);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_ge(reconnect_loss(&r, now_ms), 0);
		now_ms += 6001;
	}
}
END_TEST

START_TEST(M5_connections_in_between_do_not_hide_losses_from_the_breaker)
{
	start(3);
	for (int i = 0; i < 5; i++) {
		assert_delay(reconnect_loss(&r, now_ms), 500);
		reconnect_connected(&r);
		ck_assert_uint_eq(r.attempt, 0);
		now_ms += 600;
	}
	ck_assert_int_eq(reconnect_loss(&r, now_ms), -1);
	/* Still open a moment later, closed again when the losses are old. */
	ck_assert_int_eq(reconnect_loss(&r, now_ms + 1), -1);
	ck_assert_int_ge(reconnect_loss(&r, now_ms + 60000), 0);
}
END_TEST

START_TEST(M5_by_hand_all_is_forgotten)
{
	start(3);
	for (int i = 0; i < 6; i++)
		reconnect_loss(&r, now_ms);
	reconnect_reset(&r);
	for (int i = 0; i < 5; i++)
		ck_assert_int_ge(reconnect_loss(&r, now_ms), 0);
	ck_assert_int_eq(reconnect_loss(&r, now_ms), -1);
}
END_TEST

START_TEST(H11_delays_of_the_listener_grow_to_their_own_maximum)
{
	start(9);
	assert_delay(reconnect_delay(&r, 1, 30000), 500);
	assert_delay(reconnect_delay(&r, 6, 30000), 16000);
	assert_delay(reconnect_delay(&r, 7, 30000), 30000);
	assert_delay(reconnect_delay(&r, 4000000000u, 30000), 30000);
}
END_TEST

int main(void)
{
	return RUN_TESTS("reconnect", M5_delays_are_500_1000_2000_4000_then_4000_each, M5_delays_have_jitter,
			 M5_the_sixth_loss_within_30_s_opens_the_breaker, M5_losses_older_than_30_s_do_not_count,
			 M5_connections_in_between_do_not_hide_losses_from_the_breaker, M5_by_hand_all_is_forgotten,
			 H11_delays_of_the_listener_grow_to_their_own_maximum);
}

#include "manager/reconnect.h"

#include <string.h>

void reconnect_init(struct reconnect *r, uint64_t seed)
{
	memset(r, 0, sizeof *r);
	r->random = seed * 0x9e3779b97f4a7c15u | 1;
}

static uint64_t next_random(struct reconnect *r)
{
	r->random ^= r->random >> 12;
	r->random ^= r->random << 25;
	r->random ^= r->random >> 27;
	return r->random * 0x2545f4914f6cdd1du >> 32;
}

int64_t reconnect_delay(struct reconnect *r, unsigned attempt, int64_t max_ms)
{
	int64_t delay = RECONNECT_DELAY_MIN_MS;
	for (unsigned i = 1; i < attempt && delay < max_ms; i++)
		delay *= 2;
	if (delay > max_ms)
		delay = max_ms;
	return delay * (900 + (int64_t)(next_random(r) % 201)) / 1000;
}

int64_t reconnect_loss(struct reconnect *r, int64_t now_ms)
{
	if (r->n_losses == RECONNECT_LOSSES + 1)
		memmove(r->losses, r->losses + 1, RECONNECT_LOSSES * sizeof r->losses[0]);
	else
		r->n_losses++;
	r->losses[r->n_losses - 1] = now_ms;
	if (r->n_losses == RECONNECT_LOSSES + 1 && now_ms - r->losses[0] <= RECONNECT_WINDOW_MS) {
		r->attempt = 0;
		return -1;
	}
	return reconnect_delay(r, ++r->attempt, RECONNECT_DELAY_MAX_MS);
}

void reconnect_connected(struct reconnect *r)
{
	r->attempt = 0;
}

void reconnect_reset(struct reconnect *r)
{
	r->attempt = 0;
	r->n_losses = 0;
}

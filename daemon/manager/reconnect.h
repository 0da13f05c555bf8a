/*
 * When to try again (contract M5), without clock or I/O: the caller says what time it is.
 *
 * After a loss - a connection that ended, or an attempt that failed - the next attempt follows after 500, 1000, 2000,
 * 4000 ms, then 4000 ms each, with jitter. More than RECONNECT_LOSSES losses within RECONNECT_WINDOW_MS open the
 * breaker: no attempt by itself any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RECONNECT_LOSSES 5
#define RECONNECT_WINDOW_MS 30000
#define RECONNECT_DELAY_MIN_MS 500
#define RECONNECT_DELAY_MAX_MS 4000

struct reconnect {
	unsigned attempt; /* of the attempts since the last connection, the number of the coming one; 0: none */
	unsigned n_losses;
	int64_t losses[RECONNECT_LOSSES + 1]; /* the last ones, oldest first */
	uint64_t random;
};

/* seed: for the jitter; any number. */
void reconnect_init(struct reconnect *r, uint64_t seed);
/* Milliseconds until the next attempt, or -1: the breaker is open. */
int64_t reconnect_loss(struct reconnect *r, int64_t now_ms);
/* A connection is there: delays start anew; losses still count. */
void reconnect_connected(struct reconnect *r);
/* Asked for by hand, or by a change of the configuration: all is forgotten. */
void reconnect_reset(struct reconnect *r);
/* The delay before attempt number 1, 2, ..: doubled each time up to max_ms, +-10 %, never below 90 % of the plain
 * value. */
int64_t reconnect_delay(struct reconnect *r, unsigned attempt, int64_t max_ms);

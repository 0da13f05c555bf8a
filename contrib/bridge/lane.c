#include "lane.h"

#include <string.h>

void lane_init(struct lane *lane)
{
	lane->head = lane->sent = lane->ready = lane->end = lane->searched = 0;
	lane->base = 0;
	lane->streaming = lane->last_seen = lane->dropping = false;
}

/* Moves what is needed to the front. */
static void compact(struct lane *lane)
{
	if (lane->head == 0)
		return;
	memmove(lane->data, lane->data + lane->head, lane->end - lane->head);
	lane->base += lane->head;
	lane->sent -= lane->head;
	lane->ready -= lane->head;
	lane->end -= lane->head;
	lane->searched -= lane->head;
	lane->head = 0;
}

size_t lane_room(struct lane *lane, char **ret_at)
{
	/* Not for every few bytes: what is moved is then at most as much as what has left. */
	if (lane->head == lane->end ||
	    (lane->end == LANE_BYTES && (lane->head >= LANE_BYTES / 2 || lane->sent == lane->ready)))
		compact(lane);
	*ret_at = lane->data + lane->end;
	return LANE_BYTES - lane->end;
}

void lane_filled(struct lane *lane, size_t len)
{
	lane->end += len;
}

bool lane_finish(struct lane *lane)
{
	bool partial =
		lane->end > lane->ready ? lane->data[lane->end - 1] != '\n' : lane->streaming && !lane->last_seen;
	if (!partial)
		return true;
	compact(lane);
	if (lane->end == LANE_BYTES)
		return false;
	lane->data[lane->end++] = '\n';
	return true;
}

/* Takes the part between ready and `to` out of the buffer. */
static void take_out(struct lane *lane, size_t to)
{
	memmove(lane->data + lane->ready, lane->data + to, lane->end - to);
	lane->end -= to - lane->ready;
	lane->searched = lane->ready;
}

/* Has the part up to `to` looked at. False if it must wait. */
static bool examine_part(struct lane *lane, size_t to, bool last, lane_fn *fn, void *arg)
{
	struct lane_part part = {
		.text = { lane->data + lane->ready, to - lane->ready },
		.first = !lane->streaming,
		.last = last,
		.dropped = lane->dropping,
		.end = lane->base + to,
	};
	bool whole = part.first && part.last;
	enum lane_verdict verdict = fn(arg, &part);
	if (verdict == LANE_WAIT && whole)
		return false;
	bool drop = verdict == LANE_DROP || lane->dropping;
	if (drop)
		take_out(lane, to);
	else
		lane->ready = lane->searched = to;
	/* A line that was dropped to its end is over. */
	lane->streaming = !whole && !(drop && last);
	lane->last_seen = lane->streaming && last;
	lane->dropping = drop && !last;
	return true;
}

void lane_examine(struct lane *lane, lane_fn *fn, void *arg)
{
	/* The end of a streamed line leaves before others are looked at: so there is but one boundary to remember. */
	while (!(lane->streaming && lane->last_seen)) {
		size_t from = lane->searched > lane->ready ? lane->searched : lane->ready;
		const char *newline = memchr(lane->data + from, '\n', lane->end - from);
		bool full = lane->end == LANE_BYTES && lane->ready == 0;
		lane->searched = lane->end;
		if (newline) {
			if (!examine_part(lane, (size_t)(newline - lane->data) + 1, true, fn, arg)) {
				lane->searched = lane->ready;
				return;
			}
		} else if (lane->end > lane->ready && (lane->streaming || full)) {
			examine_part(lane, lane->end, false, fn, arg);
		} else {
			return;
		}
	}
}

/* Where the line at `at` ends, or ready. */
static size_t line_end(const struct lane *lane, size_t at)
{
	const char *newline = memchr(lane->data + at, '\n', lane->ready - at);
	return newline ? (size_t)(newline - lane->data) + 1 : lane->ready;
}

struct span lane_pending(const struct lane *lane, bool one_line)
{
	size_t to = one_line ? line_end(lane, lane->sent) : lane->ready;
	return (struct span){ lane->data + lane->sent, to - lane->sent };
}

void lane_wrote(struct lane *lane, size_t len)
{
	lane->sent += len;
	if (lane->streaming) {
		lane->head = lane->sent;
		if (lane->last_seen && lane->sent == lane->ready)
			lane->streaming = lane->last_seen = false;
		return;
	}
	for (size_t next; lane->head < lane->sent && (next = line_end(lane, lane->head)) <= lane->sent;)
		lane->head = next;
}

bool lane_at_boundary(const struct lane *lane)
{
	return !lane->streaming && lane->sent == lane->head;
}

uint64_t lane_forwarded(const struct lane *lane)
{
	return lane->base + lane->sent;
}

bool lane_is_empty(const struct lane *lane)
{
	return lane->sent == lane->end && !lane->streaming;
}

enum lane_torn lane_rewind(struct lane *lane)
{
	bool torn = lane->streaming, last = lane->last_seen;
	if (torn) {
		/* What was ready of it is not worth writing any more. */
		size_t to = lane->ready;
		lane->ready = lane->sent;
		take_out(lane, to);
		lane->streaming = !last;
		lane->dropping = !last;
		lane->last_seen = false;
	}
	lane->sent = lane->ready = lane->searched = lane->head;
	return !torn ? LANE_WHOLE : last ? LANE_TORN_LAST : LANE_TORN;
}

bool lane_cut(struct lane *lane)
{
	bool torn = lane->streaming && !lane->dropping;
	lane_init(lane);
	return torn;
}

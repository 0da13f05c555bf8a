/*
 * One direction of the bridge: bytes on their way from one descriptor to another, in a buffer of fixed size, line by line.
 *
 * A line that fits is held back until it is whole, so that none is torn when the daemon goes: what was not wholly written can be written anew, or was never
 * begun. A longer line is streamed: its parts go on as they come. Who looks at the lines says what becomes of each.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/span.h"

#define LANE_BYTES ((size_t)65536)

enum lane_verdict {
	LANE_FORWARD,
	LANE_DROP, /* of a streamed line: the rest of it, too */
	LANE_WAIT, /* not now; only for whole lines */
};

/* A whole line (first and last), or a part of a streamed one; the line end is included. */
struct lane_part {
	struct span text;
	bool first, last;
	bool dropped; /* of a streamed line: its parts go nowhere any more, whatever is said of this one */
	uint64_t end; /* where it ends among all bytes that are forwarded, if it is */
};

typedef enum lane_verdict lane_fn(void *arg, const struct lane_part *part);

struct lane {
	char data[LANE_BYTES];
	/* 0 <= head <= sent <= ready <= end */
	size_t head;     /* what may still be needed: the beginning of the first line that is not wholly written */
	size_t sent;     /* written up to here */
	size_t ready;    /* looked at, and to be written, up to here */
	size_t end;      /* read up to here */
	size_t searched; /* no line end between ready and here */
	uint64_t base;   /* bytes that have left the buffer forwards */
	bool streaming;  /* the line at head is streamed */
	bool last_seen;  /* its end has been looked at */
	bool dropping;   /* what is left of it goes nowhere */
};

void lane_init(struct lane *lane);
/* Room for bytes to be read to; 0 while it is full. */
size_t lane_room(struct lane *lane, char **ret_at);
/* That many bytes were read. */
void lane_filled(struct lane *lane, size_t len);
/* The source has ended: a last line without a line end gets one. False if there is no room for it yet: ask again. */
bool lane_finish(struct lane *lane);
/* Has lines looked at, as many as are there and can be. */
void lane_examine(struct lane *lane, lane_fn *fn, void *arg);
/* What is to be written; one_line: up to the end of the current line only. */
struct span lane_pending(const struct lane *lane, bool one_line);
/* That many bytes of it were written. */
void lane_wrote(struct lane *lane, size_t len);
/* Whether all that was written is whole lines, so that others may go in between. */
bool lane_at_boundary(const struct lane *lane);
/* Bytes that were forwarded: to be compared with a part's end. */
uint64_t lane_forwarded(const struct lane *lane);
/* Nothing is left in it. */
bool lane_is_empty(const struct lane *lane);

enum lane_torn {
	LANE_WHOLE,     /* no line was torn */
	LANE_TORN,      /* the rest of a streamed line is still to come, and is looked at as `dropped` */
	LANE_TORN_LAST, /* the line's last part has been looked at, and was not wholly written */
};
/* The target has gone: lines that were not wholly written will be looked at and written once more, to another. */
enum lane_torn lane_rewind(struct lane *lane);
/* The source has gone, and what was ready is written: forgets the rest. True if a line was torn in the middle. */
bool lane_cut(struct lane *lane);

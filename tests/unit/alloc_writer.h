/* Functions that write into a struct buf, with every allocation failed once (alloc_fail.h). */
#pragma once

#include <check.h>
#include <errno.h>

#include "alloc_fail.h"
#include "proto/buf.h"

/* Each failure is the buffer's, whatever else the function allocates, and leaves nothing behind; without one nothing is missing. At least that
 * many fail. */
static inline void fail_each_of_writer(void (*write)(struct buf *out), unsigned least)
{
	struct buf whole = BUF_INIT;
	write(&whole);
	ck_assert(!buf_failed(&whole));
	bool failed = true;
	unsigned nth = 0;
	while (failed) {
		struct buf out = BUF_INIT;
		long live, freed;
		alloc_watch(++nth);
		write(&out);
		failed = alloc_done(&live);
		ck_assert_int_eq(out.error, failed ? -ENOMEM : 0);
		ck_assert(failed || span_equal(buf_span(&out), buf_span(&whole)));
		alloc_watch(0);
		buf_done(&out);
		alloc_done(&freed);
		ck_assert_int_eq(live + freed, 0);
	}
	ck_assert_uint_gt(nth, least);
	buf_done(&whole);
}

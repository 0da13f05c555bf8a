/*
 * A descriptor with lines coming in and bytes going out, on raw libevent events (PITFALLS "libevent": bufferevents spin
 * on long lines).
 *
 * Reading: lines by proto/framer.h, about 64 KiB read and at most 64 lines, 64 KiB or a millisecond's worth handed out per pass, so that one
 * busy peer cannot starve the rest; what is left is handed out in the next pass. Reading can be paused (backpressure).
 * Writing: tried at once; what the kernel does not take is queued up to max_queue bytes and goes out as the descriptor
 * allows, at most 64 KiB per pass. A frame that was accepted is always finished or lost with the stream as a whole
 * (contract S14). Ownership: the stream owns its descriptors and closes them. stream_close() is idempotent, calls
 * nothing back and is allowed in every callback; memory is freed through the loop's graveyard. Nothing is called back
 * after it. One stream may have a reading descriptor, a writing one, both, or one for both (a socket).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "proto/buf.h"
#include "proto/span.h"

struct stream;

/* Any may be NULL. None is called inside a function of this header, but for stream_drain(). */
struct stream_callbacks {
	/* One line, without its newline; valid during the call. unterminated: the last line of a stream that ended
	 * without one. */
	void (*on_line)(void *arg, struct span line, bool unterminated);
	/* A line over the limit is being skipped; `start` are its first max_line bytes (contract S7a). */
	void (*on_too_long)(void *arg, struct span start);
	/* The peer ended its sending side (error 0), or reading failed (a negative errno). Once; all lines were
	 * delivered before. The stream can still write. */
	void (*on_end)(void *arg, int error);
	/* Writing failed (-EPIPE and the like), or the peer hung up for good (a socket closed on both sides; noticed
	 * also after on_end and while reading is paused). Once. Nothing more is written. */
	void (*on_broken)(void *arg, int error);
	/* Queued bytes have gone out; stream_written() says how far. */
	void (*on_written)(void *arg);
	/* The queue has become empty after it was not. */
	void (*on_drained)(void *arg);
};

struct stream_options {
	size_t max_line;  /* bytes */
	size_t max_queue; /* bytes unsent; stream_write() past it is -ENOBUFS */
};

/* read_fd and write_fd may be the same (a socket) or -1 for none. Sets them non-blocking and close-on-exec. Reading
 * starts at once; no callback runs inside. Never NULL. */
struct stream *stream_new(struct loop *loop, int read_fd, int write_fd, const struct stream_options *options,
			  const struct stream_callbacks *callbacks, void *arg);
/* 0; -ENOBUFS if the queue would pass its maximum (nothing is taken); -EPIPE if writing has ended or fails; -ENOMEM.
 * An idle queue always takes one frame of up to max_line, whatever max_queue says. */
int stream_write(struct stream *stream, struct span bytes);
/* Bytes accepted but unsent. */
size_t stream_queued(const struct stream *stream);
/* Bytes read so far, whether or not they were handed out. */
uint64_t stream_received(const struct stream *stream);
/* Bytes accepted so far, and bytes that the kernel has taken of them: a frame that was accepted at offset `a` is
 * wholly unsent as long as stream_written() <= a. These stay valid after stream_close(), until the pass is over. */
uint64_t stream_accepted(const struct stream *stream);
uint64_t stream_written(const struct stream *stream);
/* Of a socket: what the kernel has taken and the peer has not read, in the kernel's own measure, which grows with each
 * write and shrinks as the peer reads (SIOCOUTQ, unix(7)). 0 of others. */
size_t stream_unread(const struct stream *stream);
void stream_pause(struct stream *stream, bool paused);
/* Reads and hands out what is there now, without a budget but at most max_bytes: for the rest of a peer that is
 * known to be dead. on_end comes from here if the end is reached; the caller may find the stream closed by a
 * callback. */
void stream_drain(struct stream *stream, size_t max_bytes);
/* Ends writing once the queue is empty: closes write_fd (or shuts down the sending side of a socket). Used to tell a
 * child that no more comes. */
void stream_finish_writing(struct stream *stream);
/* Forgets the queued frames of which no byte has gone out: for those whose askers have been told that they were not
 * sent. */
void stream_drop_unsent(struct stream *stream);
/* Hands everything read but not yet delivered to out (used when a connection changes its dialect). 0, or a negative
 * errno and nothing is taken. */
int stream_take_unread(struct stream *stream, struct buf *out);
void stream_close(struct stream *stream);

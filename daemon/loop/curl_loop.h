/*
 * libcurl's multi interface in the event loop (PITFALLS "libcurl multi"): its sockets and its timer are events of the
 * loop.
 *
 * Nothing of ours runs inside libcurl: what its callbacks bring is noted and handed out by tasks (loop/transfer.h),
 * so that no caller ever meets "called recursively". One curl_loop serves all servers: connections are kept and
 * shared as libcurl does it.
 *
 * The daemon makes it once with curl_loop_new() and hands it around; the rest of this header is for loop/transfer.c.
 */
#pragma once

#include <stdint.h>

#include "loop/loop.h"

struct curl_loop;

struct curl_loop *curl_loop_new(struct loop *loop);
/* Every transfer must have been closed and a pass have gone by. NULL is fine. */
void curl_loop_free(struct curl_loop *cl);
struct loop *curl_loop_loop(const struct curl_loop *cl);
/* Fails every transfer under way and starts afresh: what is left to do when libcurl says that its state is undefined. */
void curl_loop_reset(struct curl_loop *cl);

/* The end of a transfer: a CURLcode. Runs inside the curl_loop: it notes and calls nobody. */
typedef void curl_loop_done_fn(void *arg, int curl_code);
/* Starts an easy handle (a CURL *) and watches it until done or curl_loop_remove(). A number, never 0; 0 if libcurl
 * refuses. */
uint64_t curl_loop_add(struct curl_loop *cl, void *easy, curl_loop_done_fn *done, void *arg);
/* Stops it if it is still under way; the handle may be cleaned up afterwards. Unknown numbers are ignored. */
void curl_loop_remove(struct curl_loop *cl, uint64_t number);

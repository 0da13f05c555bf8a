/*
 * The questions of a server that wait for an answer from above: its requests (legacy, S5) and its input requests
 * (modern). Numbers are never reused, so that a late or second answer misses.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/span.h"

#define QUESTIONS_MAX 1024 /* of one server */

struct server_question {
	uint64_t number;
	char *id;      /* of the server's request, JSON as written; NULL for an input request */
	uint64_t call; /* an input request: the call it belongs to */
	size_t index;  /* and which of its round */
	struct server_question *next;
};

struct server_questions {
	struct server_question *first;
	size_t n;
	uint64_t last_number;
};

void server_questions_done(struct server_questions *questions);
/* 0 with *ret; -EEXIST if a question with that id is open, -ENOBUFS at the maximum, -ENOMEM. */
int server_questions_add_request(struct server_questions *questions, struct span id, struct server_question **ret);
int server_questions_add_input(struct server_questions *questions, uint64_t call, size_t index,
			       struct server_question **ret);
struct server_question *server_questions_find(const struct server_questions *questions, uint64_t number);
struct server_question *server_questions_find_id(const struct server_questions *questions, struct span id);
/* Any open question of that call, or NULL. */
struct server_question *server_questions_find_call(const struct server_questions *questions, uint64_t call);
/* Takes it out and frees it. */
void server_questions_remove(struct server_questions *questions, struct server_question *question);

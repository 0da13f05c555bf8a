#include "mcp/server_questions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/jsonrpc.h"
#include "xalloc.h"

void server_questions_done(struct server_questions *questions)
{
	while (questions->first)
		server_questions_remove(questions, questions->first);
}

static int add(struct server_questions *questions, char *id, struct server_question **ret)
{
	struct server_question *question = xnew(struct server_question);
	question->number = ++questions->last_number;
	question->id = id;
	question->next = questions->first;
	questions->first = question;
	questions->n++;
	*ret = question;
	return 0;
}

int server_questions_add_request(struct server_questions *questions, struct span id, struct server_question **ret)
{
	if (server_questions_find_id(questions, id))
		return -EEXIST;
	if (questions->n >= QUESTIONS_MAX)
		return -ENOBUFS;
	char *copy = malloc(id.len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, id.ptr, id.len);
	copy[id.len] = '\0';
	return add(questions, copy, ret);
}

int server_questions_add_input(struct server_questions *questions, uint64_t call, size_t index,
			       struct server_question **ret)
{
	if (questions->n >= QUESTIONS_MAX)
		return -ENOBUFS;
	int r = add(questions, NULL, ret);
	(*ret)->call = call;
	(*ret)->index = index;
	return r;
}

struct server_question *server_questions_find(const struct server_questions *questions, uint64_t number)
{
	struct server_question *question = questions->first;
	while (question && question->number != number)
		question = question->next;
	return question;
}

struct server_question *server_questions_find_id(const struct server_questions *questions, struct span id)
{
	struct server_question *question = questions->first;
	while (question && !(question->id && jsonrpc_ids_equal(span_of(question->id), id)))
		question = question->next;
	return question;
}

struct server_question *server_questions_find_call(const struct server_questions *questions, uint64_t call)
{
	struct server_question *question = questions->first;
	while (question && !(question->id == NULL && question->call == call))
		question = question->next;
	return question;
}

void server_questions_remove(struct server_questions *questions, struct server_question *question)
{
	struct server_question **link = &questions->first;
	while (*link != question)
		link = &(*link)->next;
	*link = question->next;
	questions->n--;
	free(question->id);
	free(question);
}

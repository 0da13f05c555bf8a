/*
 * Questions of servers to a client, as either dialect tells them: requests of the daemon's own, with ids of one form,
 * so that an answer says at once whether it can be to one of them (PROTOCOL "Requests from the daemon").
 */
#pragma once

#include <stdint.h>

#include "ipc/session.h"
#include "proto/jsonrpc.h"

/* Asks the client. params may be absent. */
void asking_ask(struct session *session, uint64_t question, struct span method, struct span params);
/* The client need not answer any more. reason: plain text. */
void asking_withdraw(struct session *session, uint64_t question, const char *reason);
/* An answer, JSONRPC_RESULT or JSONRPC_ERROR, goes to its question, if it has one that was put to this client (R24). */
void asking_answer(struct session *session, const struct jsonrpc_message *answer);
/* A message that has the form of an answer and is none still ends its question, which nobody else will. */
void asking_bad_answer(struct session *session, struct jsonrpc_message *answer);

/*
 * The control dialect (PROTOCOL "Control dialect"): lines of a session become requests, are checked against
 * proto/methods.h and handed to the functions of control_*.c; answers to the daemon's own requests find their question.
 */
#pragma once

#include "ipc/session.h"

extern const struct dialect control_dialect;

struct control;
/* The state to make a session of the control dialect with. */
struct control *control_new(void);

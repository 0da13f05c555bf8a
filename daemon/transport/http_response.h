/* Reading the response of an exchange: JSON, event streams and their resumption, refusals (contract H2 to H4a, H9,
 * H10). For transport/http*.c only. */
#pragma once

#include "loop/transfer.h"

struct exchange;

/* For a POST's transfer; arg is the exchange. */
extern const struct transfer_callbacks http_response_callbacks;
/* The exchange's timer has run out; arg is the exchange. */
void http_response_timer(void *arg);

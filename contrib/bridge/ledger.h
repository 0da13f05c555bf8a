/*
 * What the bridge must know to get over a restart of the daemon: the requests that are in flight, by id, in both directions, and what the client has set up by
 * them: the handshake, its log level, its subscriptions. Of payloads nothing is kept.
 *
 * Bounded: past LEDGER_FULL_BYTES the client's requests wait until others are answered; what comes from the daemon is then not noted down.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"

/* No whole request is taken past this; what was already on its way may pass it by a few KiB. */
#define LEDGER_FULL_BYTES ((size_t)256 << 10)

enum entry_kind {
	ENTRY_REQUEST,    /* of the client: answered with an error when the daemon goes */
	ENTRY_INITIALIZE, /* and ENTRY_DISCOVER: asked again, since they change nothing */
	ENTRY_DISCOVER,
	ENTRY_LISTEN,    /* subscriptions/listen: asked again, it goes on */
	ENTRY_SET_LEVEL, /* as ENTRY_REQUEST; kept once answered */
	ENTRY_SUBSCRIBE,
	ENTRY_UNSUBSCRIBE,
	ENTRY_REPLAY, /* of the bridge itself: its answer is for nobody */
	ENTRY_REPLAY_INITIALIZE,
	ENTRY_QUESTION, /* of the daemon to the client: withdrawn when the daemon goes */
	ENTRY_STALE,    /* a question that was withdrawn so: an answer that still comes is for nobody */
};

struct entry {
	struct entry *next;
	enum entry_kind kind;
	uint64_t end;      /* where its line ends among the bytes forwarded to the daemon */
	bool torn;         /* of its line only a part was forwarded */
	bool asked_again;  /* on this connection, by us */
	bool ended;        /* LISTEN: by the daemon, which the client has not been told */
	bool acknowledged; /* LISTEN: the client knows that it is open */
	size_t id_len, text_len;
	/* The id as written, then the text: for kinds that are asked again the line without its end, else the URI or level. */
	char bytes[];
};

struct subscription {
	struct subscription *next;
	bool asked_again; /* as in struct entry */
	size_t len;
	char uri[]; /* JSON string */
};

struct ledger {
	struct entry *asked, **asked_end;         /* of the client and of ourselves, oldest first */
	struct entry *questions, **questions_end; /* of the daemon */
	size_t bytes;
	uint64_t last_replay; /* for ids of our own */
	/* the handshake of a legacy client */
	struct buf initialize;    /* its params, once it was answered; empty: there was none */
	bool initialize_lost;     /* it was answered, but too long to be kept */
	bool initialized;         /* notifications/initialized was sent */
	uint64_t initialized_end; /* where its line ends */
	bool tools_change, prompts_change, resources_change; /* announced as listChanged */
	struct buf level;                                    /* of logging/setLevel, JSON; empty: none */
	struct subscription *subscriptions;
};

void ledger_init(struct ledger *ledger);
void ledger_done(struct ledger *ledger);
static inline bool ledger_is_full(const struct ledger *ledger)
{
	return ledger->bytes >= LEDGER_FULL_BYTES;
}

static inline struct span entry_id(const struct entry *entry)
{
	return (struct span){ entry->bytes, entry->id_len };
}
static inline struct span entry_text(const struct entry *entry)
{
	return (struct span){ entry->bytes + entry->id_len, entry->text_len };
}

/* Notes a request of the client or of ours. text may be absent. NULL: no memory. */
struct entry *ledger_ask(struct ledger *ledger, enum entry_kind kind, struct span id, struct span text, uint64_t end);
/* The request of that id, or NULL. */
struct entry *ledger_find(const struct ledger *ledger, struct span id);
/* Takes a request out and frees it. */
void ledger_forget(struct ledger *ledger, struct entry *entry);
/* Whether the daemon owes the client an answer, subscriptions apart. */
bool ledger_answers_due(const struct ledger *ledger);

/* Notes a question of the daemon, unless the ledger is full. */
void ledger_question(struct ledger *ledger, struct span id);
/* It was withdrawn. */
void ledger_question_over(struct ledger *ledger, struct span id);
/* The client answers: true if that is for nobody. */
bool ledger_question_answered(struct ledger *ledger, struct span id);

/* The daemon's answer to a request has come: what it set up is kept (or undone), the entry is freed. done: with a result. */
void ledger_answered(struct ledger *ledger, struct entry *entry, bool done);
/* The connection has ended after that many bytes were forwarded. A line that was not wholly sent will be looked at again, and is forgotten, but for one that
 * was torn: its requests are answered. Our own requests are forgotten too. */
void ledger_lost(struct ledger *ledger, uint64_t forwarded, bool torn);
/* Whether a request is asked again on the next connection, rather than answered with an error. */
static inline bool entry_is_asked_again(const struct entry *entry)
{
	return entry->kind >= ENTRY_INITIALIZE && entry->kind <= ENTRY_LISTEN && entry->text_len && !entry->torn;
}
/* The next request that is to be answered with an error, or NULL. */
struct entry *ledger_next_unanswered(const struct ledger *ledger);
/* The next question to be withdrawn; it is ENTRY_STALE from then on. NULL: none. */
struct entry *ledger_next_withdrawn(struct ledger *ledger);
/* The next of those that have not been asked again on this connection, which they count as from now on. NULL: none. */
struct entry *ledger_next_again(const struct ledger *ledger);
struct subscription *ledger_next_subscription(const struct ledger *ledger);

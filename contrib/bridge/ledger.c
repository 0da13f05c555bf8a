#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include "proto/jsonrpc.h"

void ledger_init(struct ledger *ledger)
{
	*ledger = (struct ledger){ 0 };
	ledger->asked_end = &ledger->asked;
	ledger->questions_end = &ledger->questions;
}

static void free_entries(struct entry *entry)
{
	while (entry) {
		struct entry *next = entry->next;
		free(entry);
		entry = next;
	}
}

void ledger_done(struct ledger *ledger)
{
	free_entries(ledger->asked);
	free_entries(ledger->questions);
	for (struct subscription *s = ledger->subscriptions, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	buf_done(&ledger->initialize);
	buf_done(&ledger->level);
	ledger_init(ledger);
}

static size_t entry_bytes(const struct entry *entry)
{
	return sizeof *entry + entry->id_len + entry->text_len;
}

static struct entry *add(struct ledger *ledger, struct entry ***end, enum entry_kind kind, struct span id,
			 struct span text)
{
	struct entry *entry = calloc(1, sizeof *entry + id.len + text.len);
	if (!entry)
		return NULL;
	entry->kind = kind;
	entry->id_len = id.len;
	entry->text_len = text.len;
	memcpy(entry->bytes, id.ptr, id.len);
	if (text.len)
		memcpy(entry->bytes + id.len, text.ptr, text.len);
	**end = entry;
	*end = &entry->next;
	ledger->bytes += entry_bytes(entry);
	return entry;
}

static struct entry *find(struct entry *entry, struct span id)
{
	while (entry && !jsonrpc_ids_equal(entry_id(entry), id))
		entry = entry->next;
	return entry;
}

/* Takes an entry out of its list and frees it. */
static void drop(struct ledger *ledger, struct entry **list, struct entry ***end, struct entry *entry)
{
	while (*list != entry)
		list = &(*list)->next;
	*list = entry->next;
	if (!*list)
		*end = list;
	ledger->bytes -= entry_bytes(entry);
	free(entry);
}

struct entry *ledger_ask(struct ledger *ledger, enum entry_kind kind, struct span id, struct span text, uint64_t end)
{
	struct entry *entry = add(ledger, &ledger->asked_end, kind, id, text);
	if (entry)
		entry->end = end;
	return entry;
}

struct entry *ledger_find(const struct ledger *ledger, struct span id)
{
	return find(ledger->asked, id);
}

void ledger_forget(struct ledger *ledger, struct entry *entry)
{
	drop(ledger, &ledger->asked, &ledger->asked_end, entry);
}

bool ledger_answers_due(const struct ledger *ledger)
{
	for (const struct entry *entry = ledger->asked; entry; entry = entry->next)
		if (entry->kind != ENTRY_LISTEN && entry->kind < ENTRY_REPLAY)
			return true;
	return false;
}

static void question_drop(struct ledger *ledger, struct entry *entry)
{
	drop(ledger, &ledger->questions, &ledger->questions_end, entry);
}

void ledger_question(struct ledger *ledger, struct span id)
{
	/* An id that is used again is the new question's. */
	ledger_question_over(ledger, id);
	if (!ledger_is_full(ledger))
		add(ledger, &ledger->questions_end, ENTRY_QUESTION, id, SPAN_NONE);
}

void ledger_question_over(struct ledger *ledger, struct span id)
{
	struct entry *entry = find(ledger->questions, id);
	if (entry)
		question_drop(ledger, entry);
}

bool ledger_question_answered(struct ledger *ledger, struct span id)
{
	struct entry *entry = find(ledger->questions, id);
	bool stale = entry && entry->kind == ENTRY_STALE;
	if (entry)
		question_drop(ledger, entry);
	return stale;
}

static void unsubscribe(struct ledger *ledger, struct span uri)
{
	struct subscription **at = &ledger->subscriptions;
	while (*at && !json_strings_equal((struct span){ (*at)->uri, (*at)->len }, uri))
		at = &(*at)->next;
	struct subscription *gone = *at;
	if (!gone)
		return;
	*at = gone->next;
	ledger->bytes -= sizeof *gone + gone->len;
	free(gone);
}

/* Without memory, or past the bound, it does not survive a restart: the daemon's own limit is lower. */
static void subscribe(struct ledger *ledger, struct span uri)
{
	unsubscribe(ledger, uri);
	struct subscription *s = ledger_is_full(ledger) ? NULL : malloc(sizeof *s + uri.len);
	if (!s)
		return;
	s->asked_again = true;
	s->len = uri.len;
	memcpy(s->uri, uri.ptr, uri.len);
	s->next = ledger->subscriptions;
	ledger->subscriptions = s;
	ledger->bytes += sizeof *s + uri.len;
}

static void keep_initialize(struct ledger *ledger, struct span line)
{
	struct jsonrpc_message message;
	buf_reset(&ledger->initialize);
	if (line.len && jsonrpc_parse(line, &message, NULL) == 0)
		buf_add_span(&ledger->initialize, message.params);
	ledger->initialize_lost = buf_failed(&ledger->initialize) || ledger->initialize.len == 0;
}

void ledger_answered(struct ledger *ledger, struct entry *entry, bool done)
{
	struct span text = entry_text(entry);
	if (done && entry->kind == ENTRY_INITIALIZE) {
		keep_initialize(ledger, text);
	} else if (done && entry->kind == ENTRY_SET_LEVEL && text.len) {
		buf_reset(&ledger->level);
		buf_add_span(&ledger->level, text);
	} else if (done && entry->kind == ENTRY_SUBSCRIBE && text.len) {
		subscribe(ledger, text);
	} else if (done && entry->kind == ENTRY_UNSUBSCRIBE && text.len) {
		unsubscribe(ledger, text);
	}
	ledger_forget(ledger, entry);
}

void ledger_lost(struct ledger *ledger, uint64_t forwarded, bool torn)
{
	for (struct entry *entry = ledger->asked, *next; entry; entry = next) {
		next = entry->next;
		bool unsent = entry->end > forwarded;
		entry->torn = unsent && torn;
		entry->asked_again = entry->ended = false;
		if ((unsent && !torn) || entry->kind >= ENTRY_REPLAY)
			ledger_forget(ledger, entry);
	}
	for (struct subscription *s = ledger->subscriptions; s; s = s->next)
		s->asked_again = false;
	if (ledger->initialized && ledger->initialized_end > forwarded)
		ledger->initialized = false;
}

struct entry *ledger_next_unanswered(const struct ledger *ledger)
{
	struct entry *entry = ledger->asked;
	while (entry && entry_is_asked_again(entry))
		entry = entry->next;
	return entry;
}

struct entry *ledger_next_withdrawn(struct ledger *ledger)
{
	struct entry *entry = ledger->questions;
	while (entry && entry->kind == ENTRY_STALE)
		entry = entry->next;
	if (entry)
		entry->kind = ENTRY_STALE;
	return entry;
}

struct entry *ledger_next_again(const struct ledger *ledger)
{
	struct entry *entry = ledger->asked;
	while (entry && (!entry_is_asked_again(entry) || entry->asked_again))
		entry = entry->next;
	if (!entry)
		return NULL;
	entry->asked_again = true;
	entry->end = 0;
	return entry;
}

struct subscription *ledger_next_subscription(const struct ledger *ledger)
{
	struct subscription *s = ledger->subscriptions;
	while (s && s->asked_again)
		s = s->next;
	if (s)
		s->asked_again = true;
	return s;
}

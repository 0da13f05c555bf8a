/*
 * One server's tools as they are known now: the server's own bytes, and a revision (M2, PROTOCOL "tools/list").
 *
 * Where servers are not shared, several connections report lists, and some servers offer fewer tools to a client that
 * declared fewer capabilities. The list is one for all (ARCHITECTURE "Sharing"): what a connection with fewer
 * capabilities reports only replaces a list of one with more if it has something that the list does not have.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/digest.h"
#include "loop/loop.h"
#include "proto/span.h"

/* What the client of a connection could do, as far as servers make tools depend on it. */
enum tool_capability { TOOL_CAP_SAMPLING = 1, TOOL_CAP_ELICITATION = 2, TOOL_CAP_ROOTS = 4 };
#define TOOL_CAP_ALL 7u

/* From a client's capabilities, JSON object text or NULL. */
unsigned tool_capabilities_of(const char *capabilities);

struct tool_list {
	char *name; /* the server's; part of the revision */
	char *text; /* JSON array text; NULL: nothing is known */
	size_t len;
	unsigned count;
	unsigned capabilities; /* those it was listed with */
	char revision[DIGEST_HEX];
};

void tool_list_init(struct tool_list *list, const char *server_name);
void tool_list_done(struct tool_list *list);
/*
 * Takes the array over if it says something new, and returns whether the list is another one now. The text of a list
 * that is replaced stays readable until the loop's next pass. elements must be valid JSON, an array.
 */
bool tool_list_adopt(struct tool_list *list, struct loop *loop, struct span elements, unsigned capabilities);
/* Forgets the list; its text stays readable until the loop's next pass. */
void tool_list_clear(struct tool_list *list, struct loop *loop);
/* "[]" if nothing is known. */
struct span tool_list_text(const struct tool_list *list);
/* The tool's object, verbatim, or absent. name: a JSON string with its quotes. */
struct span tool_list_find(const struct tool_list *list, struct span name);

#include "router/clients.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "idmap.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* A label is shown in tables and logs; a longer name is cut. */
#define NAME_BYTES_MAX 64

struct client {
	char *label;
	char *capabilities; /* or NULL */
	unsigned abilities;
	bool modern;
	unsigned account;
};

struct clients {
	struct idmap map;
};

struct clients *clients_new(void)
{
	return xnew(struct clients);
}

void clients_free(struct clients *clients)
{
	if (!clients)
		return;
	assert(clients->map.count == 0);
	idmap_done(&clients->map);
	free(clients);
}

void clients_add(struct clients *clients, uint64_t id)
{
	struct client *c = xnew(struct client);
	c->label = xasprintf("#%" PRIu64, id);
	idmap_put(&clients->map, id, c);
}

void clients_remove(struct clients *clients, uint64_t id)
{
	struct client *c = idmap_remove(&clients->map, id);
	if (!c)
		return;
	free(c->label);
	free(c->capabilities);
	free(c);
}

bool clients_known(const struct clients *clients, uint64_t id)
{
	return idmap_get(&clients->map, id) != NULL;
}

/* Where to cut, so that no UTF-8 sequence is split. */
static size_t cut_length(const char *text, size_t len, size_t max)
{
	if (len <= max)
		return len;
	while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	return max;
}

static char *make_label(uint64_t id, struct span name)
{
	struct buf text;
	buf_init(&text, 0);
	if (json_type_of(name) == JSON_STRING)
		json_string_decode(name, &text);
	/* Nobody's name may look like the end of a line, or like nothing. */
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
			text.data[i] = ' ';
	if (text.len)
		buf_truncate(&text, cut_length(text.data, text.len, NAME_BYTES_MAX));
	buf_addf(&text, "#%" PRIu64, id);
	return buf_steal(&text);
}

static unsigned find_abilities(struct span capabilities)
{
	static const struct {
		const char *path[2];
		unsigned ability;
	} table[] = {
		{ { "sampling", NULL }, CLIENT_SAMPLING },
		{ { "sampling", "tools" }, CLIENT_SAMPLING_TOOLS },
		{ { "elicitation", NULL }, CLIENT_ELICITATION },
		{ { "elicitation", "url" }, CLIENT_ELICITATION_URL },
		{ { "roots", NULL }, CLIENT_ROOTS },
	};
	unsigned found = 0;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (json_type_of(json_path(capabilities, table[i].path[0], table[i].path[1], NULL)) == JSON_OBJECT)
			found |= table[i].ability;
	/* {} means forms, as it did before there were others; {"url": {}} alone means no forms. */
	struct span elicitation = json_member(capabilities, "elicitation");
	if ((found & CLIENT_ELICITATION_URL) && json_type_of(json_member(elicitation, "form")) != JSON_OBJECT)
		found &= ~(unsigned)CLIENT_ELICITATION;
	return found;
}

int clients_describe(struct clients *clients, uint64_t id, struct span name, struct span capabilities)
{
	struct client *c = idmap_get(&clients->map, id);
	if (!c)
		return -ENOENT;
	struct buf copy = BUF_INIT;
	buf_add_span(&copy, capabilities);
	char *text = capabilities.ptr ? buf_steal(&copy) : NULL;
	char *label = make_label(id, name);
	if (!label || (capabilities.ptr && !text)) {
		free(label);
		free(text);
		return -ENOMEM;
	}
	free(c->label);
	free(c->capabilities);
	c->label = label;
	c->capabilities = text;
	c->abilities = capabilities.ptr ? find_abilities(capabilities) : 0;
	return 0;
}

void clients_set_modern(struct clients *clients, uint64_t id)
{
	struct client *c = idmap_get(&clients->map, id);
	if (c)
		c->modern = true;
}

bool clients_is_modern(const struct clients *clients, uint64_t id)
{
	const struct client *c = idmap_get(&clients->map, id);
	return c && c->modern;
}

unsigned clients_abilities(const struct clients *clients, uint64_t id)
{
	const struct client *c = idmap_get(&clients->map, id);
	return c ? c->abilities : 0;
}

const char *clients_capabilities(void *clients, uint64_t id)
{
	const struct client *c = idmap_get(&((struct clients *)clients)->map, id);
	return c ? c->capabilities : NULL;
}

const char *clients_label(const struct clients *clients, uint64_t id)
{
	const struct client *c = idmap_get(&clients->map, id);
	return c ? c->label : "";
}

struct span clients_name(const struct clients *clients, uint64_t id)
{
	const char *label = clients_label(clients, id), *end = strrchr(label, '#');
	return (struct span){ label, end ? (size_t)(end - label) : 0 };
}

void clients_set_account(struct clients *clients, uint64_t id, unsigned account)
{
	struct client *c = idmap_get(&clients->map, id);
	if (c)
		c->account = account;
}

unsigned clients_account(const struct clients *clients, uint64_t id)
{
	const struct client *c = idmap_get(&clients->map, id);
	return c ? c->account : 0;
}

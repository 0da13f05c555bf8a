#include "config/config_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_file.h"
#include "config/config_mask.h"
#include "config/config_members.h"
#include "config/config_memory.h"
#include "config/config_secrets.h"
#include "config/config_value.h"
#include "config/digest.h"

/* A `timeout` below this was probably meant in seconds. */
#define LIKELY_SECONDS_MS 500

/* One definition while it is read. */
struct reading {
	struct loader *l;
	struct server_config *sc;
	struct buf written; /* becomes sc->written */
	bool has_type, has_command, has_url, has_args;
	bool off; /* `enabled` or `disabled` said so */
	bool max_timeout_given;
	size_t n_expanded;
};

typedef void read_member_fn(struct reading *r, const struct config_member *m, const char *where, struct span value);

static void read_type(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	char *text = value_string(r->l, where, value);
	if (!text)
		return;
	bool known = false;
	for (enum config_transport t = CONFIG_STDIO; t <= CONFIG_SSE && !known; t++) {
		known = strcmp(text, config_transport_name(t)) == 0;
		if (known)
			r->sc->transport = t;
	}
	free(text);
	if (known)
		return;
	/* The message is the contract's, to the letter (L4), and shows the type as it was written; the hint comes beside it. */
	char *written = value_written(r->l, where, value);
	char type[SHOWN_MAX];
	if (!written)
		return;
	loader_error(r->l, "Unknown server type: %s", shown(span_of(written), type));
	loader_warning(
		r->l,
		"%s: known are \"stdio\", \"http\" (Streamable HTTP, whatever other programs call it) and \"sse\"",
		where);
	free(written);
}

static void read_sharing(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	char *text = value_string(r->l, where, value);
	if (!text)
		return;
	bool known = false;
	for (enum config_sharing s = CONFIG_SHARED; s <= CONFIG_EXCLUSIVE && !known; s++) {
		known = strcmp(text, config_sharing_name(s)) == 0;
		if (known)
			r->sc->sharing = s;
	}
	free(text);
	if (!known)
		loader_error(r->l, "%s: expected \"shared\", \"per-client\" or \"exclusive\"", where);
}

static void read_string(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	*MEMBER_FIELD(char *, r->sc, m) = value_string(r->l, where, value);
}

static bool is_http_url(const char *url)
{
	size_t scheme = strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
	if (scheme == 0 || strcspn(url + scheme, "/?#") == 0)
		return false;
	for (; *url; url++)
		if ((unsigned char)*url <= 0x20 || *url == 0x7f)
			return false;
	return true;
}

static void read_url(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	char *url = value_string(r->l, where, value);
	if (!url)
		return;
	r->sc->url = url;
	if (!is_http_url(url))
		loader_error(r->l,
			     "%s: expected an address with http:// or https:// and a host in front, and no spaces",
			     where);
	char *written = value_written(r->l, where, value);
	if (!written)
		return;
	struct buf masked = BUF_INIT;
	mask_url(&masked, written);
	free(written);
	r->sc->url_shown = loader_checked(r->l, buf_steal(&masked));
}

static void read_path(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	*MEMBER_FIELD(char *, r->sc, m) = value_path(r->l, where, value);
}

static void replace_list(char ***field, char **list)
{
	list_free(*field);
	*field = list;
}

static void read_strings(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	replace_list(MEMBER_FIELD(char **, r->sc, m), value_strings(r->l, where, value));
}

static void read_env(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	replace_list(MEMBER_FIELD(char **, r->sc, m), value_env(r->l, where, value));
}

static void read_headers(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	replace_list(MEMBER_FIELD(char **, r->sc, m), value_headers(r->l, where, value));
}

static void read_duration(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	int64_t ms;
	if (value_int(r->l, where, value, member_kind_text(m->kind), m->min, m->max, &ms))
		*MEMBER_FIELD(int64_t, r->sc, m) = ms;
}

static void read_bytes(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	int64_t bytes;
	if (value_bytes(r->l, where, value, m->min, m->max, &bytes))
		*MEMBER_FIELD(int64_t, r->sc, m) = bytes;
}

static void read_bool(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	bool *field = MEMBER_FIELD(bool, r->sc, m);
	value_bool(r->l, where, value, field);
	if (field == &r->sc->enabled)
		r->off |= !*field;
}

static void read_not(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	bool off = false;
	value_bool(r->l, where, value, &off);
	r->off |= off;
}

static void read_roots(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	r->sc->roots_json = value_roots(r->l, where, value);
}

static void read_tools(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	(void)m;
	value_tools(r->l, where, value, r->sc);
}

static void read_note(struct reading *r, const struct config_member *m, const char *where, struct span value)
{
	value_is(r->l, where, value, JSON_STRING, member_kind_text(m->kind));
}

static read_member_fn *const readers[MEMBER_KIND_COUNT] = {
	[MEMBER_TYPE] = read_type, [MEMBER_SHARING] = read_sharing, [MEMBER_STRING] = read_string,
	[MEMBER_URL] = read_url,   [MEMBER_PATH] = read_path,       [MEMBER_STRINGS] = read_strings,
	[MEMBER_ENV] = read_env,   [MEMBER_HEADERS] = read_headers, [MEMBER_DURATION] = read_duration,
	[MEMBER_BOOL] = read_bool, [MEMBER_NOT] = read_not,         [MEMBER_ROOTS] = read_roots,
	[MEMBER_NOTE] = read_note, [MEMBER_BYTES] = read_bytes,     [MEMBER_TOOLS] = read_tools,
};

/* `["a","***"]` of a list of arguments. */
static void show_strings(struct reading *r, struct span value)
{
	struct buf *out = &r->written;
	struct json_iter it;
	struct span element;
	char *before = NULL;
	bool first = true;
	buf_add_char(out, '[');
	json_iter_init(&it, value);
	while (json_iter_element(&it, &element)) {
		char *argument = loader_text(r->l, element);
		struct buf masked = BUF_INIT;
		mask_argument(&masked, before, argument ? argument : "");
		buf_add_text(out, first ? "" : ",");
		buf_add_json_string(out, buf_span(&masked));
		r->l->no_memory |= buf_failed(&masked);
		buf_done(&masked);
		free(before);
		before = argument;
		first = false;
	}
	free(before);
	buf_add_char(out, ']');
}

/* `{"NAME":"***"}` of a list of NAME=value or Name: value. */
static void show_names(struct buf *out, char *const *list, const char *end_of_name)
{
	buf_add_char(out, '{');
	for (char *const *item = list; *item; item++) {
		buf_add_text(out, item == list ? "" : ",");
		buf_add_json_string(out, (struct span){ *item, strcspn(*item, end_of_name) });
		buf_add_text(out, ":\"" MASK_TEXT "\"");
	}
	buf_add_char(out, '}');
}

/* Notes for server_config_json() how a member, which was found good, is shown. Those that are not strings are printed from their fields. */
static void note_written(struct reading *r, const struct config_member *m, struct span value)
{
	struct buf *out = &r->written;
	size_t before = out->len;
	buf_addf(out, ",\"%s\":", m->key);
	switch (m->kind) {
	case MEMBER_STRING:
	case MEMBER_PATH:
	case MEMBER_NOTE:
	case MEMBER_BYTES:
	case MEMBER_TOOLS:
		buf_add_span(out, value);
		break;
	case MEMBER_URL:
		buf_add_json_text(out, r->sc->url_shown);
		break;
	case MEMBER_STRINGS:
		show_strings(r, value);
		break;
	case MEMBER_ENV:
		show_names(out, r->sc->env, "=");
		break;
	case MEMBER_HEADERS:
		show_names(out, r->sc->headers, ":");
		break;
	case MEMBER_ROOTS:
		buf_add_text(out, r->sc->roots_json);
		break;
	default:
		buf_truncate(out, before);
		break;
	}
}

static void tell_unknown(struct reading *r, const struct object_member *member)
{
	char key[SHOWN_MAX];
	bool told = member->name && !loader_full(r->l);
	const char *meant = told ? member_suggest(&config_server_members, member->name) : NULL;
	shown(member->key, key);
	if (meant)
		loader_warning(r->l, "%s: unknown member, ignored; is \"%s\" meant?", key, meant);
	else
		loader_warning(r->l, "%s: unknown member, ignored", key);
}

/* Whether the member says something for a server of this kind; told otherwise. `command` and `url` are left to check_together(). */
static bool is_of_use(struct reading *r, const struct config_member *m)
{
	bool stdio = r->sc->transport == CONFIG_STDIO;
	if (m->use == FOR_ALL || (m->use == FOR_STDIO) == stdio)
		return true;
	if (m->offset != offsetof(struct server_config, command) && m->offset != offsetof(struct server_config, url))
		loader_warning(r->l, "\"%s\": means nothing for %s server, ignored", m->key,
			       stdio ? "a stdio" : "an http or sse");
	return false;
}

static void add_expanded(void *arg, const char *value)
{
	struct reading *r = arg;
	loader_add(r->l, &r->sc->expanded, &r->n_expanded, loader_dup(r->l, value));
}

static void note_expanded(struct reading *r, struct span value)
{
	secrets_walk_expanded(value, r->l->environment, add_expanded, r);
}

static void read_member(struct reading *r, const struct object_member *member)
{
	const struct config_member *m = member->name ? member_find(&config_server_members, member->name) : NULL;
	if (!m) {
		tell_unknown(r, member);
		return;
	}
	if (m->kind == MEMBER_TYPE || !is_of_use(r, m))
		return;
	size_t errors = r->l->n_errors;
	char where[SHOWN_MAX];
	snprintf(where, sizeof(where), "\"%s\"", m->key);
	readers[m->kind](r, m, where, member->value);
	if (r->l->no_memory)
		return;
	if (r->l->n_errors == errors)
		note_written(r, m, member->value);
	if (secrets_written(r->l, m, member->value))
		loader_found_secret(r->l, m->key);
	note_expanded(r, member->value);
}

/* What must be known before anything else: the transport, by `type` or by what a definition without one must mean. */
static void read_type_first(struct reading *r, const struct object *object)
{
	const struct object_member *type = NULL;
	for (size_t i = 0; i < object->n; i++) {
		const struct object_member *member = &object->members[i];
		if (json_string_is(member->key, "type"))
			type = member;
		r->has_command |= json_string_is(member->key, "command");
		r->has_args |= json_string_is(member->key, "args");
		r->has_url |= json_string_is(member->key, "url");
		r->max_timeout_given |= json_string_is(member->key, "maxTimeout");
	}
	r->sc->transport = r->has_url && !r->has_command ? CONFIG_HTTP : CONFIG_STDIO;
	r->has_type = type != NULL;
	if (type)
		read_type(r, NULL, "\"type\"", type->value);
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

/* `~/` and relative paths; a name without a slash is searched along PATH when the server is started. */
static void resolve_command(struct reading *r)
{
	struct server_config *sc = r->sc;
	if (!sc->command)
		return;
	if (is_blank(sc->command)) {
		loader_error(r->l, "\"command\": is empty; name the program to start");
		return;
	}
	if (!expand_home(r->l, "\"command\"", &sc->command))
		return;
	if (!strchr(sc->command, '/')) {
		if (strpbrk(sc->command, " \t") && !r->has_args)
			loader_warning(r->l, "\"command\": contains a space; arguments are written in \"args\"");
		return;
	}
	if (sc->command[0] == '/')
		return;
	char *relative = sc->command;
	if (sc->cwd) {
		sc->command = loader_format(r->l, "%s/%s", sc->cwd, relative);
	} else {
		sc->command = loader_checked(r->l, config_absolute(relative));
		loader_warning(
			r->l,
			"\"command\": a relative path depends on where mcpd was started; an absolute one, or one from "
			"~/, does not");
	}
	free(relative);
}

static void check_stdio(struct reading *r)
{
	if (r->has_command && r->has_url)
		loader_error(r->l, "\"command\" and \"url\" exclude each other: a program to start has no address");
	else if (r->has_url)
		loader_error(
			r->l,
			"\"type\" is \"stdio\", but there is a \"url\" and no \"command\"; write \"type\": \"http\"");
	else if (!r->has_command)
		loader_error(
			r->l,
			"has neither \"command\" (a program to start) nor \"type\" and \"url\" (a server to connect to)");
	resolve_command(r);
}

static void check_http(struct reading *r)
{
	const char *type = config_transport_name(r->sc->transport);
	if (r->has_command && r->has_url)
		loader_error(r->l,
			     "\"command\" and \"url\" exclude each other: mcpd starts no program for \"type\": \"%s\"",
			     type);
	else if (!r->has_type)
		loader_error(
			r->l,
			"\"url\" without a \"type\": add \"type\": \"http\" (or \"sse\" for a server of the older HTTP+SSE "
			"transport)");
	else if (r->has_command)
		loader_error(
			r->l,
			"\"type\" is \"%s\", but there is a \"command\" and no \"url\"; a program to start is \"stdio\"",
			type);
	else if (!r->has_url)
		loader_error(r->l, "\"type\" is \"%s\", but there is no \"url\"", type);
	if (r->sc->insecure)
		loader_warning(
			r->l,
			"\"insecure\": the server's certificate is not checked: anybody on the way can read and change "
			"everything, the headers included");
}

static void check_timeouts(struct reading *r)
{
	struct server_config *sc = r->sc;
	if (sc->timeout_ms > 0 && sc->timeout_ms < LIKELY_SECONDS_MS)
		loader_warning(r->l, "\"timeout\": %lld is in milliseconds; if seconds are meant, write %lld",
			       (long long)sc->timeout_ms, (long long)sc->timeout_ms * 1000);
	if (sc->max_timeout_ms == 0 || sc->max_timeout_ms >= sc->timeout_ms)
		return;
	if (r->max_timeout_given)
		loader_warning(r->l, "\"maxTimeout\": is less than \"timeout\"; taken as the same");
	sc->max_timeout_ms = sc->timeout_ms;
}

/* What no member says alone. */
static void check_together(struct reading *r)
{
	if (r->sc->transport == CONFIG_STDIO)
		check_stdio(r);
	else
		check_http(r);
	check_timeouts(r);
	r->sc->enabled = !r->off;
}

static void set_defaults(struct loader *l, struct server_config *sc)
{
	for (size_t i = 0; i < config_server_members.n; i++) {
		const struct config_member *m = &config_server_members.members[i];
		if (m->kind == MEMBER_DURATION)
			*MEMBER_FIELD(int64_t, sc, m) = m->def;
		else if (m->kind == MEMBER_BOOL)
			*MEMBER_FIELD(bool, sc, m) = m->def != 0;
		else if (m->kind == MEMBER_STRINGS || m->kind == MEMBER_ENV || m->kind == MEMBER_HEADERS)
			*MEMBER_FIELD(char **, sc, m) = loader_checked(l, list_new());
	}
	sc->expanded = loader_checked(l, list_new());
	sc->tools_allow = loader_checked(l, list_new());
	sc->tools_deny = loader_checked(l, list_new());
}

static void read_definition(struct loader *l, struct server_config *sc, struct span value)
{
	struct reading r = { .l = l, .sc = sc, .written = BUF_INIT };
	struct object object;
	object_read(l, "", value, &object);
	read_type_first(&r, &object);
	for (size_t i = 0; i < object.n && !l->no_memory; i++)
		read_member(&r, &object.members[i]);
	object_done(&object);
	if (!l->no_memory)
		check_together(&r);
	sc->written = loader_checked(l, buf_steal(&r.written));
}

struct server_config *server_config_read(struct loader *l, char *name, struct span value)
{
	struct server_config *sc = loader_alloc(l, 1, sizeof(*sc));
	if (!sc) {
		free(name);
		return NULL;
	}
	sc->name = name;
	sc->source = loader_dup(l, l->file);
	set_defaults(l, sc);
	l->server = sc;
	if (json_type_of(value) == JSON_OBJECT)
		read_definition(l, sc, value);
	else
		loader_error(l, "expected an object with \"command\", or with \"type\" and \"url\", found %s",
			     value_found(value));
	l->server = NULL;
	return sc;
}

static void digest_identity(struct digest *d, const struct server_config *sc)
{
	digest_init(d);
	digest_int(d, sc->transport);
	digest_text(d, sc->command);
	digest_list(d, sc->args);
	digest_set(d, sc->env);
	digest_text(d, sc->cwd);
	digest_text(d, sc->url);
	digest_set(d, sc->headers);
	digest_text(d, sc->ca_file);
}

void server_config_seal(struct loader *l, struct server_config *sc, char *const *daemon_environment)
{
	struct digest d;
	digest_identity(&d, sc);
	digest_hex(&d, sc->identity);
	digest_text(&d, sc->error);
	for (size_t i = 0; i < config_server_members.n; i++) {
		const struct config_member *m = &config_server_members.members[i];
		if (m->kind == MEMBER_DURATION || m->kind == MEMBER_BYTES)
			digest_int(&d, *MEMBER_FIELD(int64_t, sc, m));
		else if (m->kind == MEMBER_BOOL)
			digest_int(&d, *MEMBER_FIELD(bool, sc, m));
	}
	digest_int(&d, sc->sharing);
	digest_set(&d, sc->retry_safe);
	digest_set(&d, sc->tools_allow);
	digest_int(&d, sc->tools_allow_only);
	digest_set(&d, sc->tools_deny);
	digest_text(&d, sc->roots_json);
	/* Not in the identity: a PATH that differs from one shell to the next must not empty the cache. */
	if (sc->transport == CONFIG_STDIO)
		digest_set(&d, daemon_environment);
	digest_hex(&d, sc->fingerprint);
	l->no_memory |= digest_failed(&d);
}

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/config_file.h"
#include "config/config_loader.h"
#include "config/config_members.h"
#include "config/config_memory.h"
#include "config/config_secrets.h"
#include "config/config_server.h"
#include "config/config_value.h"
#include "log.h"

/* Of the top-level members nobody knows, so many are named. */
#define UNKNOWN_NAMED_MAX 5

static void read_limits(struct loader *l, struct span value)
{
	if (!value_is(l, "\"mcpd\": \"limits\"", value, JSON_OBJECT, member_kind_text(MEMBER_LIMITS)))
		return;
	struct object object;
	object_read(l, "\"mcpd\": \"limits\": ", value, &object);
	for (size_t i = 0; i < object.n; i++) {
		char key[SHOWN_MAX], where[2 * SHOWN_MAX];
		const char *name = object.members[i].name;
		snprintf(where, sizeof(where), "\"mcpd\": \"limits\": %s", shown(object.members[i].key, key));
		int index = name ? limits_find(name) : -1;
		if (index >= 0) {
			const struct limit_info *info = &limit_table[index];
			int64_t number;
			if (value_int(l, where, object.members[i].value, "a whole number", info->min, info->max,
				      &number))
				l->config->limits.value[index] = number;
			continue;
		}
		const char *meant = name && !loader_full(l) ? limit_suggest(name) : NULL;
		if (meant)
			loader_warning(l, "%s: unknown limit, ignored; is \"%s\" meant?", where, meant);
		else
			loader_warning(l, "%s: unknown limit, ignored", where);
	}
	object_done(&object);
}

static void read_log_level(struct loader *l, const char *where, struct span value)
{
	enum log_level level;
	char *text = value_string(l, where, value);
	if (text && log_level_find(text, &level)) {
		free(l->config->log_level);
		l->config->log_level = text;
		return;
	}
	if (text)
		loader_error(l, "%s: expected \"error\", \"warning\", \"info\" or \"debug\"", where);
	free(text);
}

/* Adds to the variables of earlier files, which it replaces by name. */
static void read_environment(struct loader *l, const char *where, struct span value)
{
	char **old = l->config->environment;
	char **list = value_env(l, where, value);
	size_t n = list_length(list), n_new = n;
	for (char **item = old; *item; item++) {
		bool replaced = false;
		for (size_t i = 0; i < n_new && !replaced; i++)
			replaced = strncmp(list[i], *item, strcspn(*item, "=") + 1) == 0;
		if (replaced)
			free(*item);
		else
			loader_add(l, &list, &n, *item);
	}
	free(old);
	l->config->environment = list;
}

/* Less would have mcpd come and go faster than the service manager starts it again. */
#define IDLE_EXIT_MIN_MS 1000

static void read_idle_exit(struct loader *l, const struct config_member *m, const char *where, struct span value)
{
	int64_t ms;
	if (!value_int(l, where, value, member_kind_text(m->kind), m->min, m->max, &ms))
		return;
	if (ms > 0 && ms < IDLE_EXIT_MIN_MS) {
		loader_warning(l, "%s: %lld is too little, %d is taken", where, (long long)ms, IDLE_EXIT_MIN_MS);
		ms = IDLE_EXIT_MIN_MS;
	}
	l->config->idle_exit_ms = ms;
}

static void read_daemon_member(struct loader *l, const struct object_member *member)
{
	char key[SHOWN_MAX], where[2 * SHOWN_MAX];
	snprintf(where, sizeof(where), "\"mcpd\": %s", shown(member->key, key));
	const struct config_member *m = member->name ? member_find(&config_daemon_members, member->name) : NULL;
	bool told = !m && member->name && !loader_full(l);
	const char *meant = told ? member_suggest(&config_daemon_members, member->name) : NULL;
	if (!m && meant)
		loader_warning(l, "%s: unknown member, ignored; is \"%s\" meant?", where, meant);
	else if (!m)
		loader_warning(l, "%s: unknown member, ignored", where);
	else if (m->kind == MEMBER_LIMITS)
		read_limits(l, member->value);
	else if (m->kind == MEMBER_LEVEL)
		read_log_level(l, where, member->value);
	else if (m->kind == MEMBER_DURATION)
		read_idle_exit(l, m, where, member->value);
	else
		read_environment(l, where, member->value);
	if (m && secrets_written(l, m, member->value))
		loader_found_secret(l, m->key);
}

static void read_daemon(struct loader *l, struct span value)
{
	if (!value_is(l, "\"mcpd\"", value, JSON_OBJECT, member_kind_text(MEMBER_DAEMON)))
		return;
	struct object object;
	object_read(l, "\"mcpd\": ", value, &object);
	for (size_t i = 0; i < object.n; i++)
		read_daemon_member(l, &object.members[i]);
	object_done(&object);
}

#define STRING_OF(x) STRING_OF_(x)
#define STRING_OF_(x) #x

/* Why a server cannot have that name, or NULL. */
static const char *bad_name(const char *name)
{
	if (!name)
		return "contains U+0000 or half a surrogate pair";
	if (!*name)
		return "is empty";
	if (strlen(name) > CONFIG_NAME_MAX_BYTES)
		return "is longer than " STRING_OF(CONFIG_NAME_MAX_BYTES) " bytes";
	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		/* C0, DEL, and C1, which is U+0080 to U+009F. */
		if (*c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
			return "contains a control character";
	return NULL;
}

/* Puts the server at the place of one of the same name in an earlier file, or at the end. */
static void place_server(struct loader *l, size_t n_before, struct server_config *sc)
{
	struct config *config = l->config;
	for (size_t i = 0; i < n_before; i++) {
		struct server_config *old = config->servers[i];
		if (strcmp(old->name, sc->name) != 0)
			continue;
		l->server = sc;
		loader_warning(l, "replaces the server of the same name in %s", old->source);
		l->server = NULL;
		server_config_free(old);
		config->servers[i] = sc;
		return;
	}
	config->servers[config->n_servers++] = sc;
}

static void read_servers(struct loader *l, struct span value)
{
	const size_t n_before = l->config->n_servers;
	/* Whatever a later file makes of the limit, it cannot be more; the rest is counted. */
	const size_t room = (size_t)limit_table[LIMIT_SERVERS].max;
	size_t n_left_out = 0;
	struct object object;
	object_read(l, "\"mcpServers\": ", value, &object);
	struct server_config **servers =
		loader_grow(l, l->config->servers, n_before + (object.n < room ? object.n : room), sizeof(*servers));
	if (servers)
		l->config->servers = servers;
	for (size_t i = 0; i < object.n && !l->no_memory; i++) {
		struct object_member *member = &object.members[i];
		const char *reason = bad_name(member->name);
		char key[SHOWN_MAX];
		if (reason) {
			loader_error(l, "server %s: the name %s; the server is left out", shown(member->key, key),
				     reason);
			continue;
		}
		if (l->config->n_servers - n_before >= room) {
			n_left_out++;
			continue;
		}
		char *name = member->name;
		member->name = NULL;
		struct server_config *sc = server_config_read(l, name, member->value);
		if (sc)
			place_server(l, n_before, sc);
	}
	if (n_left_out > 0)
		loader_error(l, "there are more than %zu servers; %zu are left out", room, n_left_out);
	object_done(&object);
}

/* Unknown members of the top level, which in other programs' files can be many: one line for those that resemble nothing. */
static void tell_unknown(struct loader *l, const struct object *object)
{
	struct buf names = BUF_INIT;
	size_t n = 0;
	for (size_t i = 0; i < object->n; i++) {
		const struct object_member *member = &object->members[i];
		char key[SHOWN_MAX];
		shown(member->key, key);
		if (member->name && member_find(&config_file_members, member->name))
			continue;
		bool told = member->name && !loader_full(l) && n < CONFIG_PROBLEMS_MAX;
		const char *meant = told ? member_suggest(&config_file_members, member->name) : NULL;
		if (meant)
			loader_warning(l, "%s: unknown member, ignored; is \"%s\" meant?", key, meant);
		else if (n++ < UNKNOWN_NAMED_MAX)
			buf_addf(&names, "%s%s", n > 1 ? ", " : "", key);
	}
	if (n > UNKNOWN_NAMED_MAX)
		buf_addf(&names, " and %zu more", n - UNKNOWN_NAMED_MAX);
	l->no_memory |= buf_failed(&names);
	if (n > 0)
		loader_warning(l, "unknown member%s, ignored: %s", n > 1 ? "s" : "", buf_span(&names).ptr);
	buf_done(&names);
}

/* Reads l->text. False if the file as a whole is of no use (told). */
static bool read_text(struct loader *l)
{
	if (config_check_syntax(l) < 0)
		return false;
	if (json_type_of(l->text) != JSON_OBJECT) {
		loader_error(l, "expected an object, {\"mcpServers\": {..}}, found %s", value_found(l->text));
		return false;
	}
	struct object object;
	object_read(l, "", l->text, &object);
	tell_unknown(l, &object);
	struct span servers = SPAN_NONE, daemon = SPAN_NONE;
	for (size_t i = 0; i < object.n; i++) {
		if (json_string_is(object.members[i].key, "mcpServers"))
			servers = object.members[i].value;
		else if (json_string_is(object.members[i].key, "mcpd"))
			daemon = object.members[i].value;
	}
	object_done(&object);
	/* Without its servers a file that was meant to have some must not pass for one that has none: a reload would end them all. */
	if (servers.ptr && !value_is(l, "\"mcpServers\"", servers, JSON_OBJECT, member_kind_text(MEMBER_SERVERS)))
		return false;
	if (daemon.ptr)
		read_daemon(l, daemon);
	if (servers.ptr)
		read_servers(l, servers);
	return true;
}

static struct config *new_config(struct loader *l)
{
	struct config *config = loader_alloc(l, 1, sizeof(*config));
	if (!config)
		return NULL;
	config->files = loader_checked(l, list_new());
	config->missing_files = loader_checked(l, list_new());
	config->environment = loader_checked(l, list_new());
	config->idle_exit_ms = CONFIG_UNSET;
	limits_init(&config->limits);
	return config;
}

static void loader_init(struct loader *l, const char *const *environment)
{
	*l = (struct loader){ .environment = environment };
	l->config = new_config(l);
}

static void keep_to_limit(struct loader *l)
{
	struct config *config = l->config;
	size_t max = (size_t)config->limits.value[LIMIT_SERVERS];
	if (config->n_servers <= max)
		return;
	char name[SHOWN_MAX];
	loader_error(l, "there are %zu servers and the limit \"%s\" is %zu: \"%s\" and what follows it is left out",
		     config->n_servers, limit_table[LIMIT_SERVERS].key, max,
		     shown(span_of(config->servers[max]->name), name));
	while (config->n_servers > max)
		server_config_free(config->servers[--config->n_servers]);
}

/* Limits that only make sense one below the other. */
static void check_limits(struct loader *l)
{
	static const struct {
		enum mcpd_limit less, more;
	} pairs[] = {
		{ LIMIT_CLIENT_QUEUE_SOFT, LIMIT_CLIENT_QUEUE_HARD },
		{ LIMIT_MESSAGE_BYTES, LIMIT_CLIENT_QUEUE_HARD },
		{ LIMIT_MESSAGE_BYTES, LIMIT_SERVER_QUEUE },
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (l->config->limits.value[pairs[i].less] > l->config->limits.value[pairs[i].more])
			loader_warning(l, "the limit \"%s\" is more than \"%s\", which is reached first",
				       limit_table[pairs[i].less].key, limit_table[pairs[i].more].key);
}

/* What can be said once all files are read. */
static void check_whole(struct loader *l)
{
	check_limits(l);
	keep_to_limit(l);
	for (size_t i = 0; i < l->config->n_servers; i++)
		server_config_seal(l, l->config->servers[i], l->config->environment);
}

/* Ends loading: the configuration, or NULL and the problems. Here a lack of memory, wherever it was, becomes a failure. */
static struct config *loader_end(struct loader *l, bool usable, struct config_problem **ret_problems, size_t *ret_n)
{
	struct config *config = l->config;
	if (usable && !l->no_memory)
		check_whole(l);
	loader_take_problems(l, ret_problems, ret_n);
	if (!usable || l->no_memory) {
		config_free(config);
		return NULL;
	}
	config->problems = *ret_problems;
	config->n_problems = *ret_n;
	*ret_problems = NULL;
	*ret_n = 0;
	return config;
}

/* Group and others. */
static void check_readers(struct loader *l)
{
	if (l->secret_at && l->mode & 044)
		loader_warning(
			l,
			"can be read by others (mode %03o) and holds secrets, the first in %s; make it yours alone: "
			"chmod 600 %s, or write ${VAR} in their place",
			l->mode, l->secret_at, l->file);
	free(l->secret_at);
	l->secret_at = NULL;
	l->mode = 0;
}

/* False if the file makes the whole load fail (told). */
static bool load_file(struct loader *l, bool must_exist, bool *ret_read)
{
	struct buf bytes = BUF_INIT;
	int error = config_read(l, &bytes);
	bool usable = error == 0;
	*ret_read = usable;
	if (usable) {
		l->text = buf_span(&bytes);
		usable = read_text(l);
		l->text = SPAN_NONE;
		check_readers(l);
	} else if (error == -ENOENT && must_exist) {
		loader_error(l, "does not exist");
	} else if (error == -ENOENT) {
		usable = true;
	}
	buf_done(&bytes);
	return usable;
}

struct config *config_load(const char *const *files, bool must_exist, const char *const *environment,
			   struct config_problem **ret_problems, size_t *ret_n)
{
	struct loader l;
	loader_init(&l, environment);
	bool usable = true;
	size_t n_read = 0, n_missing = 0, n_names = 0;
	char **names = NULL; /* also of those that do not exist */
	for (; *files && !l.no_memory; files++) {
		if (!loader_add(&l, &names, &n_names, config_absolute(*files)))
			break;
		l.file = names[n_names - 1];
		/* Also behind a broken file, so that all that is wrong is told at once. */
		bool read, good = load_file(&l, must_exist, &read);
		usable &= good;
		if (read)
			loader_add(&l, &l.config->files, &n_read, loader_dup(&l, l.file));
		else if (good)
			loader_add(&l, &l.config->missing_files, &n_missing, loader_dup(&l, l.file));
	}
	struct config *config = loader_end(&l, usable, ret_problems, ret_n);
	list_free(names);
	return config;
}

struct config *config_parse(struct span text, const char *file, const char *const *environment,
			    struct config_problem **ret_problems, size_t *ret_n)
{
	struct loader l;
	loader_init(&l, environment);
	size_t n_files = 0;
	l.file = file;
	l.text = text;
	bool usable = !l.no_memory && loader_add(&l, &l.config->files, &n_files, loader_dup(&l, file)) && read_text(&l);
	check_readers(&l);
	return loader_end(&l, usable, ret_problems, ret_n);
}

#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_members.h"
#include "config/config_memory.h"
#include "proto/buf.h"

const char *config_transport_name(enum config_transport t)
{
	static const char *const names[] = { [CONFIG_STDIO] = "stdio", [CONFIG_HTTP] = "http", [CONFIG_SSE] = "sse" };
	return names[t];
}

const char *config_sharing_name(enum config_sharing s)
{
	static const char *const names[] = {
		[CONFIG_SHARED] = "shared", [CONFIG_PER_CLIENT] = "per-client", [CONFIG_EXCLUSIVE] = "exclusive"
	};
	return names[s];
}

int config_default_file(char **ret)
{
	/* The XDG base directory specification: a relative path there is invalid and to be ignored. */
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int len;
	*ret = NULL;
	if (base && base[0] == '/')
		len = asprintf(ret, "%s/mcpd/mcp.json", base);
	else if (home && home[0] == '/')
		len = asprintf(ret, "%s/.config/mcpd/mcp.json", home);
	else
		return -ENOENT;
	if (len >= 0)
		return 0;
	*ret = NULL;
	return -ENOMEM;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->n_servers; i++)
		server_config_free(config->servers[i]);
	free(config->servers);
	list_free(config->files);
	list_free(config->missing_files);
	config_problems_free(config->problems, config->n_problems);
	free(config->log_level);
	list_free(config->environment);
	free(config);
}

const struct server_config *config_find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_servers; i++)
		if (strcmp(config->servers[i]->name, name) == 0)
			return config->servers[i];
	return NULL;
}

/* What a definition owns. */
#define EACH_STRING(X)                                                                                                 \
	X(name) X(source) X(error) X(command) X(cwd) X(url) X(url_shown) X(ca_file) X(roots_json) X(written)
#define EACH_LIST(X) X(args) X(env) X(headers) X(retry_safe) X(expanded) X(tools_allow) X(tools_deny)

void server_config_free(struct server_config *sc)
{
	if (!sc)
		return;
#define FREE_STRING(field) free(sc->field);
#define FREE_LIST(field) list_free(sc->field);
	EACH_STRING(FREE_STRING)
	EACH_LIST(FREE_LIST)
#undef FREE_STRING
#undef FREE_LIST
	free(sc);
}

static bool copy_string(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

static bool copy_list(char ***ret, char *const *list)
{
	size_t n = 0;
	bool good = (*ret = list_new());
	for (; good && *list; list++)
		good = list_add(ret, &n, strdup(*list));
	return good;
}

struct server_config *server_config_copy(const struct server_config *sc)
{
	struct server_config *copy = malloc(sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *sc;
	/* Also behind one that failed: nothing of the original's may be left in the copy. */
	bool good = true;
#define COPY_STRING(field) good &= copy_string(&copy->field, sc->field);
#define COPY_LIST(field) good &= copy_list(&copy->field, sc->field);
	EACH_STRING(COPY_STRING)
	EACH_LIST(COPY_LIST)
#undef COPY_STRING
#undef COPY_LIST
	if (good)
		return copy;
	server_config_free(copy);
	return NULL;
}

static void add_member(struct buf *out, const struct config_member *m, const struct server_config *sc)
{
	switch (m->kind) {
	case MEMBER_DURATION:
		buf_addf(out, ",\"%s\":%lld", m->key, (long long)*MEMBER_FIELD(const int64_t, sc, m));
		break;
	case MEMBER_BOOL:
		buf_addf(out, ",\"%s\":%s", m->key, *MEMBER_FIELD(const bool, sc, m) ? "true" : "false");
		break;
	case MEMBER_SHARING:
		buf_addf(out, ",\"%s\":\"%s\"", m->key, config_sharing_name(sc->sharing));
		break;
	default: /* shown as written */
		break;
	}
}

char *server_config_json(const struct server_config *sc)
{
	struct buf out = BUF_INIT;
	buf_addf(&out, "{\"type\":\"%s\"", config_transport_name(sc->transport));
	buf_add_text(&out, sc->written ? sc->written : "");
	enum member_use other = sc->transport == CONFIG_STDIO ? FOR_HTTP : FOR_STDIO;
	for (size_t i = 0; i < config_server_members.n; i++)
		if (config_server_members.members[i].use != other)
			add_member(&out, &config_server_members.members[i], sc);
	buf_add_char(&out, '}');
	return buf_steal(&out);
}

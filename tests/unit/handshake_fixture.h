/* What the tests of the handshake share: the two opening requests, and how a handshake ends. */
#pragma once

#include "mcp_fixture.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNSUPPORTED(list) "{\"code\":-32022,\"message\":\"v\",\"data\":{\"requested\":\"x\",\"supported\":" list "}}"

static inline void assert_failed(struct fixture *f, enum mcp_failure_kind kind, bool hint_failed, const char *contains)
{
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert(f->failed);
	ck_assert_int_eq(f->kind, kind);
	ck_assert_int_eq(f->hint_failed, hint_failed);
	assert_contains(f->message, "demo");
	assert_contains(f->message, contains);
}

static inline void assert_ready(struct fixture *f, enum mcp_era era)
{
	bool modern;
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert_msg(!f->failed, "%s", f->message);
	ck_assert_int_eq(mcp_client_facts(f->client)->era, era);
	const char *version = fake_protocol(f->fake, &modern);
	ck_assert_int_eq(modern, era == MCP_ERA_MODERN);
	assert_text(version, mcp_client_facts(f->client)->protocol_version);
}

/* Grace that is over at once, or never. */
static inline void start_with(struct fixture *f, enum mcp_era hint, int64_t grace_ms)
{
	struct mcp_client_options options = default_options(f);
	options.era_hint = hint;
	options.probe_grace_ms = grace_ms;
	fixture_start(f, &options, NULL);
}

static inline struct fake_sent *probe(struct fixture *f)
{
	struct fake_sent *sent = fake_last(f->fake, "server/discover");
	ck_assert_ptr_nonnull(sent);
	return sent;
}

static inline struct fake_sent *initialize(struct fixture *f)
{
	struct fake_sent *sent = fake_last(f->fake, "initialize");
	ck_assert_ptr_nonnull(sent);
	return sent;
}

static inline void both_out(struct fixture *f)
{
	start_with(f, MCP_ERA_UNKNOWN, 1);
	WAIT_UNTIL(f, fake_last(f->fake, "initialize"));
	ck_assert(probe(f)->pending);
	assert_text(fake_methods(f->fake), "server/discover initialize");
}

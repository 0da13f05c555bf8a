/* listing: whole lists out of pages, bounded (R27); tools that must not be shown. */
#include "mcp/listing.h"

#include "mcp_fixture.h"
#include "run.h"

struct list_outcome {
	unsigned n_done;
	int code, limit;
	char *elements, *message, *warning;
	unsigned count;
	int64_t ttl_ms;
	struct listing **cancel; /* cancelled inside done */
};

static void list_done(void *arg, const struct listing_result *result)
{
	struct list_outcome *o = arg;
	o->n_done++;
	o->code = result->failure ? result->failure->code : 0;
	o->limit = result->failure ? result->failure->limit : 0;
	o->message = result->failure ? xstrdup(result->failure->message) : NULL;
	o->elements = result->elements.ptr ? xstrndup(result->elements.ptr, result->elements.len) : NULL;
	o->warning = result->warning ? xstrdup(result->warning) : NULL;
	o->count = result->count;
	o->ttl_ms = result->ttl_ms;
	if (o->cancel)
		listing_cancel(*o->cancel);
}

static void outcome_reset(struct list_outcome *o)
{
	ck_assert_uint_eq(o->n_done, 1);
	free(o->elements);
	free(o->message);
	free(o->warning);
	*o = (struct list_outcome){ 0 };
}

static struct listing *start(struct fixture *f, struct list_outcome *o)
{
	*o = (struct list_outcome){ 0 };
	return listing_start(f->client, SPAN_LIT("\"tools/list\""), "tools", 700, &f->limits, list_done, o);
}

/* The page asked for, with the params it must have. */
static struct fake_sent *page(struct fixture *f, const char *params)
{
	struct fake_sent *sent = fake_last(f->fake, "tools/list");
	ck_assert_ptr_nonnull(sent);
	ck_assert(sent->pending);
	assert_text(sent->params, params);
	return sent;
}

START_TEST(three_pages)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	start(&f, &o);
	ck_assert_int_eq(page(&f, "(null)")->timeout_ms, 700);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[{\"n\":1.0},  {\"n\":-0}],\"nextCursor\":\"\"}");
	/* An empty-string cursor is a cursor. */
	fake_answer(f.fake, page(&f, "{\"cursor\":\"\"}"), "{\"nextCursor\":\"c\\/2\",\"tools\":[]}");
	fake_answer(f.fake, page(&f, "{\"cursor\":\"c\\/2\"}"),
		    "{\"tools\":[{\"n\":12345678901234567890}],\"nextCursor\":null}");
	ck_assert_uint_eq(fake_count_of(f.fake, "tools/list"), 3);
	assert_text(o.elements, "[{\"n\":1.0},{\"n\":-0},{\"n\":12345678901234567890}]");
	ck_assert_uint_eq(o.count, 3);
	ck_assert_int_eq(o.ttl_ms, -1);
	ck_assert_ptr_null(o.warning);
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(empty_list)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[]}");
	assert_text(o.elements, "[]");
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(repeated_cursor)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[1],\"nextCursor\":\"a\"}");
	fake_answer(f.fake, page(&f, "{\"cursor\":\"a\"}"), "{\"tools\":[2],\"nextCursor\":\"b\"}");
	/* Written otherwise, the same cursor. */
	fake_answer(f.fake, page(&f, "{\"cursor\":\"b\"}"), "{\"tools\":[3],\"nextCursor\":\"\\u0061\"}");
	assert_text(o.elements, "[1,2,3]");
	assert_contains(o.warning, "repeats its cursor");
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(cursor_of_another_type)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[1],\"nextCursor\":2}");
	assert_text(o.elements, "[1]");
	assert_contains(o.warning, "nextCursor is no string");
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

static char *numbered_page(unsigned n)
{
	return xasprintf("{\"tools\":[%u],\"nextCursor\":\"c%u\"}", n, n);
}

START_TEST(page_limit)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	f.limits.value[LIMIT_LIST_PAGES] = 100;
	start(&f, &o);
	for (unsigned i = 0; o.n_done == 0; i++) {
		char *text = numbered_page(i);
		fake_answer(f.fake, fake_last(f.fake, "tools/list"), text);
		free(text);
	}
	ck_assert_uint_eq(fake_count_of(f.fake, "tools/list"), 100);
	ck_assert_uint_eq(o.count, 100);
	assert_contains(o.warning, "maxListPages");
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(byte_limit)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	f.limits.value[LIMIT_LIST_BYTES] = 12;
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[1234567890]}");
	assert_text(o.elements, "[1234567890]"); /* exactly the limit */
	outcome_reset(&o);
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[12345678901]}");
	ck_assert_int_eq(o.code, MCPD_E_LIMIT);
	ck_assert_int_eq(o.limit, LIMIT_LIST_BYTES);
	assert_text(o.message, "tools/list: the list is longer than maxListBytes");
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(failures)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[1],\"nextCursor\":\"a\"}");
	fake_error(f.fake, page(&f, "{\"cursor\":\"a\"}"), "{\"code\":-32602,\"message\":\"bad cursor\"}");
	ck_assert_int_eq(o.code, MCPD_E_SERVER);
	ck_assert_ptr_null(o.elements);
	outcome_reset(&o);
	static const char *const broken[] = { "{}", "{\"tools\":{}}", "[]", "{\"prompts\":[]}" };
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		start(&f, &o);
		fake_answer(f.fake, page(&f, "(null)"), broken[i]);
		ck_assert_int_eq(o.code, MCPD_E_PROTOCOL);
		assert_contains(o.message, "tools/list: ");
		outcome_reset(&o);
	}
	start(&f, &o);
	fake_exit(f.fake, "gone");
	ck_assert_int_eq(o.code, MCPD_E_TRANSPORT);
	outcome_reset(&o);
	/* Not inside the call, also when it fails at once. */
	start(&f, &o);
	ck_assert_uint_eq(o.n_done, 0);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_TRANSPORT);
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(cancelled)
{
	struct fixture f;
	struct list_outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	struct listing *listing = start(&f, &o);
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[1],\"nextCursor\":\"a\"}");
	listing_cancel(listing);
	settle(&f);
	ck_assert_uint_eq(o.n_done, 0);
	ck_assert(fake_last(f.fake, "tools/list")->given_up);
	ck_assert_ptr_nonnull(fake_last(f.fake, "notifications/cancelled"));
	listing_cancel(NULL);
	/* Too late, from inside done: nothing. */
	listing = start(&f, &o);
	o.cancel = &listing;
	fake_answer(f.fake, page(&f, "(null)"), "{\"tools\":[]}");
	settle(&f);
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(least_ttl)
{
	struct fixture f;
	struct list_outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	start(&f, &o);
	fake_answer(f.fake, fake_last(f.fake, "tools/list"), "{\"tools\":[],\"ttlMs\":9000,\"nextCursor\":\"1\"}");
	assert_contains(fake_last(f.fake, "tools/list")->params, "{\"cursor\":\"1\",\"_meta\":{");
	fake_answer(f.fake, fake_last(f.fake, "tools/list"), "{\"tools\":[],\"ttlMs\":5000,\"nextCursor\":\"2\"}");
	fake_answer(f.fake, fake_last(f.fake, "tools/list"), "{\"tools\":[],\"ttlMs\":-7}");
	ck_assert_int_eq(o.ttl_ms, 5000);
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

#define TOOL(name, schema) "{\"name\":\"" name "\",\"inputSchema\":{\"type\":\"object\",\"properties\":" schema "}}"
#define GOOD TOOL("good", "{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}")
#define BAD TOOL("bad", "{\"r\":{\"type\":\"string\",\"x-mcp-header\":\"\"}}")

/* Over HTTP a modern server's tool with an invalid annotation is left out with a warning; elsewhere annotations mean
 * nothing. */
START_TEST(invalid_header_annotations)
{
	struct fixture f;
	struct list_outcome o;
	for (int round = 0; round < 3; round++) {
		enum transport_kind kind = round == 1 ? TRANSPORT_STDIO : TRANSPORT_HTTP;
		if (round == 2)
			fixture_legacy(&f, kind);
		else
			fixture_modern(&f, kind);
		start(&f, &o);
		fake_answer(f.fake, fake_last(f.fake, "tools/list"), "{\"tools\":[" BAD "," GOOD "," BAD "]}");
		if (round == 0) {
			assert_text(o.elements, "[" GOOD "]");
			ck_assert_uint_eq(o.count, 1);
			assert_contains(o.warning, "the tool \"bad\" is left out: ");
			assert_contains(o.warning, "; the tool");
		} else {
			assert_text(o.elements, "[" BAD "," GOOD "," BAD "]");
			ck_assert_ptr_null(o.warning);
		}
		outcome_reset(&o);
		fixture_done(&f);
	}
}
END_TEST

START_TEST(many_warnings_are_cut)
{
	struct fixture f;
	struct list_outcome o;
	fixture_modern(&f, TRANSPORT_HTTP);
	start(&f, &o);
	struct buf text = BUF_INIT;
	buf_add_text(&text, "{\"tools\":[" BAD);
	for (int i = 0; i < 500; i++)
		buf_add_text(&text, "," BAD);
	buf_add_text(&text, "]}");
	fake_answer(f.fake, fake_last(f.fake, "tools/list"), buf_span(&text).ptr);
	buf_done(&text);
	assert_text(o.elements, "[]");
	ck_assert_uint_gt(strlen(o.warning), 1000);
	ck_assert_uint_le(strlen(o.warning), 4096);
	outcome_reset(&o);
	fixture_done(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("listing", three_pages, empty_list, repeated_cursor, cursor_of_another_type, page_limit,
			 byte_limit, failures, cancelled, least_ttl, invalid_header_annotations, many_warnings_are_cut);
}

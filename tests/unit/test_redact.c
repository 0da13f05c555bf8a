/* Secrets of a definition in what a server says (config/redact.h). */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/redact.h"
#include "xalloc.h"

/* The redactor of the one server in that file, ' for ". */
static struct redactor *redactor_for(const char *server)
{
	static const char *const environment[] = { "HOOK_TOKEN=fromvariable1", "HOME=/home/somebody", NULL };
	char *text = xasprintf("{'mcpServers':{'s':%s}}", server);
	for (char *c = text; *c; c++)
		if (*c == '\'')
			*c = '"';
	struct config_problem *problems;
	size_t n;
	struct config *config = config_parse(span_of(text), "/x", environment, &problems, &n);
	ck_assert_ptr_nonnull(config);
	struct server_config *sc = config->servers[0];
	ck_assert_msg(!sc->error, "%s", sc->error);
	struct redactor *r = redactor_new(sc, (const char *const *)sc->env);
	config_free(config);
	free(text);
	return r;
}

/* want NULL: nothing is hidden. */
static void expect(const char *server, const char *text, const char *want)
{
	struct redactor *r = redactor_for(server);
	struct buf room = BUF_INIT;
	struct span got = redact(r, span_of(text), &room);
	ck_assert_msg(span_is(got, want ? want : text), "%s: '%s' became '%.*s'", server, text, (int)got.len, got.ptr);
	ck_assert_int_eq(got.ptr == text, !want);
	buf_done(&room);
	redactor_free(r);
}

START_TEST(variables_by_name_and_by_look)
{
#define ENV                                                                                                            \
	"{'command':'x','env':{'API_KEY':'abcdef','HOME_DIR':'/usr/share/x9y','LEVEL':'information','ID':'a1b2c3d4e5f6a7b8','K':'sk-123'}}"
	expect(ENV, "abcdef", "***");
	expect(ENV, "key=abcdef, again abcdefabcdef.", "key=***, again ******.");
	expect(ENV, "/usr/share/x9y information", NULL);
	expect(ENV, "a1b2c3d4e5f6a7b8 sk-123", "*** ***");
	expect(ENV, "", NULL);
	/* Too short to be told from a word. */
	expect("{'command':'x','env':{'API_KEY':'abcde'}}", "abcde", NULL);
	expect("{'command':'x','env':{'DB':'postgres://me:password1@h/'}}", "auth failed: password1",
	       "auth failed: ***");
}
END_TEST

START_TEST(headers_whole_and_without_their_scheme)
{
#define HEADERS "{'type':'http','url':'http://h/','headers':{'Authorization':'Bearer tok-en-1','X-Id':'plainid'}}"
	expect(HEADERS, "authorization: Bearer tok-en-1", "authorization: ***");
	expect(HEADERS, "bad token tok-en-1", "bad token ***");
	expect(HEADERS, "x-id: plainid", "x-id: ***");
	expect(HEADERS, "Bearer", NULL);
}
END_TEST

START_TEST(arguments_and_urls)
{
	expect("{'command':'x','args':['--token','tokenvalue','--port=80800000']}", "tokenvalue 80800000",
	       "*** 80800000");
	expect("{'command':'x','args':['--password=tokenvalue']}", "tokenvalue", "***");
#define URL "{'type':'http','url':'http://me:pass%2Fword@h/p?page=pagevalue&api_key=keyvalue&x=${HOOK_TOKEN}'}"
	expect(URL, "GET /p?page=pagevalue&api_key=keyvalue", "GET /p?page=pagevalue&api_key=***");
	expect(URL, "pass/word pass%2Fword", "*** ***");
	expect(URL, "Authorization: Basic bWU6cGFzcy93b3Jk", "Authorization: Basic ***");
	expect(URL, "x=fromvariable1", "x=***");
	/* RFC 4648, section 10: each length of the last group. */
	expect("{'type':'http','url':'http://foobar@h/'}", "foobar Zm9vYmFy", "*** ***");
	expect("{'type':'http','url':'http://fooba@h/'}", "fooba Zm9vYmE=", "fooba ***");
	expect("{'type':'http','url':'http://foob@h/'}", "foob Zm9vYg==", "foob ***");
}
END_TEST

START_TEST(variables_that_are_expanded_anywhere)
{
	expect("{'type':'http','url':'http://h/hooks/${HOOK_TOKEN}/mcp'}", "Cannot POST /hooks/fromvariable1/mcp",
	       "Cannot POST /hooks/***/mcp");
	expect("{'command':'x','args':['${HOME}','${env:HOOK_TOKEN}']}", "/home/somebody fromvariable1",
	       "/home/somebody ***");
}
END_TEST

START_TEST(the_longest_counts)
{
#define TWO "{'command':'x','env':{'A_TOKEN':'abcdef','B_TOKEN':'abcdefgh'}}"
	expect(TWO, "abcdefgh abcdefg", "*** ***g");
	ck_assert_ptr_null(redactor_for("{'command':'x'}"));
	ck_assert(span_is(redact(NULL, SPAN_LIT("text"), NULL), "text"));
	redactor_free(NULL);
}
END_TEST

int main(void)
{
	return RUN_TESTS("redact", variables_by_name_and_by_look, headers_whole_and_without_their_scheme,
			 arguments_and_urls, variables_that_are_expanded_anywhere, the_longest_counts);
}

/* uri_template: which URIs a template may have made (RFC 6570; PROTOCOL "MCP dialect"). */
#include "ipc/uri_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/guard.h"
#include "tests/unit/run.h"

static bool match(const char *template, const char *uri)
{
	/* The template ends where memory ends; the URI is on the heap, where sanitizers look. */
	char *copy = malloc(strlen(uri) + 1);
	memcpy(copy, uri, strlen(uri));
	bool matches = uri_template_match(guard_copy(span_of(template)), (struct span){ copy, strlen(uri) });
	free(copy);
	return matches;
}

struct pair {
	const char *template, *uri;
};

/* The examples of RFC 6570, section 3.2, an expansion for each kind of value. */
static const struct pair rfc_examples[] = {
	{ "{count}", "one,two,three" },
	{ "{count*}", "one,two,three" },
	{ "{/count}", "/one,two,three" },
	{ "{/count*}", "/one/two/three" },
	{ "{;count}", ";count=one,two,three" },
	{ "{;count*}", ";count=one;count=two;count=three" },
	{ "{?count}", "?count=one,two,three" },
	{ "{?count*}", "?count=one&count=two&count=three" },
	{ "{&count*}", "&count=one&count=two&count=three" },
	{ "{var}", "value" },
	{ "{hello}", "Hello%20World%21" },
	{ "{half}", "50%25" },
	{ "O{empty}X", "OX" },
	{ "O{undef}X", "OX" },
	{ "{x,y}", "1024,768" },
	{ "{x,hello,y}", "1024,Hello%20World%21,768" },
	{ "?{x,empty}", "?1024," },
	{ "?{x,undef}", "?1024" },
	{ "?{undef,y}", "?768" },
	{ "{var:3}", "val" },
	{ "{var:30}", "value" },
	{ "{list}", "red,green,blue" },
	{ "{list*}", "red,green,blue" },
	{ "{keys}", "semi,%3B,dot,.,comma,%2C" },
	{ "{keys*}", "semi=%3B,dot=.,comma=%2C" },
	{ "{+var}", "value" },
	{ "{+hello}", "Hello%20World!" },
	{ "{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex" },
	{ "{+base}index", "http://example.com/home/index" },
	{ "O{+empty}X", "OX" },
	{ "O{+undef}X", "OX" },
	{ "{+path}/here", "/foo/bar/here" },
	{ "here?ref={+path}", "here?ref=/foo/bar" },
	{ "up{+path}{var}/here", "up/foo/barvalue/here" },
	{ "{+x,hello,y}", "1024,Hello%20World!,768" },
	{ "{+path,x}/here", "/foo/bar,1024/here" },
	{ "{+path:6}/here", "/foo/b/here" },
	{ "{+list*}", "red,green,blue" },
	{ "{+keys}", "semi,;,dot,.,comma,," },
	{ "{+keys*}", "semi=;,dot=.,comma=," },
	{ "{#var}", "#value" },
	{ "{#hello}", "#Hello%20World!" },
	{ "foo{#empty}", "foo#" },
	{ "foo{#undef}", "foo" },
	{ "{#x,hello,y}", "#1024,Hello%20World!,768" },
	{ "{#path,x}/here", "#/foo/bar,1024/here" },
	{ "{#path:6}/here", "#/foo/b/here" },
	{ "{#keys*}", "#semi=;,dot=.,comma=," },
	{ "{.who}", ".fred" },
	{ "{.who,who}", ".fred.fred" },
	{ "{.half,who}", ".50%25.fred" },
	{ "www{.dom*}", "www.example.com" },
	{ "X{.var}", "X.value" },
	{ "X{.empty}", "X." },
	{ "X{.undef}", "X" },
	{ "X{.var:3}", "X.val" },
	{ "X{.list}", "X.red,green,blue" },
	{ "X{.list*}", "X.red.green.blue" },
	{ "X{.keys}", "X.semi,%3B,dot,.,comma,%2C" },
	{ "X{.keys*}", "X.semi=%3B.dot=..comma=%2C" },
	{ "X{.empty_keys}", "X" },
	{ "{/who}", "/fred" },
	{ "{/who,who}", "/fred/fred" },
	{ "{/half,who}", "/50%25/fred" },
	{ "{/var,empty}", "/value/" },
	{ "{/var,undef}", "/value" },
	{ "{/var,x}/here", "/value/1024/here" },
	{ "{/var:1,var}", "/v/value" },
	{ "{/list}", "/red,green,blue" },
	{ "{/list*}", "/red/green/blue" },
	{ "{/list*,path:4}", "/red/green/blue/%2Ffoo" },
	{ "{/keys}", "/semi,%3B,dot,.,comma,%2C" },
	{ "{/keys*}", "/semi=%3B/dot=./comma=%2C" },
	{ "{;who}", ";who=fred" },
	{ "{;half}", ";half=50%25" },
	{ "{;empty}", ";empty" },
	{ "{;v,empty,who}", ";v=6;empty;who=fred" },
	{ "{;v,bar,who}", ";v=6;who=fred" },
	{ "{;x,y,empty}", ";x=1024;y=768;empty" },
	{ "{;x,y,undef}", ";x=1024;y=768" },
	{ "{;hello:5}", ";hello=Hello" },
	{ "{;list*}", ";list=red;list=green;list=blue" },
	{ "{;keys}", ";keys=semi,%3B,dot,.,comma,%2C" },
	{ "{;keys*}", ";semi=%3B;dot=.;comma=%2C" },
	{ "{?who}", "?who=fred" },
	{ "{?x,y}", "?x=1024&y=768" },
	{ "{?x,y,empty}", "?x=1024&y=768&empty=" },
	{ "{?x,y,undef}", "?x=1024&y=768" },
	{ "{?var:3}", "?var=val" },
	{ "{?list*}", "?list=red&list=green&list=blue" },
	{ "{?keys}", "?keys=semi,%3B,dot,.,comma,%2C" },
	{ "{?keys*}", "?semi=%3B&dot=.&comma=%2C" },
	{ "{&who}", "&who=fred" },
	{ "?fixed=yes{&x}", "?fixed=yes&x=1024" },
	{ "{&x,y,empty}", "&x=1024&y=768&empty=" },
	{ "{&var:3}", "&var=val" },
	{ "{&list*}", "&list=red&list=green&list=blue" },
	{ "{&keys*}", "&semi=%3B&dot=.&comma=%2C" },
};

START_TEST(what_the_rfc_expands_matches)
{
	for (size_t i = 0; i < sizeof(rfc_examples) / sizeof(*rfc_examples); i++)
		ck_assert_msg(match(rfc_examples[i].template, rfc_examples[i].uri), "%s %s", rfc_examples[i].template,
			      rfc_examples[i].uri);
}
END_TEST

static const struct pair others_that_match[] = {
	/* As servers write them. */
	{ "file:///{path}", "file:///notes.txt" },
	{ "file:///{+path}", "file:///a/b/notes.txt" },
	{ "test://template/{id}/data", "test://template/123/data" },
	{ "db://{table}/{row}", "db://users/12" },
	{ "git://{owner}/{repo}/contents{/path*}", "git://a/b/contents/c/d.txt" },
	{ "git://{owner}/{repo}/contents{/path*}", "git://a/b/contents" },
	{ "search://items{?q,limit}", "search://items?q=a%20b&limit=3" },
	{ "search://items{?q,limit}", "search://items?limit=3" },
	{ "search://items{?q,limit}", "search://items" },
	{ "x://{user-id}", "x://7" },
	{ "x://{a.b}", "x://7" },
	{ "x://{%41b}", "x://7" },
	{ "no-template://at-all", "no-template://at-all" },
	{ "", "" },
	/* Laxer than the RFC. */
	{ "files://{path*}", "files://a/b/c.txt" },
	{ "search://items{?q,limit}", "search://items?limit=3&q=x" },
	{ "search://items{?q}", "search://items?q=a=b/c?d" },
	{ "users://{name}", "users://o'brien@example.com:x y" },
	{ "users://{name}", "users://J\xc3\xbcrgen" },
	/* Literals that are encoded in what is made, or are not. */
	{ "caf\xc3\xa9://{x}", "caf%C3%a9://1" },
	{ "caf\xc3\xa9://{x}", "caf\xc3\xa9://1" },
	{ "x://a b/{x}", "x://a%20b/1" },
	{ "x://50%25/{x}", "x://50%25/1" },
	/* Prefixes count characters of what was encoded. */
	{ "x://{v:2}", "x://%C3%A9%E2%82%AC" },
	{ "x://{v:2}", "x://\xc3\xa9\xe2\x82\xac" },
	{ "x://{v:2}", "x://%41b" },
	{ "x://{v:9999}", "x://abc" },
	/* Several ways, one of which ends well. */
	{ "{a}x{b}x", "xxxxx" },
	{ "{a}{b}{c}.txt", "a.txt.txt" },
	{ "{/a,b,c*}/end{;d}{?e}{#f}", "/1/end/2/end;d?e=1#2" },
	{ "{v:2}{w:3}", "abcde" },
};

static const struct pair no_match[] = {
	{ "file:///{path}", "file:///a/b" },
	{ "file:///{path}", "file:///a?b" },
	{ "file:///{path}", "file:///a#b" },
	{ "file:///{path}", "file:/" },
	{ "file:///{path}", "files:///a" },
	{ "file:///{path}", "xfile:///a" },
	{ "file:///{path}/end", "file:///a/en" },
	{ "file:///{path}/end", "file:///a/endx" },
	{ "test://template/{id}/data", "test://template/1/2/data" },
	{ "db://{table}/{row}", "db://users" },
	{ "{/a}", "x" },
	{ "{/a}", "/x/y" },
	{ "{/a,b}", "/x/y/z" },
	{ "{.a}", "x" },
	{ "{#a}", "x" },
	{ "{;a}", ";b=1" },
	{ "{;a}", ";ab" },
	{ "{;a}", ";a=1;;a" },
	{ "{;a}", "a=1" },
	{ "{;a}", ";" },
	{ "{?a}", "?a" },
	{ "{?a}", "?b=1" },
	{ "{?a}", "?a=1&b=2" },
	{ "{?a,b}", "?a=1&" },
	{ "{?a}", "&a=1" },
	{ "{?a}", "?a=1#x" },
	{ "{&a}", "?a=1" },
	{ "{v:2}", "abc" },
	{ "x://{v:2}", "x://%C3%A9%E2%82%ACx" },
	{ "x://{v:2}", "x://%41%42%43" },
	{ "{?v:2}", "?v=abc" },
	{ "{v:2}{w:3}", "abcdef" },
	{ "x://{v}", "x://a\nb" },
	{ "x://{v}", "" },
	{ "a", "" },
	{ "", "a" },
	{ "x://a{v}", "x://%61" },
	{ "x://50%25", "x://50%" },
};

START_TEST(other_uris_match_or_do_not)
{
	for (size_t i = 0; i < sizeof(others_that_match) / sizeof(*others_that_match); i++)
		ck_assert_msg(match(others_that_match[i].template, others_that_match[i].uri), "%s %s",
			      others_that_match[i].template, others_that_match[i].uri);
	for (size_t i = 0; i < sizeof(no_match) / sizeof(*no_match); i++)
		ck_assert_msg(!match(no_match[i].template, no_match[i].uri), "%s %s", no_match[i].template,
			      no_match[i].uri);
}
END_TEST

START_TEST(what_is_no_template_matches_nothing)
{
	static const char *const bad[] = {
		"{",    "}",     "x{",     "x}",    "{}",        "{+}",    "{a",      "a}",       "{{a}}",   "{a{b}}",
		"{a}}", "{a b}", "{a,}",   "{,a}",  "{a,,b}",    "{=a}",   "{!a}",    "{@a}",     "{|a}",    "{$a}",
		"{a:}", "{a:0}", "{a:01}", "{a:x}", "{a:10000}", "{a*:3}", "{a:3*}",  "{a**}",    "{.a..b}", "{a.}",
		"{%4}", "{%zz}", "{a%}",   "{??a}", "{*}",       "{:3}",   "{a}\x01", "a\x7f{b}", "{..a}",   "{a/b}",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		static const char *const uris[] = { "", "a", "x", "x{", "x}", "1", "}", "{", "1}", "a/b" };
		for (size_t j = 0; j < sizeof(uris) / sizeof(*uris); j++)
			ck_assert_msg(!match(bad[i], uris[j]), "%s %s", bad[i], uris[j]);
		ck_assert_msg(!match(bad[i], bad[i]), "%s", bad[i]);
		ck_assert_msg(uri_template_weight(span_of(bad[i])) == 0, "%s", bad[i]);
	}
	/* Also behind what cannot match any more. */
	ck_assert(!match("a{", "b"));
	ck_assert(!match("a{b}{", "a"));
}
END_TEST

START_TEST(the_weight_is_what_is_outside_the_expressions)
{
	static const struct {
		const char *template;
		size_t weight;
	} weights[] = { { "", 0 }, { "{+all}", 0 }, { "db://{table}", 5 }, { "db://{t}/x{?y,z}", 7 }, { "abc", 3 } };
	for (size_t i = 0; i < sizeof(weights) / sizeof(*weights); i++)
		ck_assert_uint_eq(uri_template_weight(span_of(weights[i].template)), weights[i].weight);
}
END_TEST

/* head, then unit n times, then tail; free() it. */
static char *repeat(const char *head, const char *unit, size_t n, const char *tail)
{
	char *text = malloc(strlen(head) + n * strlen(unit) + strlen(tail) + 1);
	strcpy(text, head);
	char *at = text + strlen(head);
	for (; n > 0; n--)
		at = stpcpy(at, unit);
	strcpy(at, tail);
	return text;
}

START_TEST(what_is_too_long_matches_nothing)
{
	char *template = repeat("", "a", URI_TEMPLATE_MAX_BYTES, ""),
	     *longer = repeat("", "a", URI_TEMPLATE_MAX_BYTES + 1, "");
	ck_assert(match(template, template));
	ck_assert(!match(longer, longer));
	ck_assert_uint_eq(uri_template_weight(span_of(longer)), 0);
	char *uri = repeat("", "a", URI_TEMPLATE_URI_MAX_BYTES, ""),
	     *longer_uri = repeat("", "a", URI_TEMPLATE_URI_MAX_BYTES + 1, "");
	ck_assert(match("{a}", uri));
	ck_assert(!match("{a}", longer_uri));
	char *many = repeat("{a", ",a", URI_TEMPLATE_MAX_VARIABLES - 1, "}"),
	     *too_many = repeat("{a", ",a", URI_TEMPLATE_MAX_VARIABLES, "}");
	ck_assert(match(many, "x"));
	ck_assert(!match(too_many, "x"));
	free(template);
	free(longer);
	free(uri);
	free(longer_uri);
	free(many);
	free(too_many);
}
END_TEST

/* Templates on which a matcher that goes back never ends. */
START_TEST(hostile_templates_take_no_time)
{
	static const struct {
		const char *head, *unit;
		size_t n;
	} hostile[] = {
		{ "", "{a}", 32 },   { "", "{+a}", 32 },        { "", "{a}a", 32 },     { "", "{a*}{+b}a", 16 },
		{ "", "{/a*}", 32 }, { "", "{?a*}", 32 },       { "{a*}", "a", 2000 },  { "", "{a:9999}", 32 },
		{ "", "{a:1}", 32 }, { "{a}", "{;a}{?a}", 15 }, { "{+a}", "%61", 600 }, { "{?a}", "{;a*,b*,c}", 10 },
	};
	static const char *const units[] = { "a", "a,", "/a", "a=", "%61", "&a=", "?a=a&", ";a" };
	clock_t worst = 0;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		char *template = repeat(hostile[i].head, hostile[i].unit, hostile[i].n, "!");
		ck_assert_uint_gt(uri_template_weight(span_of(template)), 0);
		for (size_t j = 0; j < sizeof(units) / sizeof(*units); j++) {
			char *uri = repeat("", units[j], URI_TEMPLATE_URI_MAX_BYTES / strlen(units[j]), "");
			clock_t start = clock();
			ck_assert(!match(template, uri));
			clock_t took = clock() - start;
			worst = took > worst ? took : worst;
			free(uri);
		}
		free(template);
	}
	/* Milliseconds; with sanitizers some more. */
	ck_assert_int_lt(worst, 2 * CLOCKS_PER_SEC);
}
END_TEST

/* A plain expander (RFC 6570, section 3) of strings, over whose results the matcher must not stumble. */
static unsigned random_below(unsigned n)
{
	return (unsigned)rand() % n;
}

static void add_value(char *out, const char *value, size_t max, bool reserved)
{
	for (size_t i = 0; value[i] && i < max; i++) {
		bool keep = strchr("abcxyz019-._~", value[i]) || (reserved && strchr(":/?#[]@!$&'()*+,;=", value[i]));
		sprintf(out + strlen(out), keep ? "%c" : "%%%02X", (unsigned char)value[i]);
	}
}

static void expand_randomly(char *template, char *uri)
{
	static const char symbols[] = "+#./;?&", firsts[] = "\0#./;?&",
			  betweens[] = ",,./;&&", *const literals[] = { "a", "/", "x=", "%20", ".", "?" };
	template[0] = uri[0] = '\0';
	for (unsigned n = random_below(5); n > 0; n--) {
		const char *literal = literals[random_below(6)];
		strcat(template, literal);
		strcat(uri, literal);
		unsigned op = random_below(8);
		char symbol[2] = { symbols[op], 0 }, first[2] = { op < 7 ? firsts[op] : 0, 0 },
		     between[2] = { op < 7 ? betweens[op] : ',', 0 };
		bool any = false;
		strcat(strcat(template, "{"), symbol);
		for (unsigned v = 0, n_variables = 1 + random_below(3); v < n_variables; v++) {
			static const char *const values[] = { "", "abc", "/", "a b", "x/y", "&=;,", "z.z", "%", "?#" };
			unsigned max = random_below(3);
			sprintf(template + strlen(template), "%sv%u", v ? "," : "", v);
			if (max)
				sprintf(template + strlen(template), ":%u", max);
			if (random_below(3) == 0)
				continue;
			const char *value = values[random_below(9)];
			strcat(uri, any ? between : first);
			any = true;
			if (op >= 4 && op < 7)
				sprintf(uri + strlen(uri), "v%u%s", v, *value || op > 4 ? "=" : "");
			add_value(uri, value, max ? max : 99, op < 2);
		}
		strcat(template, "}");
	}
}

START_TEST(whatever_is_expanded_matches)
{
	srand(6570);
	for (int i = 0; i < 20000; i++) {
		char template[512], uri[1024];
		expand_randomly(template, uri);
		ck_assert_msg(match(template, uri), "%s %s", template, uri);
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS("uri_template", what_the_rfc_expands_matches, other_uris_match_or_do_not,
			 what_is_no_template_matches_nothing, the_weight_is_what_is_outside_the_expressions,
			 what_is_too_long_matches_nothing, hostile_templates_take_no_time,
			 whatever_is_expanded_matches);
}

/* digest: SHA-256 against its published vectors, and that different items never give the same input (M3). */
#include "config/digest.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/run.h"

static void whole(struct digest *d, char ret[static 65])
{
	unsigned char bytes[32];
	digest_end(d, bytes);
	for (int i = 0; i < 32; i++)
		sprintf(ret + 2 * i, "%02x", bytes[i]);
}

/* The examples of FIPS 180-4's companion document, and the empty message. */
static const struct {
	const char *text, *hash;
} vectors[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
	  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
};

START_TEST(m3_the_hash_is_sha_256)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		struct digest d;
		char got[65];
		digest_init(&d);
		digest_bytes(&d, vectors[i].text, strlen(vectors[i].text));
		whole(&d, got);
		ck_assert_str_eq(got, vectors[i].hash);
	}
}
END_TEST

START_TEST(a_million_bytes_in_pieces_of_any_size)
{
	char piece[997];
	memset(piece, 'a', sizeof(piece));
	struct digest d;
	digest_init(&d);
	size_t left = 1000000;
	for (size_t size = 1; left > 0; size = size % sizeof(piece) + 1) {
		size_t take = size < left ? size : left;
		digest_bytes(&d, piece, take);
		left -= take;
	}
	char got[65];
	whole(&d, got);
	ck_assert_str_eq(got, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

START_TEST(the_hex_is_the_first_half_and_the_digest_goes_on)
{
	struct digest d;
	char first[DIGEST_HEX], second[DIGEST_HEX], got[65];
	digest_init(&d);
	digest_bytes(&d, "ab", 2);
	digest_hex(&d, first);
	digest_bytes(&d, "c", 1);
	digest_hex(&d, second);
	ck_assert_str_eq(second, "ba7816bf8f01cfea414140de5dae2223");
	ck_assert_str_ne(first, second);
	whole(&d, got);
	ck_assert_str_eq(got, vectors[1].hash);
}
END_TEST

/* The digest of a few lists. */
static void digest_of(char ret[static DIGEST_HEX], char *const *a, char *const *b, const char *text)
{
	struct digest d;
	digest_init(&d);
	digest_list(&d, a);
	digest_list(&d, b);
	digest_text(&d, text);
	digest_hex(&d, ret);
}

START_TEST(m3_items_keep_their_borders)
{
	char *const none[] = { NULL };
	char *const empty[] = { "", NULL };
	char *const ab_c[] = { "ab", "c", NULL };
	char *const a_bc[] = { "a", "bc", NULL };
	char *const ab[] = { "ab", NULL };
	char *const c[] = { "c", NULL };
	char got[8][DIGEST_HEX];
	digest_of(got[0], none, none, NULL);
	digest_of(got[1], none, none, "");
	digest_of(got[2], empty, none, NULL);
	digest_of(got[3], none, empty, NULL);
	digest_of(got[4], ab_c, none, NULL);
	digest_of(got[5], a_bc, none, NULL);
	digest_of(got[6], ab, c, NULL);
	digest_of(got[7], none, ab_c, NULL);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < i; j++)
			ck_assert_msg(strcmp(got[i], got[j]) != 0, "%d and %d", i, j);
}
END_TEST

START_TEST(m3_a_set_has_no_order_and_a_list_has)
{
	char *const ab[] = { "a", "b", NULL };
	char *const ba[] = { "b", "a", NULL };
	struct digest set_ab, set_ba, list_ab, list_ba;
	char x[DIGEST_HEX], y[DIGEST_HEX];
	digest_init(&set_ab);
	set_ba = list_ab = list_ba = set_ab;
	digest_set(&set_ab, ab);
	digest_set(&set_ba, ba);
	digest_hex(&set_ab, x);
	digest_hex(&set_ba, y);
	ck_assert_str_eq(x, y);
	digest_list(&list_ab, ab);
	digest_list(&list_ba, ba);
	digest_hex(&list_ab, x);
	digest_hex(&list_ba, y);
	ck_assert_str_ne(x, y);
	/* The caller's list stays as it was. */
	ck_assert_str_eq(ba[0], "b");
}
END_TEST

int main(void)
{
	return RUN_TESTS("digest", m3_the_hash_is_sha_256, a_million_bytes_in_pieces_of_any_size,
			 the_hex_is_the_first_half_and_the_digest_goes_on, m3_items_keep_their_borders,
			 m3_a_set_has_no_order_and_a_list_has);
}

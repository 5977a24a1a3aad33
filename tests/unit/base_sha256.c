// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/sha256.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static void published_vectors(void **state)
{
	(void)state;
	static const struct {
		const char *text, *hex;
	} v[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char hex[SHA256_HEX];
	for (size_t i = 0; i < countof(v); i++) {
		sha256_hex(v[i].text, strlen(v[i].text), hex);
		assert_string_equal(hex, v[i].hex);
	}
	struct sha256 s;
	sha256_init(&s);
	for (int i = 0; i < 1000; i++) {
		char a[1000];
		memset(a, 'a', sizeof a);
		sha256_add(&s, a, sizeof a);
	}
	sha256_end_hex(&s, hex);
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Every length around the block size, in pieces of every size: the same as at once.
static void pieces_make_no_difference(void **state)
{
	(void)state;
	char text[200], whole[SHA256_HEX], parts[SHA256_HEX];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i * 7);
	for (size_t n = 0; n <= sizeof text; n++) {
		sha256_hex(text, n, whole);
		for (size_t step = 1; step < 70; step += 9) {
			struct sha256 s;
			sha256_init(&s);
			for (size_t at = 0; at < n; at += step)
				sha256_add(&s, text + at, n - at < step ? n - at : step);
			sha256_end_hex(&s, parts);
			assert_string_equal(parts, whole);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_vectors),
					   cmocka_unit_test(pieces_make_no_difference)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

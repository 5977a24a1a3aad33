// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void random_bytes(unsigned char *p, size_t n)
{
	if (getrandom(p, n, 0) != (ssize_t)n)
		abort();
}

void id_make(char kind, char out[ID_SIZE])
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char r[32];
	int n = 0;
	out[n++] = kind;
	while (n < 16) {
		random_bytes(r, sizeof r);
		for (size_t i = 0; i < sizeof r && n < 16; i++)
			if (r[i] < 252) // 7 * 36: no digit is favoured
				out[n++] = digits[r[i] % 36];
	}
	out[n] = 0;
}

bool id_is(const char *s)
{
	size_t n = strlen(s);
	return n >= 12 && n < ID_SIZE && s[0] >= 'a' && s[0] <= 'z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == n;
}

void key_make(char out[KEY_SIZE])
{
	unsigned char r[16];
	random_bytes(r, sizeof r);
	str_hex(out, r, sizeof r);
}

bool key_equal(const char *a, const char *b)
{
	size_t n = strlen(a);
	unsigned char diff = 0;
	if (n != strlen(b))
		return false;
	for (size_t i = 0; i < n; i++)
		diff |= a[i] ^ b[i];
	return !diff;
}

bool name_is_valid(const char *s)
{
	size_t n = strlen(s);
	return n >= 1 && n <= 40 && s[0] != '-' && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && !id_is(s);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

void base64_add(struct buf *b, const void *p, size_t n)
{
	static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *s = p;
	for (; n >= 3; s += 3, n -= 3) {
		char four[] = {abc[s[0] >> 2], abc[(s[0] & 3) << 4 | s[1] >> 4], abc[(s[1] & 15) << 2 | s[2] >> 6], abc[s[2] & 63]};
		buf_add(b, four, 4);
	}
	if (n) {
		uint8_t second = n == 2 ? s[1] : 0;
		char four[] = {abc[s[0] >> 2], abc[(s[0] & 3) << 4 | second >> 4], n == 2 ? abc[(second & 15) << 2] : '=', '='};
		buf_add(b, four, 4);
	}
}

static int value(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+' || c == '-' ? 62
	       : c == '/' || c == '_' ? 63
				      : -1;
}

int base64_decode(const char *p, size_t n, struct buf *out)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t padded = n;
	while (n && p[n - 1] == '=' && padded - n < 2)
		n--;
	if (n % 4 == 1 || (padded != n && padded % 4))
		return -1;
	for (size_t i = 0; i < n; i++) {
		int v = value(p[i]);
		if (v < 0)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_byte(out, (char)(bits >> have & 0xff));
		}
	}
	return bits & ((1u << have) - 1) || out->overflow ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
// Layout, big-endian: magic, version 2, count; per entry: 2, alias, time, "X.509", length, DER; then the SHA-1 of
// password (UTF-16), a fixed word, and everything before.
#include "isolate/jks.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

#define MAGIC 0xfeedfeedu
#define CERT_MAX (64u << 10)
#define STORE_MAX (4u << 20)

// --- SHA-1: as a checksum, which is all it is here ---

static uint32_t rol(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static void sha1_block(struct sha1 *s, const uint8_t *p)
{
	uint32_t w[80], a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
		       p[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20   ? (b & c) | (~b & d)
			     : i < 40 ? b ^ c ^ d
			     : i < 60 ? (b & c) | (b & d) | (c & d)
				      : b ^ c ^ d;
		uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
		uint32_t t = rol(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rol(b, 30);
		b = a;
		a = t;
	}
	s->h[0] += a;
	s->h[1] += b;
	s->h[2] += c;
	s->h[3] += d;
	s->h[4] += e;
}

static void sha1_add(struct sha1 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		size_t at = s->bytes % 64, k = 64 - at < n ? 64 - at : n;
		memcpy(s->block + at, p, k);
		s->bytes += k;
		p += k;
		n -= k;
		if (at + k == 64)
			sha1_block(s, s->block);
	}
}

static void sha1_end(struct sha1 *s, uint8_t out[20])
{
	uint8_t pad[72] = {0x80}, len[8];
	for (int i = 0; i < 8; i++)
		len[i] = (uint8_t)(s->bytes * 8 >> (56 - 8 * i));
	sha1_add(s, pad, 1 + (119 - s->bytes % 64) % 64);
	sha1_add(s, len, sizeof len);
	for (int i = 0; i < 20; i++)
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

// --- PEM ---

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// out: empty before
static bool decode(const char *p, const char *end, struct buf *out)
{
	uint32_t bits = 0;
	int have = 0;
	char *to = buf_room(out, (size_t)(end - p));
	if (!to)
		return false;
	for (; p < end && *p != '='; p++) {
		int v = base64_value(*p);
		if (v < 0 && strchr("\r\n\t ", *p))
			continue;
		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8)
			to[out->n++] = (char)(bits >> (have -= 8));
	}
	return out->n > 0;
}

// The next certificate at or after *p, as DER. False when there is none.
static bool next_cert(const char **p, struct buf *der)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----";
	for (;;) {
		const char *from = strstr(*p, begin), *to = from ? strstr(from, end) : NULL;
		if (!to)
			return false;
		*p = to + strlen(end);
		buf_clear(der);
		der->overflow = false;
		if (decode(from + strlen(begin), to, der))
			return true;
	}
}

// --- the store ---

static void be32(struct buf *b, uint32_t v)
{
	for (int i = 24; i >= 0; i -= 8)
		buf_byte(b, (char)(v >> i));
}

static void utf(struct buf *b, const char *s)
{
	size_t n = strlen(s);
	buf_byte(b, (char)(n >> 8));
	buf_byte(b, (char)n);
	buf_str(b, s);
}

static void entry(struct buf *b, const char *alias, const struct buf *der)
{
	be32(b, 2); // a trusted certificate
	utf(b, alias);
	be32(b, 0); // time of entry
	be32(b, 0);
	utf(b, "X.509");
	be32(b, (uint32_t)der->n);
	buf_add(b, der->p, der->n);
}

static void put_count(struct buf *b, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		b->p[8 + i] = (char)(n >> (24 - 8 * i));
}

void jks_init(struct jks *j, const char *pem)
{
	static const char password[] = "\0c\0h\0a\0n\0g\0e\0i\0t", word[] = "Mighty Aphrodite";
	auto_buf struct buf der = BUF_INIT(CERT_MAX);
	uint32_t n = 0;
	*j = (struct jks){.bytes = BUF_INIT(STORE_MAX),
			  .state.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
	be32(&j->bytes, MAGIC);
	be32(&j->bytes, 2);
	be32(&j->bytes, 0);
	while (next_cert(&pem, &der)) {
		auto_free char *alias = xasprintf("ca%u", n++);
		entry(&j->bytes, alias, &der);
	}
	put_count(&j->bytes, n + 1);
	sha1_add(&j->state, password, sizeof password - 1);
	sha1_add(&j->state, word, sizeof word - 1);
	sha1_add(&j->state, j->bytes.p, j->bytes.n);
}

void jks_done(struct jks *j)
{
	buf_done(&j->bytes);
}

int jks_tail(const struct jks *j, const char *pem, struct buf *out, struct err *e)
{
	auto_buf struct buf der = BUF_INIT(CERT_MAX);
	struct sha1 s = j->state;
	uint8_t sum[20];
	if (!next_cert(&pem, &der) || j->bytes.overflow)
		return err_set(e, ERR_INVALID, "not a certificate in PEM");
	entry(out, "skep-gate", &der);
	sha1_add(&s, out->p, out->n);
	sha1_end(&s, sum);
	buf_add(out, sum, sizeof sum);
	return out->overflow ? err_set(e, ERR_LIMIT, "the certificate is too large") : 0;
}

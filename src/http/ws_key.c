// SPDX-License-Identifier: Apache-2.0
// The handshake's one computation. SHA-1 is no protection here, only what RFC 6455 wants; no library of skepd has it.
#include "http/ws.h"

#include <string.h>

static uint32_t rotl(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static void block(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
		uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
		uint32_t t = rotl(a, 5) + f + e + k + w[i];
		e = d, d = c, c = rotl(b, 30), b = a, a = t;
	}
	h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

// Of less than 120 bytes.
static void sha1_short(const uint8_t *p, size_t n, uint8_t out[20])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t all[128] = {0};
	size_t len = n < 56 ? 64 : 128;
	memcpy(all, p, n);
	all[n] = 0x80;
	for (int i = 0; i < 4; i++)
		all[len - 1 - (size_t)i] = (uint8_t)((uint32_t)n * 8 >> 8 * i);
	for (size_t at = 0; at < len; at += 64)
		block(h, all + at);
	for (int i = 0; i < 20; i++)
		out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool ws_accept(const char *key, char out[WS_KEY_SIZE])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t all[24 + sizeof guid], sum[21] = {0};
	if (!key || strlen(key) != 24 || strspn(key, digits) != 22 || strcmp(key + 22, "=="))
		return false;
	memcpy(all, key, 24);
	memcpy(all + 24, guid, sizeof guid - 1);
	sha1_short(all, 24 + sizeof guid - 1, sum);
	for (int i = 0; i < 7; i++) {
		uint32_t v = (uint32_t)sum[3 * i] << 16 | (uint32_t)sum[3 * i + 1] << 8 | sum[3 * i + 2];
		for (int k = 0; k < 4; k++)
			out[4 * i + k] = digits[v >> (18 - 6 * k) & 63];
	}
	out[27] = '=';
	out[28] = 0;
	return true;
}

// SPDX-License-Identifier: Apache-2.0
// Codes are walked bit by bit along their canonical numbers: slower than tables, and short enough to be read.
#include "base/gunzip.h"

#include "base/mem.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 32768u
#define CODE_BITS 15
#define LITERALS 288
#define DISTANCES 32

// count[n]: how many codes have n bits; symbols in the order of their codes.
struct code {
	uint16_t count[CODE_BITS + 1], symbol[LITERALS];
};

struct gunzip {
	int fd;
	struct err *e;
	uint8_t in[65536];
	size_t at, n;
	uint32_t kept; // bits not used yet
	int n_kept;
	uint8_t window[WINDOW];
	uint32_t total, crc; // bytes given of this member (modulo 2^32), and their checksum
	uint32_t given;	     // of them, how many the window has
	enum { MEMBER, BLOCK, STORED, CODED, OVER } state;
	bool last, first; // block of the member; member of the stream
	uint32_t stored, copy, distance; // bytes left of a stored block; of a repetition
	struct code literal, distances;
};

static int broken(struct gunzip *g, const char *what)
{
	return err_set(g->e, ERR_INVALID, "malformed gzip: %s", what);
}

// -1 = the end, or a failure.
static int more(struct gunzip *g)
{
	ssize_t n;
	if (g->at < g->n)
		return g->in[g->at++];
	do
		n = read(g->fd, g->in, sizeof g->in);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(g->e, "read");
	g->at = 0;
	g->n = (size_t)n;
	return n ? g->in[g->at++] : broken(g, "it ends early");
}

static long bits(struct gunzip *g, int n)
{
	while (g->n_kept < n) {
		int byte = more(g);
		if (byte < 0)
			return -1;
		g->kept |= (uint32_t)byte << g->n_kept;
		g->n_kept += 8;
	}
	long v = (long)(g->kept & ((1u << n) - 1));
	g->kept >>= n;
	g->n_kept -= n;
	return v;
}

static int decode(struct gunzip *g, const struct code *c)
{
	int code = 0, first = 0, index = 0;
	for (int n = 1; n <= CODE_BITS; n++) {
		long bit = bits(g, 1);
		if (bit < 0)
			return -1;
		code |= (int)bit;
		if (code - c->count[n] < first)
			return c->symbol[index + (code - first)];
		index += c->count[n];
		first = (first + c->count[n]) << 1;
		code <<= 1;
	}
	return broken(g, "a code that none is");
}

// lengths: bits of the code of each symbol. A set of codes that leaves some out is for one symbol only.
static int make_code(struct gunzip *g, struct code *c, const uint8_t *lengths, int n)
{
	uint16_t offset[CODE_BITS + 1] = {0};
	int left = 1;
	*c = (struct code){0};
	for (int i = 0; i < n; i++)
		c->count[lengths[i]]++;
	bool one = n - c->count[0] <= 1;
	c->count[0] = 0;
	for (int i = 1; i <= CODE_BITS; i++) {
		left = (left << 1) - c->count[i];
		if (left < 0)
			return broken(g, "too many codes");
	}
	if (left && !one)
		return broken(g, "codes are missing");
	for (int i = 1; i < CODE_BITS; i++)
		offset[i + 1] = (uint16_t)(offset[i] + c->count[i]);
	for (int i = 0; i < n; i++)
		if (lengths[i])
			c->symbol[offset[lengths[i]]++] = (uint16_t)i;
	return 0;
}

static int fixed_codes(struct gunzip *g)
{
	uint8_t lengths[LITERALS], fives[DISTANCES];
	for (int i = 0; i < LITERALS; i++)
		lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
	memset(fives, 5, sizeof fives); // the last two stand for nothing, and are refused where they occur
	return make_code(g, &g->literal, lengths, LITERALS) || make_code(g, &g->distances, fives, DISTANCES) ? -1 : 0;
}

// The lengths of both sets, themselves coded.
static int read_lengths(struct gunzip *g, const struct code *c, uint8_t *lengths, int n)
{
	for (int i = 0; i < n;) {
		int symbol = decode(g, c), repeat;
		uint8_t same = 0;
		if (symbol < 0)
			return -1;
		if (symbol < 16) {
			lengths[i++] = (uint8_t)symbol;
			continue;
		}
		if (symbol == 16 && !i)
			return broken(g, "nothing to repeat");
		if (symbol == 16)
			same = lengths[i - 1];
		long extra = bits(g, symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
		if (extra < 0)
			return -1;
		repeat = (symbol == 18 ? 11 : 3) + (int)extra;
		if (i + repeat > n)
			return broken(g, "too many codes");
		while (repeat--)
			lengths[i++] = same;
	}
	return 0;
}

static int own_codes(struct gunzip *g)
{
	static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	uint8_t lengths[LITERALS + DISTANCES] = {0};
	struct code c;
	long n_literal = bits(g, 5), n_distance = bits(g, 5), n_order = bits(g, 4);
	if (n_literal < 0 || n_distance < 0 || n_order < 0)
		return -1;
	n_literal += 257, n_distance += 1, n_order += 4;
	if (n_literal > 286 || n_distance > 30)
		return broken(g, "too many codes");
	for (int i = 0; i < n_order; i++) {
		long v = bits(g, 3);
		if (v < 0)
			return -1;
		lengths[order[i]] = (uint8_t)v;
	}
	if (make_code(g, &c, lengths, 19))
		return -1;
	memset(lengths, 0, sizeof lengths);
	if (read_lengths(g, &c, lengths, (int)(n_literal + n_distance)))
		return -1;
	if (!lengths[256])
		return broken(g, "a block without an end");
	return make_code(g, &g->literal, lengths, (int)n_literal) || make_code(g, &g->distances, lengths + n_literal, (int)n_distance) ? -1 : 0;
}

static long whole_u16(struct gunzip *g)
{
	int low = more(g), high = low < 0 ? -1 : more(g);
	return high < 0 ? -1 : low | high << 8;
}

static int begin_block(struct gunzip *g)
{
	long last = bits(g, 1), type = last < 0 ? -1 : bits(g, 2);
	if (type < 0)
		return -1;
	g->last = last;
	if (type == 3)
		return broken(g, "a block of no kind");
	g->state = type ? CODED : STORED;
	if (type)
		return type == 1 ? fixed_codes(g) : own_codes(g);
	g->kept = 0, g->n_kept = 0; // less than a byte: they are never read ahead of what is asked for
	long n = whole_u16(g), inverse = n < 0 ? -1 : whole_u16(g);
	if (inverse < 0)
		return -1;
	g->stored = (uint32_t)n;
	return n == (~inverse & 0xffff) ? 0 : broken(g, "a stored block's length");
}

// --- members ---

static int skip_text(struct gunzip *g)
{
	int byte;
	do
		byte = more(g);
	while (byte > 0);
	return byte;
}

static int begin_member(struct gunzip *g)
{
	uint8_t head[10];
	int byte = more(g);
	if (byte < 0 && !g->first && g->e->kind == ERR_INVALID) {
		g->state = OVER; // after a whole one
		return 0;
	}
	for (int i = 0; i < 10; i++, byte = i < 10 ? more(g) : 0) {
		if (byte < 0)
			return -1;
		head[i] = (uint8_t)byte;
	}
	if (head[0] != 0x1f || head[1] != 0x8b || head[2] != 8 || head[3] & 0xe0)
		return broken(g, "not its beginning");
	if (head[3] & 4) {
		long n = whole_u16(g);
		for (; n > 0; n--)
			if (more(g) < 0)
				return -1;
		if (n < 0)
			return -1;
	}
	if ((head[3] & 8 && skip_text(g)) || (head[3] & 16 && skip_text(g)) || (head[3] & 2 && whole_u16(g) < 0))
		return -1;
	g->first = false;
	g->total = g->given = 0;
	g->crc = 0;
	g->state = BLOCK;
	return 0;
}

static int end_member(struct gunzip *g)
{
	g->kept = 0, g->n_kept = 0;
	long a = whole_u16(g), b = a < 0 ? -1 : whole_u16(g), c = b < 0 ? -1 : whole_u16(g), d = c < 0 ? -1 : whole_u16(g);
	if (d < 0)
		return -1;
	if ((uint32_t)(a | b << 16) != g->crc || (uint32_t)(c | d << 16) != g->total)
		return broken(g, "its checksum is another one");
	g->state = MEMBER;
	return 0;
}

// --- bytes ---

static uint32_t crc_add(uint32_t crc, uint8_t byte)
{
	static uint32_t table[256];
	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t v = i;
			for (int k = 0; k < 8; k++)
				v = v & 1 ? 0xedb88320u ^ v >> 1 : v >> 1;
			table[i] = v;
		}
	return ~(table[(~crc ^ byte) & 255] ^ ~crc >> 8);
}

static uint8_t give(struct gunzip *g, uint8_t byte)
{
	g->window[g->total++ % WINDOW] = byte;
	g->given += g->given < WINDOW;
	g->crc = crc_add(g->crc, byte);
	return byte;
}

// A repetition: how far back, how long.
static int begin_copy(struct gunzip *g, int symbol)
{
	static const uint16_t lengths[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
	static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
	static const uint16_t distances[30] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769,
					       1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
	if (symbol > 285)
		return broken(g, "a length of no kind");
	long more_length = bits(g, length_bits[symbol - 257]);
	int d = more_length < 0 ? -1 : decode(g, &g->distances);
	if (d < 0)
		return -1;
	if (d > 29)
		return broken(g, "a distance of no kind");
	long more_distance = bits(g, d < 4 ? 0 : d / 2 - 1);
	if (more_distance < 0)
		return -1;
	g->copy = lengths[symbol - 257] + (uint32_t)more_length;
	g->distance = distances[d] + (uint32_t)more_distance;
	return g->distance <= g->given ? 0 : broken(g, "a repetition of what never was");
}

// The next byte, -1 failed, -2: there is none yet, or none any more.
static int next(struct gunzip *g)
{
	int byte;
	if (g->copy) {
		g->copy--;
		return give(g, g->window[(g->total - g->distance) % WINDOW]);
	}
	switch (g->state) {
	case MEMBER:
		return begin_member(g) ? -1 : -2;
	case BLOCK:
		return begin_block(g) ? -1 : -2;
	case STORED:
		if (!g->stored)
			break;
		g->stored--;
		byte = more(g);
		return byte < 0 ? -1 : give(g, (uint8_t)byte);
	case CODED:
		byte = decode(g, &g->literal);
		if (byte < 0)
			return -1;
		if (byte < 256)
			return give(g, (uint8_t)byte);
		if (byte > 256)
			return begin_copy(g, byte) ? -1 : -2;
		break;
	case OVER:
		return -2;
	}
	g->state = BLOCK;
	return g->last && end_member(g) ? -1 : -2;
}

long gunzip_read(struct gunzip *g, void *out, size_t n, struct err *e)
{
	uint8_t *p = out;
	size_t done = 0;
	g->e = e;
	while (done < n && g->state != OVER) {
		int byte = next(g);
		if (byte == -1)
			return -1;
		if (byte >= 0)
			p[done++] = (uint8_t)byte;
	}
	return (long)done;
}

struct gunzip *gunzip_new(int fd, const void *begun, size_t n)
{
	struct gunzip *g = xcalloc(1, sizeof *g);
	g->fd = fd;
	g->first = true;
	memcpy(g->in, begun, n < sizeof g->in ? n : sizeof g->in);
	g->n = n;
	return g;
}

void gunzip_free(struct gunzip *g)
{
	free(g);
}

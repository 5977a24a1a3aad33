// SPDX-License-Identifier: Apache-2.0
#include "api/e2b_gunzip.h"

#include "base/mem.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define OUT (64u << 10)
#define GZIP_ONLY (15 + 16)

struct gunzip {
	z_stream z;
	size_t (*to)(void *ctx, const char *p, size_t n);
	void *ctx;
	size_t at, n; // of out, not taken yet
	bool over, full; // the last member is over; there may be more output without more input
	char out[OUT];
};

struct gunzip *gunzip_new(size_t (*to)(void *ctx, const char *p, size_t n), void *ctx)
{
	struct gunzip *g = xcalloc(1, sizeof *g);
	g->to = to;
	g->ctx = ctx;
	if (inflateInit2(&g->z, GZIP_ONLY) != Z_OK)
		abort(); // no memory
	return g;
}

void gunzip_free(struct gunzip *g)
{
	if (g)
		inflateEnd(&g->z);
	free(g);
}

static bool drained(struct gunzip *g)
{
	if (g->at < g->n)
		g->at += g->to(g->ctx, g->out + g->at, g->n - g->at);
	return g->at == g->n;
}

long gunzip_feed(struct gunzip *g, const char *p, size_t n, struct err *e)
{
	g->z.next_in = (unsigned char *)(uintptr_t)p;
	g->z.avail_in = (unsigned)n;
	while (drained(g) && (g->z.avail_in || g->full)) {
		if (g->over && g->z.avail_in) { // one more member
			inflateReset(&g->z);
			g->over = false;
		}
		g->z.next_out = (unsigned char *)g->out;
		g->z.avail_out = OUT;
		int rc = inflate(&g->z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return err_set(e, ERR_INVALID, "the body is not gzip: %s", g->z.msg ? g->z.msg : "broken");
		g->over = rc == Z_STREAM_END;
		g->at = 0;
		g->n = OUT - g->z.avail_out;
		g->full = !g->z.avail_out && !g->over;
	}
	return (long)(n - g->z.avail_in);
}

int gunzip_end(struct gunzip *g, struct err *e)
{
	if (gunzip_feed(g, NULL, 0, e) < 0)
		return -1;
	if (g->at < g->n)
		return 0;
	return g->over ? 1 : err_set(e, ERR_INVALID, "the body is gzip without its end");
}

// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of a stream, however long it gets.
#include "api/mcp_site_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

void excerpt_init(struct excerpt *x, size_t max, uint64_t from)
{
	*x = (struct excerpt){.head = BUF_INIT(max / 2), .tail = BUF_INIT(max), .first = from, .next = from};
}

void excerpt_done(struct excerpt *x)
{
	buf_done(&x->head);
	buf_done(&x->tail);
}

static void add_tail(struct excerpt *x, const char *p, size_t n)
{
	size_t keep = x->tail.max / 2;
	if (n >= keep) {
		buf_clear(&x->tail);
		buf_add(&x->tail, p + n - keep, keep);
	} else {
		if (x->tail.n + n > x->tail.max)
			buf_cut(&x->tail, x->tail.n - (keep - n));
		buf_add(&x->tail, p, n);
	}
	x->tail_at = x->next - x->tail.n;
}

void excerpt_add(struct excerpt *x, uint64_t offset, const void *p, size_t n)
{
	if (!x->begun)
		x->first = offset; // what is before it was not kept
	x->begun = true;
	bool whole = !x->tail.n && offset == x->first + x->head.n;
	size_t room = whole ? x->head.max - x->head.n : 0, take = n < room ? n : room;
	buf_add(&x->head, p, take);
	x->next = offset + n;
	if (n > take)
		add_tail(x, (const char *)p + take, n - take);
}

// What of tail is shown: as much as head may hold, from a whole character on.
static size_t tail_from(const struct excerpt *x)
{
	size_t keep = x->tail.max / 2, at = x->tail.n > keep ? x->tail.n - keep : 0;
	while (at && at < x->tail.n && ((unsigned char)x->tail.p[at] & 0xc0) == 0x80)
		at++;
	return at;
}

uint64_t excerpt_omitted(const struct excerpt *x)
{
	return x->tail.n ? x->tail_at + tail_from(x) - x->first - x->head.n : 0;
}

void excerpt_put(struct jsonw *w, const char *key, const struct excerpt *x)
{
	auto_buf struct buf b = BUF_INIT(2 * x->tail.max + 256);
	uint64_t omitted = excerpt_omitted(x);
	size_t n = omitted ? str_utf8_whole(x->head.p ? x->head.p : "", x->head.n) : x->head.n;
	buf_add(&b, x->head.p, n);
	if (omitted)
		buf_fmt(&b, "\n[... %llu bytes omitted, from offset %llu ...]\n", (unsigned long long)omitted,
			(unsigned long long)(x->first + x->head.n));
	if (x->tail.n)
		buf_add(&b, x->tail.p + tail_from(x), x->tail.n - tail_from(x));
	mcp_text(w, key, buf_cstr(&b), b.n);
}

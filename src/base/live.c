// SPDX-License-Identifier: Apache-2.0
#include "base/live.h"

#include <string.h>

void live_put(struct buf *b, char type, const void *body, size_t n)
{
	wire_u32(b, (uint32_t)n);
	wire_u8(b, (uint8_t)type);
	buf_add(b, body, n);
	wire_u64(b, 0);
}

static void put_sha(struct buf *b, bool has, const uint8_t sha[32])
{
	wire_u8(b, has);
	if (has)
		buf_add(b, sha, 32);
}

void live_put_state(struct buf *b, const struct live_state *s)
{
	auto_buf struct buf body = BUF_INIT(LIVE_RECORD);
	wire_u8(&body, (uint8_t)s->kind);
	wire_u8(&body, s->base);
	wire_u8(&body, (uint8_t)s->what);
	wire_u8(&body, s->exec);
	wire_u64(&body, s->size);
	put_sha(&body, s->has_before, s->before);
	put_sha(&body, s->has_after, s->after);
	wire_bytes(&body, s->path, strlen(s->path) + 1); // with its end: it is read in place
	wire_u8(&body, s->whole);
	buf_add(&body, s->p, s->whole ? s->n : 0);
	live_put(b, s->type, body.p, body.n);
}

static bool get_sha(struct wire *w, uint8_t sha[32])
{
	bool has = wire_get_u8(w) == 1;
	if (!has)
		return false;
	if (w->n < 32) {
		w->bad = true;
		return false;
	}
	memcpy(sha, w->p, 32);
	w->p += 32;
	w->n -= 32;
	return true;
}

int live_read_state(const void *body, size_t n, struct live_state *out)
{
	struct wire w = {.p = body, .n = n};
	size_t len = 0;
	*out = (struct live_state){0};
	out->kind = (char)wire_get_u8(&w);
	out->base = wire_get_u8(&w);
	out->what = (char)wire_get_u8(&w);
	out->exec = wire_get_u8(&w);
	out->size = wire_get_u64(&w);
	out->has_before = get_sha(&w, out->before);
	out->has_after = get_sha(&w, out->after);
	out->path = (const char *)wire_get_bytes(&w, &len);
	if (w.bad || !len || len > LIVE_PATH + 1 || memchr(out->path, 0, len) != out->path + len - 1)
		return -1;
	out->whole = wire_get_u8(&w) == 1 && !w.bad;
	out->p = (const char *)w.p;
	out->n = out->whole ? w.n : 0;
	return strchr("AMD", out->kind ? out->kind : 'M') && strchr("fldxsu", out->what ? out->what : '?') ? 0 : -1;
}

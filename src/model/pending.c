// SPDX-License-Identifier: Apache-2.0
#include "model/pending.h"

#include "base/mem.h"
#include <stdlib.h>

// With its length, so that a reader knows whether all of it came.
void changes_sum_write(struct buf *b, const struct changes_sum *s)
{
	auto_buf struct buf body = BUF_INIT(256 << 10);
	wire_u32(&body, s->ignored);
	wire_u32(&body, s->git);
	wire_u32(&body, s->outside);
	wire_strv(&body, s->extra);
	wire_str(&body, s->home);
	if (!body.overflow)
		wire_bytes(b, body.p, body.n);
}

void changes_sum_read(struct wire *w, struct changes_sum *out)
{
	size_t n;
	*out = (struct changes_sum){0};
	if (w->bad || !w->n)
		return;
	const uint8_t *p = wire_get_bytes(w, &n);
	struct wire in = {.p = p, .n = p ? n : 0};
	out->ignored = wire_get_u32(&in);
	out->git = wire_get_u32(&in);
	out->outside = wire_get_u32(&in);
	out->extra = wire_get_strv(&in);
	out->home = wire_get_str(&in);
	if (in.bad)
		changes_sum_done(out);
}

void changes_sum_done(struct changes_sum *s)
{
	strv_free(s->extra);
	free(s->home);
	*s = (struct changes_sum){0};
}

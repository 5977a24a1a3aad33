// SPDX-License-Identifier: Apache-2.0
#include "cell/output.h"

#include "model/limits.h"
#include <assert.h>
#include <string.h>

static_assert(OUTPUT_REST == 2 * LIMIT_OUTPUT_WINDOW, "what was granted fits in behind what waits");

static uint64_t rest_from(const struct output *o)
{
	return o->total - o->rest.n;
}

void output_done(struct output *o)
{
	ring_close(&o->ring);
	buf_done(&o->rest);
}

void output_lose(struct output *o, const void *p, size_t n)
{
	o->lost = true;
	if (!o->rest.max)
		o->rest = BUF_INIT(OUTPUT_REST + 1);
	buf_add(&o->rest, p, n);
	if (o->rest.overflow) // more than was ever granted
		buf_clear(&o->rest);
	o->total += n;
}

int output_put(struct output *o, const void *p, size_t n, struct err *e)
{
	uint64_t before = o->ring.total;
	if (!o->lost && !ring_append(&o->ring, p, n, e)) {
		o->total += n;
		return 0;
	}
	size_t done = o->lost ? 0 : (size_t)(o->ring.total - before); // some of it may have found room
	bool first = !o->lost;
	o->total += done;
	output_lose(o, (const char *)p + done, n - done);
	return first ? -1 : 0;
}

uint64_t output_next(const struct output *o, uint64_t at)
{
	uint64_t first = o->ring.fd >= 0 && at < o->ring.total ? ring_first(&o->ring) : rest_from(o);
	return at > first ? at : first;
}

long output_read(struct output *o, uint64_t at, void *p, size_t n)
{
	if (o->ring.fd >= 0 && at < o->ring.total)
		return ring_read(&o->ring, at, p, n);
	size_t skip = (size_t)(at - rest_from(o)), have = o->rest.n - skip;
	n = n < have ? n : have;
	memcpy(p, o->rest.p + skip, n);
	return (long)n;
}

void output_seen(struct output *o, uint64_t slowest)
{
	if (slowest > o->total)
		slowest = o->total;
	if (o->rest.n && slowest > rest_from(o))
		buf_cut(&o->rest, (size_t)(slowest - rest_from(o)));
}

bool output_is_full(const struct output *o)
{
	return o->rest.n > LIMIT_OUTPUT_WINDOW;
}

// SPDX-License-Identifier: Apache-2.0
// A form fed whole, and fed in pieces to a slow taker, is the same form. First line: the boundary's parameter; a byte: the
// size of pieces.
#include "base/mem.h"
#include "http/multipart.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct buf b;
	size_t at_most;
};

static int on_part(void *ctx, const char *name, const char *filename, struct err *e)
{
	struct seen *s = ctx;
	(void)e;
	buf_fmt(&s->b, "\1%s\2%s\3", name, filename ? filename : "\4");
	return 0;
}

static size_t on_data(void *ctx, const char *p, size_t n)
{
	struct seen *s = ctx;
	n = n > s->at_most ? s->at_most : n;
	buf_add(&s->b, p, n);
	return n;
}

static void on_end(void *ctx)
{
	struct seen *s = ctx;
	buf_byte(&s->b, '\5');
}

static const struct multipart_ops ops = {on_part, on_data, on_end};

static int run(const char *type, const char *p, size_t n, size_t piece, struct seen *s)
{
	struct multipart m;
	struct err e;
	int rc = 0;
	if (multipart_init(&m, type, &ops, s, &e))
		return -1;
	for (size_t at = 0; at < n && rc >= 0;) {
		size_t some = n - at < piece ? n - at : piece;
		char *own = malloc(some); // exactly as long
		if (!own)
			abort();
		memcpy(own, p + at, some);
		long took = multipart_feed(&m, own, some, &e);
		free(own);
		if (took > (long)some)
			abort();
		rc = took < 0 ? -2 : 0;
		at += took < 0 ? 0 : (size_t)took;
	}
	rc = rc ? rc : multipart_is_over(&m);
	multipart_done(&m);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *nl = size ? memchr(p, '\n', size) : NULL;
	if (!nl || nl - p > 200 || (size_t)(nl - p) + 2 > size)
		return 0;
	auto_free char *line = xstrndup(p, (size_t)(nl - p)), *type = xasprintf("multipart/form-data; %s", line);
	size_t piece = 1 + (size_t)(uint8_t)nl[1] % 40, n = size - (size_t)(nl - p) - 2;
	struct seen whole = {.b = BUF_INIT(1 << 20), .at_most = SIZE_MAX}, parts = {.b = BUF_INIT(1 << 20), .at_most = 3};
	if (run(type, nl + 2, n, SIZE_MAX, &whole) != run(type, nl + 2, n, piece, &parts))
		abort();
	if (whole.b.n != parts.b.n || (whole.b.n && memcmp(whole.b.p, parts.b.p, whole.b.n)))
		abort();
	buf_done(&whole.b);
	buf_done(&parts.b);
	return 0;
}

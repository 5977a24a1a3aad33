// SPDX-License-Identifier: Apache-2.0
// The head parsers, of answers and of requests, and the chunk decoder on arbitrary bytes. Besides memory safety: a head never claims
// more than it was given, and a chunked body decodes the same in one piece as byte by byte.
#include "http/head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void chunks(const char *p, size_t n)
{
	struct err e;
	auto_buf struct buf whole = BUF_INIT(1 << 16), split = BUF_INIT(1 << 16);
	struct http_chunks a = {0}, b = {0};
	ssize_t used = http_chunks_add(&a, p, n, &whole, &e), one = 0;
	for (size_t i = 0; i < n && one >= 0 && b.state != CHUNK_DONE; i++)
		one = http_chunks_add(&b, p + i, 1, &split, &e);
	if (used > (ssize_t)n || (used < 0) != (one < 0))
		abort();
	if (used >= 0 && (a.state != b.state || whole.n != split.n || (whole.n && memcmp(whole.p, split.p, whole.n))))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head h;
	struct err e;
	const char *p = (const char *)data;
	ssize_t n = http_head_parse(p, size, &h, &e);
	if (n > (ssize_t)size || (n > 0 && (h.status < 100 || h.status > 599)))
		abort();
	struct http_head rq;
	ssize_t m = http_request_parse(p, size, &rq, &e);
	if (m > (ssize_t)size || (m > 0 && (!rq.method.n || !rq.target.n)))
		abort();
	for (int i = 0; m > 0 && i < rq.n_fields; i++)
		if (rq.fields[i].value.p + rq.fields[i].value.n > p + m)
			abort();
	chunks(p, size);
	if (n > 0)
		chunks(p + n, size - (size_t)n);
	return 0;
}

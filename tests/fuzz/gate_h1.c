// SPDX-License-Identifier: Apache-2.0
// HTTP/1.x messages on arbitrary bytes. Besides memory safety: what the gate writes is read back as the same request
// by a reader as strict as it is (so nothing can be smuggled in a head), a body is the same in one piece as in many,
// and a masked stream never holds the value.
#include "base/mem.h"
#include "gate/h1.h"
#include "gate/mask.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void round_trip(const struct h1_message *m)
{
	struct h1_message again;
	struct err e;
	auto_buf struct buf out = BUF_INIT(1 << 20);
	h1_put_request(m, "api.test", &out);
	if (out.n > HTTP_HEAD_MAX - 4) // a longer Host than the client's may pass the limit
		return;
	check(h1_read_request(out.p, out.n, &again, &e) == (ssize_t)out.n);
	check(!strcmp(again.head.method, m->head.method) && !strcmp(again.head.path, m->head.path));
	check(!strcmp(again.authority, "api.test") && again.body == m->body && again.length == m->length);
	check(again.head.n == m->head.n);
	h1_message_done(&again);
}

static void body(const struct h1_message *m, const char *p, size_t n)
{
	struct err e;
	struct body whole, split;
	auto_buf struct buf a = BUF_INIT(1 << 17), b = BUF_INIT(1 << 17);
	body_init(&whole, m);
	body_init(&split, m);
	ssize_t used = body_take(&whole, p, n, &a, &e), one = 0;
	for (size_t i = 0; i < n && one >= 0 && !split.done; i++)
		one = body_take(&split, p + i, 1, &b, &e);
	check(used <= (ssize_t)n && (used < 0) == (one < 0));
	if (used >= 0)
		check(whole.done == split.done && a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)));
	body_done(&whole);
	body_done(&split);
}

static void answer(const char *p, size_t n)
{
	struct h1_message m;
	struct err e;
	auto_buf struct buf out = BUF_INIT(1 << 20);
	ssize_t used = h1_read_answer(p, n, false, &m, &e);
	if (used <= 0)
		return;
	check(used <= (ssize_t)n);
	h1_put_answer(&m, m.body, m.keep, &out);
	body(&m, p + used, n - (size_t)used);
	h1_message_done(&m);
}

static void masked(const char *p, size_t n)
{
	static const char value[] = "abcabcab";
	struct secret_value v = {(char *)"V", (char *)"<V>", (uint8_t *)value, sizeof value - 1};
	auto_buf struct buf whole = BUF_INIT(1 << 20), split = BUF_INIT(1 << 20);
	struct mask a, b;
	struct mask_set *set = mask_set_new(&v, 1);
	mask_init(&a, mask_set_get(set), false);
	mask_init(&b, set, false);
	mask_add(&a, p, n, true, &whole);
	for (size_t i = 0; i < n; i++)
		mask_add(&b, p + i, 1, i + 1 == n, &split);
	check(whole.n == split.n && (!whole.n || !memcmp(whole.p, split.p, whole.n)));
	check(!whole.n || !memmem(whole.p, whole.n, value, sizeof value - 1));
	mask_done(&a);
	mask_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct h1_message m;
	struct http_head h;
	struct err e;
	const char *p = (const char *)data;
	ssize_t used = h1_read_request(p, size, &m, &e);
	if (used > 0) {
		check(used <= (ssize_t)size);
		round_trip(&m);
		body(&m, p + used, size - (size_t)used);
		h1_message_done(&m);
	}
	answer(p, size);
	if (size < 4096)
		masked(p, size);
	(void)!http_trailer_parse(p, size, &h, &e);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Heads on their way through a preview. Besides memory safety: what is written anew is a head that our own strict parser
// takes, whole; it says nothing of ours (cookie, token, link) inwards, and outwards sets no cookie for other hosts.
#include "api/preview_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

// What we add may be what is too much: then it is the reader's to refuse.
static bool is_near_the_bounds(const struct http_head *h, const struct buf *out)
{
	return h->n_fields > HTTP_FIELDS_MAX - 8 || out->n > HTTP_HEAD_MAX;
}

static void check_inwards(const struct http_head *h, const struct preview_target *t, struct preview_request *r)
{
	struct err e;
	struct http_head again;
	struct preview_way way = {.peer = "127.0.0.1", .keep_host = t->port & 1, .trusted = t->port & 2};
	auto_buf struct buf out = BUF_INIT(2 * HTTP_HEAD_MAX);
	if (preview_put_request(h, t, &way, &out, r, &e))
		return;
	ssize_t n = http_request_parse(out.p, out.n, &again, &e);
	must(n == (ssize_t)out.n || is_near_the_bounds(h, &out));
	if (n <= 0)
		return;
	must(again.chunked == h->chunked && again.has_length == h->has_length && again.length == h->length);
	must(!preview_cookie(&again, PREVIEW_COOKIE, 0).p && !preview_query(again.target, PREVIEW_COOKIE).p);
	must(again.target.p[0] == '/' || str_is(again.target, "*"));
}

static void check_outwards(const struct http_head *h, const struct preview_target *t, const struct preview_request *r)
{
	struct err e;
	struct http_head again;
	struct preview_answer a;
	auto_buf struct buf out = BUF_INIT(2 * HTTP_HEAD_MAX);
	if (preview_put_answer(h, t, r, false, &out, &a, &e))
		return;
	ssize_t n = http_head_parse(out.p, out.n, &again, &e);
	must(n == (ssize_t)out.n || is_near_the_bounds(h, &out));
	if (n <= 0)
		return;
	must(again.status == h->status);
	must(!again.chunked || a.chunk);
	for (int i = 0; i < again.n_fields; i++) {
		struct str v = again.fields[i].value, part, name;
		if (!http_name_is(again.fields[i].name, "Set-Cookie"))
			continue;
		str_next(&v, ';', &part);
		must(!str_next(&part, '=', &name) || !str_is(name, PREVIEW_COOKIE));
		while (str_next(&v, ';', &part)) {
			while (part.n && *part.p == ' ')
				part.p++, part.n--;
			must(part.n < 7 || strncasecmp(part.p, "Domain=", 7));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_head h;
	struct err e;
	struct preview_target t;
	struct preview_request r = {.keep = true, .websocket = size & 1};
	const char *p = (const char *)data;
	ssize_t n = http_request_parse(p, size, &h, &e);
	if (n > 0) {
		preview_target_parse(&h, 49983, &t);
		if (t.form != PREVIEW_NONE && t.form != PREVIEW_BAD) {
			must(t.port && t.sandbox[0] && t.prefix <= h.target.n);
			check_inwards(&h, &t, &r);
		}
	}
	size_t at = n > 0 ? (size_t)n : 0;
	t = (struct preview_target){.form = size & 2 ? PREVIEW_PATH : PREVIEW_HOST, .sandbox = "sabcdefghijkl", .port = 3000};
	if (http_head_parse(p + at, size - at, &h, &e) > 0)
		check_outwards(&h, &t, &r);
	return 0;
}

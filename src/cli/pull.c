// SPDX-License-Identifier: Apache-2.0
// A pull is one request whose answer comes in lines: progress, shown on a terminal, and at the end the image or why there
// is none. To go away (^C) ends it; what came in is kept, and the next pull goes on there.
#include "cli/pull.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/out.h"
#include "cli/term.h"
#include <string.h>
#include <unistd.h>

struct pull_shown {
	bool terminal, any;
	json_t *last; // what the answer's last line said
};

static void pull_put_bar(struct pull_shown *s, const json_t *p)
{
	auto_buf struct buf b = BUF_INIT(400);
	uint64_t bytes = json_u64(p, "bytes"), total = json_u64(p, "total");
	buf_str(&b, "\r\033[K");
	if (json_is_true(json_object_get(p, "unpacking"))) {
		buf_str(&b, "unpacking the image\xe2\x80\xa6");
	} else {
		buf_fmt(&b, "layer %llu of %llu, ", (unsigned long long)json_u64(p, "layers_done"), (unsigned long long)json_u64(p, "layers"));
		out_size(&b, bytes);
		buf_str(&b, " of ");
		out_size(&b, total);
		if (total)
			buf_fmt(&b, " (%llu %%)", (unsigned long long)(bytes * 100 / total));
	}
	s->any = true;
	out_stderr(&b);
}

static void pull_line(void *ctx, struct buf *body)
{
	struct pull_shown *s = ctx;
	const char *end;
	while (body->n && (end = memchr(body->p, '\n', body->n))) {
		struct err ignored;
		size_t n = (size_t)(end - body->p) + 1;
		json_t *o = json_read(body->p, n, &ignored);
		const json_t *progress = o ? json_object_get(o, "progress") : NULL;
		buf_cut(body, n);
		if (progress && s->terminal)
			pull_put_bar(s, progress);
		json_decref(s->last);
		s->last = o;
	}
}

static void pull_clear_bar(const struct pull_shown *s)
{
	auto_buf struct buf b = BUF_INIT(16);
	if (!s->any)
		return;
	buf_str(&b, "\r\033[K");
	out_stderr(&b);
}

// The last line's image, by itself.
static json_t *pull_result(const json_t *last, struct err *e)
{
	const json_t *image = last ? json_object_get(last, "image") : NULL, *error = last ? json_object_get(last, "error") : NULL;
	auto_buf struct buf b = BUF_INIT(1u << 20);
	if (error) {
		err_set(e, err_kind_parse(json_str(error, "kind")), "%s", json_str(error, "message"));
		return NULL;
	}
	if (!image) {
		err_set(e, ERR_UNAVAILABLE, "skepd ended before the image was here: pull it again, what came in is kept");
		return NULL;
	}
	json_print(&b, image, 0);
	return json_read(buf_cstr(&b), b.n, e);
}

json_t *pull_image(const struct pull_wants *w, struct err *e)
{
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw j = {.b = &body};
	struct pull_shown s = {.terminal = !w->quiet && isatty(STDERR_FILENO) && !term_is_dumb()};
	jw_open(&j, '{');
	jw_kstr(&j, "ref", w->ref);
	jw_kstr(&j, "name", w->name);
	jw_kstr(&j, "secret", w->secret);
	if (w->missing)
		jw_kbool(&j, "missing", true);
	jw_close(&j, '}');
	int rc = api_open(&a, e) || api_lines(&a, "/v1/images/pull", buf_cstr(&body), pull_line, &s, e);
	pull_clear_bar(&s);
	json_t *image = rc ? NULL : pull_result(s.last, e);
	json_decref(s.last);
	return image;
}

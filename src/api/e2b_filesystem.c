// SPDX-License-Identifier: Apache-2.0
// filesystem.Filesystem, but for watching: each method is one operation inside (init/account.h).
#include "api/e2b_entry.h"
#include "api/e2b_envd_int.h"
#include "base/mem.h"
#include "base/str.h"

#define ENTRY_MAX (256u << 10)
#define LIST_MAX (64u << 20)

// The string members that the operation takes, in this order. -1: the call was answered.
static int strings(struct envd_call *c, const char *const *names, const char **out)
{
	struct err e;
	for (; *names; names++, out++)
		if (proto_str(c->msg, *names, out, &e)) {
			envd_fail(c, &e);
			return -1;
		} else if (!*out) {
			*out = ""; // a default is left out
		}
	return 0;
}

static void malformed(struct envd_call *c)
{
	envd_error(c, RPC_INTERNAL, "the answer from inside the sandbox is malformed");
}

static void answer_entry(struct envd_call *c, struct wire *w)
{
	struct entry n;
	struct jsonw j = {.b = &c->r->answer};
	if (entry_read(w, &n)) {
		malformed(c);
		return;
	}
	jw_open(&j, '{');
	jw_key(&j, "entry");
	entry_info(&j, &n);
	jw_close(&j, '}');
	entry_done(&n);
	envd_answer(c, 200);
}

static struct wire wire_of(const struct buf *b)
{
	return (struct wire){.p = (const uint8_t *)b->p, .n = b->n};
}

static void on_entry(void *ctx, const struct err *e, struct buf *out)
{
	struct envd_call *c = ctx;
	if (e) {
		envd_fail(c, e);
		return;
	}
	struct wire w = wire_of(out);
	answer_entry(c, &w);
}

static void one_path(struct envd_call *c, const char *op, void (*then)(void *ctx, const struct err *e, struct buf *out))
{
	const char *path;
	if (!strings(c, (const char *const[]){"path", NULL}, &path))
		envd_job(c, &(struct envd_job){.op = op, .args = {path}, .max = ENTRY_MAX}, (struct job_done){then, c});
}

void filesystem_stat(struct envd_call *c)
{
	one_path(c, "entry", on_entry);
}

void filesystem_make_dir(struct envd_call *c)
{
	one_path(c, "make", on_entry);
}

static void on_removed(void *ctx, const struct err *e, struct buf *out)
{
	struct envd_call *c = ctx;
	(void)out;
	if (e)
		envd_fail(c, e);
	else
		envd_answer(c, 200);
}

void filesystem_remove(struct envd_call *c)
{
	one_path(c, "remove", on_removed);
}

static void on_moved(void *ctx, const struct err *e, struct buf *out)
{
	struct envd_call *c = ctx;
	struct file_record r;
	if (e) {
		envd_fail(c, e);
		return;
	}
	struct wire w = wire_of(out);
	if (file_record_read(&w, &r)) {
		malformed(c);
		return;
	}
	file_record_done(&r);
	answer_entry(c, &w);
}

void filesystem_move(struct envd_call *c)
{
	const char *paths[2];
	if (!strings(c, (const char *const[]){"source", "destination", NULL}, paths))
		envd_job(c, &(struct envd_job){.op = "move", .args = {paths[0], paths[1]}, .max = ENTRY_MAX}, (struct job_done){on_moved, c});
}

static void on_list(void *ctx, const struct err *e, struct buf *out)
{
	struct envd_call *c = ctx;
	struct entry n;
	struct jsonw j = {.b = &c->r->answer};
	if (e) {
		envd_fail(c, e);
		return;
	}
	struct wire w = wire_of(out);
	jw_open(&j, '{');
	jw_key(&j, "entries");
	jw_open(&j, '[');
	while (w.n && !entry_read(&w, &n)) {
		entry_info(&j, &n);
		entry_done(&n);
	}
	jw_close(&j, ']');
	jw_close(&j, '}');
	if (w.bad || w.n)
		malformed(c);
	else
		envd_answer(c, 200);
}

void filesystem_list_dir(struct envd_call *c)
{
	const char *path;
	uint32_t depth = 1;
	struct err e;
	char text[16];
	if (proto_u32(c->msg, "depth", &depth, &e) || fmt_to(text, sizeof text, "%u", depth)) {
		envd_fail(c, &e);
		return;
	}
	if (!strings(c, (const char *const[]){"path", NULL}, &path))
		envd_job(c, &(struct envd_job){.op = "entries", .args = {path, text}, .max = LIST_MAX}, (struct job_done){on_list, c});
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_print.h"

#include "base/clock.h"
#include "base/mem.h"
#include "workspace/review_json.h"
#include "workspace/review_mail.h"
#include "workspace/review_patch.h"
#include <stdio.h>
#include <string.h>

#define LINE_MAX_OUT (3u << 30) // one line: a patch of one file, or one change with its text

int review_print(struct buf *b, struct err *e)
{
	if (b->overflow)
		return err_set(e, ERR_LIMIT, "a line of output is too long");
	int rc = b->n && fwrite(b->p, 1, b->n, stdout) != b->n ? err_sys(e, "write the result") : 0;
	buf_clear(b);
	return rc;
}

int review_print_line(struct buf *b, struct err *e)
{
	buf_byte(b, '\n');
	return review_print(b, e);
}

// A filter of paths for diff and export: nothing named = everything.
static int choose(struct review *r, struct review_request *q, struct err *e)
{
	struct selection *set = &q->apply.set;
	if (!set->paths && !set->hunks)
		set->all = true;
	return review_select(r, set, e);
}

static int print_change(struct review *r, struct review_request *q, const struct change *c, struct buf *b, struct err *e)
{
	struct jsonw w = {.b = b};
	if (q->format == FORMAT_NAME_STATUS)
		change_name_status(c, b);
	else if (q->format == FORMAT_PATCH && change_patch(r, c, (unsigned)(q->context < 0 ? 3 : q->context), true, b, e))
		return -1;
	else if (q->format == FORMAT_JSON && (change_json(r, c, q->context, &w, e) || review_print_line(b, e)))
		return -1;
	return review_print(b, e);
}

static bool is_chosen(const struct selection *set, const char *path)
{
	for (char **p = set->paths; p && *p; p++)
		if (review_path_below(path, *p)) // who names it itself is told in another way
			return true;
	return set->all;
}

static int print_unread(const struct review *r, const struct review_request *q, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LINE_MAX_OUT);
	for (size_t i = 0; i < r->copy.n; i++) {
		const struct copy_entry *en = &r->copy.v[i];
		if (!strchr("ur", en->kind) || !is_chosen(&q->apply.set, en->path))
			continue;
		patch_unread(en, q->format == FORMAT_NAME_STATUS, &b);
		if (review_print(&b, e))
			return -1;
	}
	return 0;
}

int review_print_diff(struct review *r, struct review_request *q, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LINE_MAX_OUT);
	struct jsonw w = {.b = &b};
	if (choose(r, q, e))
		return -1;
	if (q->format == FORMAT_STAT) {
		patch_stat(r, &b);
		return review_print(&b, e) || print_unread(r, q, e) ? -1 : 0;
	}
	if (q->format != FORMAT_JSON && print_unread(r, q, e))
		return -1;
	for (size_t i = 0; i < r->n; i++)
		if (change_is_taken(r->v[i]) && !r->v[i]->hidden && print_change(r, q, r->v[i], &b, e))
			return -1;
	if (q->format != FORMAT_JSON)
		return 0;
	jw_open(&w, '{');
	jw_key(&w, "summary");
	review_summary_json(r, &w);
	if (q->fetch.socket) {
		jw_key(&w, "copy");
		jw_open(&w, '{');
		jw_ku64(&w, "files", q->collected.copied);
		jw_ku64(&w, "bytes", q->collected.bytes);
		jw_ku64(&w, "disk", q->collected.disk);
		jw_close(&w, '}');
	}
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

static int print_commit(struct review *r, const struct mail *m, const char *parent, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	uint8_t commit[SHADOW_OID], tree[SHADOW_OID];
	char hex[41];
	if (mail_commit(r, m, parent, commit, tree, e))
		return -1;
	jw_open(&w, '{');
	shadow_hex(commit, hex);
	jw_kstr(&w, "commit", hex);
	jw_kstr(&w, "parent", parent);
	shadow_hex(tree, hex);
	jw_kstr(&w, "tree", hex);
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

int review_print_mail(struct review *r, struct review_request *q, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LINE_MAX_OUT);
	struct mail m = {
		.author = q->author ? q->author : "skep",
		.email = q->email ? q->email : "skep@localhost",
		.subject = q->subject ? q->subject : "Changes made in a sandbox",
		.message = q->message,
		.date = q->date ? q->date : clock_unix_ms() / 1000,
	};
	if (choose(r, q, e))
		return -1;
	if (q->parent)
		return print_commit(r, &m, q->parent, e);
	if (mail_head(r, &m, &b, e) || review_print(&b, e) || print_unread(r, q, e))
		return -1;
	for (size_t i = 0; i < r->n; i++)
		if (change_is_taken(r->v[i]) && (change_patch(r, r->v[i], 3, true, &b, e) || review_print(&b, e)))
			return -1;
	mail_end(&b);
	return review_print(&b, e);
}

static const char *recovered_name(enum txn_recovered r)
{
	static const char *const names[] = {"nothing", "finished", "reverted", "abandoned"};
	return names[r];
}

int review_print_result(const struct apply_result *r, enum txn_recovered before, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 20);
	struct jsonw w = {.b = &b};
	char hex[41];
	for (size_t i = 0; i < r->txn.n; i++) {
		op_json(&r->txn.v[i], &w);
		if (review_print_line(&b, e))
			return -1;
		w.comma = false;
	}
	jw_open(&w, '{');
	jw_key(&w, "result");
	jw_open(&w, '{');
	jw_ku64(&w, "steps", r->txn.n);
	jw_ku64(&w, "undo", r->txn.keeps_p ? 0 : r->txn.number);
	shadow_hex(r->txn.p_before, hex);
	jw_kstr(&w, "base_before", hex);
	shadow_hex(r->txn.keeps_p ? r->txn.p_before : r->txn.p_after, hex);
	jw_kstr(&w, "base_after", hex);
	jw_kstrv(&w, "skipped", r->skipped);
	jw_kstr(&w, "left", r->left);
	jw_kstr(&w, "recovered", recovered_name(before));
	jw_close(&w, '}');
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

// What P is now: the recovery of a whole apply has moved it.
static void print_base(const char *shadow, struct jsonw *w)
{
	struct shadow *s;
	struct err none;
	uint8_t oid[SHADOW_OID];
	char hex[41];
	if (shadow_open(shadow, &s, &none))
		return;
	if (!shadow_base(s, oid, &none)) {
		shadow_hex(oid, hex);
		jw_kstr(w, "base_after", hex);
	}
	shadow_close(s);
}

int review_print_recovered(const char *shadow, enum txn_recovered what, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_kstr(&w, "recovered", recovered_name(what));
	if (what == TXN_FINISHED)
		print_base(shadow, &w);
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

int review_print_dismissed(uint64_t paths, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "paths", paths);
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

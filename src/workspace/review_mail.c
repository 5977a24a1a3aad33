// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_mail.h"

#include "base/mem.h"
#include "base/str.h"
#include "workspace/review_apply.h"
#include "workspace/review_patch.h"
#include <string.h>
#include <time.h>

// One line, nothing that could end a header or begin another.
static bool is_header(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static bool is_ascii(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s >= 0x80)
			return false;
	return true;
}

// RFC 2047, one word for each few characters: a word holds at most 75.
static void put_words(struct buf *out, const char *s)
{
	if (is_ascii(s)) {
		buf_str(out, s);
		return;
	}
	for (size_t n = strlen(s); n;) {
		size_t part = str_utf8_whole(s, n < 18 ? n : 18);
		part = part ? part : 1;
		buf_str(out, "=?UTF-8?q?");
		for (size_t i = 0; i < part; i++)
			buf_fmt(out, "=%02X", (unsigned char)s[i]);
		buf_str(out, "?=");
		s += part;
		n -= part;
		if (n)
			buf_str(out, "\n ");
	}
}

// The body ends where a line is "---" or looks like a patch; such lines of a message are moved in.
static void put_message(struct buf *out, const char *message)
{
	for (struct str rest = str_of(message), line; str_next(&rest, '\n', &line);) {
		auto_free char *l = xstrndup(line.p, line.n);
		bool looks = str_has_prefix(l, "---") || str_has_prefix(l, "diff ") || str_has_prefix(l, "Index: ") ||
			     str_has_prefix(l, "From ");
		buf_fmt(out, "%s%s\n", looks ? " " : "", l);
	}
}

static int check(const struct mail *m, struct err *e)
{
	if (!is_header(m->author) || !is_header(m->email) || !is_header(m->subject) || strpbrk(m->email, "<> ") ||
	    strpbrk(m->author, "<>") || !*m->author || !*m->subject)
		return err_set(e, ERR_INVALID,
			       "author, email and subject are one line each, and none of them may be empty");
	return 0;
}

static int commit_tree(struct review *r, const uint8_t parent[SHADOW_OID], uint8_t out[SHADOW_OID], struct err *e)
{
	struct apply_spec a = {.accept_risk = true, .from_base = true};
	struct apply_result result = {0};
	struct refusal why = {0};
	uint8_t tree[SHADOW_OID];
	int rc = shadow_commit_tree(r->shadow, parent, tree, e) || review_steps(r, &a, &result.txn, &result, &why, e)
			 ? -1
			 : 0;
	struct shadow_update *v = xcalloc(result.txn.n_base + 1, sizeof *v);
	for (size_t i = 0; i < result.txn.n_base; i++) {
		v[i] = (struct shadow_update){.path = result.txn.base[i].path, .mode = result.txn.base[i].after.mode};
		memcpy(v[i].oid, result.txn.base[i].after.oid, SHADOW_OID);
	}
	if (!rc)
		rc = shadow_update(r->shadow, tree, v, result.txn.n_base, out, e);
	mem_free_ptr(&v);
	refusal_done(&why);
	apply_result_done(&result);
	return rc;
}

int mail_commit(struct review *r, const struct mail *m, const char *parent, uint8_t out[SHADOW_OID],
		uint8_t out_tree[SHADOW_OID], struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16u << 20);
	uint8_t on[SHADOW_OID];
	char hex[41];
	if (strlen(parent) != 40 || shadow_unhex(parent, on))
		return err_set(e, ERR_INVALID, "\"parent\" is no commit id");
	if (check(m, e) || commit_tree(r, on, out_tree, e))
		return -1;
	shadow_hex(out_tree, hex);
	buf_fmt(&b, "tree %s\nparent %s\n", hex, parent);
	for (int i = 0; i < 2; i++)
		buf_fmt(&b, "%s %s <%s> %llu +0000\n", i ? "committer" : "author", m->author, m->email,
			(unsigned long long)m->date);
	buf_fmt(&b, "\n%s\n", m->subject);
	if (m->message && *m->message)
		buf_fmt(&b, "\n%s%s", m->message, str_has_suffix(m->message, "\n") ? "" : "\n");
	if (b.overflow)
		return err_set(e, ERR_LIMIT, "the message is too long");
	if (shadow_write_commit(r->shadow, b.p, b.n, out, e) || shadow_sync(r->shadow, e))
		return -1;
	return shadow_ref_set(r->shadow, "refs/skep/export", out, e);
}

int mail_head(const struct review *r, const struct mail *m, struct buf *out, struct err *e)
{
	char date[64];
	struct tm tm;
	time_t at = (time_t)m->date;
	if (check(m, e))
		return -1;
	if (!gmtime_r(&at, &tm) || !strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S +0000", &tm))
		return err_set(e, ERR_INVALID, "no such date");
	buf_str(out, "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: ");
	put_words(out, m->author);
	buf_fmt(out, " <%s>\nDate: %s\nSubject: [PATCH] ", m->email, date);
	put_words(out, m->subject);
	buf_str(out,
		"\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n");
	if (m->message)
		put_message(out, m->message);
	buf_str(out, "---\n");
	patch_stat(r, out);
	buf_byte(out, '\n');
	return 0;
}

void mail_end(struct buf *out)
{
	buf_str(out, "-- \nskep\n\n");
}

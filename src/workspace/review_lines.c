// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_lines.h"

#include "base/mem.h"
#include "base/sha256.h"
#include <git2.h>
#include <stdlib.h>
#include <string.h>

bool lines_is_text(const char *p, size_t n)
{
	return n <= LINES_MAX && (!n || !memchr(p, 0, n));
}

void lines_init(struct lines *l, const char *p, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; count++) {
		const char *nl = memchr(p + i, '\n', n - i);
		i = nl ? (size_t)(nl - p) + 1 : n;
	}
	*l = (struct lines){.p = p, .n = count, .at = xcalloc(count + 1, sizeof *l->at)};
	for (size_t i = 0, k = 0; i < n;) {
		const char *nl = memchr(p + i, '\n', n - i);
		i = nl ? (size_t)(nl - p) + 1 : n;
		l->at[++k] = i;
	}
}

void lines_done(struct lines *l)
{
	free(l->at);
	*l = (struct lines){0};
}

const char *lines_get(const struct lines *l, size_t at, size_t n, size_t *out_len)
{
	*out_len = l->at[at + n] - l->at[at];
	return l->p + l->at[at];
}

void hunks_done(struct hunks *h)
{
	free(h->v);
	*h = (struct hunks){0};
}

struct hunk *hunks_add(struct hunks *h, enum hunk_kind kind)
{
	if (!(h->n & (h->n - 1))) // full at every power of two
		h->v = xrealloc(h->v, (h->n ? h->n * 2 : 1) * sizeof *h->v);
	h->v[h->n] = (struct hunk){.kind = kind};
	return &h->v[h->n++];
}

static int on_hunk(const git_diff_delta *d, const git_diff_hunk *g, void *arg)
{
	(void)d;
	struct hunk *h = hunks_add(arg, HUNK_LINES);
	// Without lines on a side git names the line before.
	h->old_n = (uint32_t)g->old_lines;
	h->new_n = (uint32_t)g->new_lines;
	h->old_at = (uint32_t)g->old_start - (g->old_lines ? 1 : 0);
	h->new_at = (uint32_t)g->new_start - (g->new_lines ? 1 : 0);
	h->host_at = h->old_at;
	return 0;
}

int hunks_diff(const struct lines *a, const struct lines *b, struct hunks *out, struct err *e)
{
	git_diff_options o;
	git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);
	o.context_lines = o.interhunk_lines = 0;
	o.flags = GIT_DIFF_FORCE_TEXT | GIT_DIFF_INDENT_HEURISTIC;
	*out = (struct hunks){0};
	git_libgit2_init();
	int rc = git_diff_buffers(a->p ? a->p : "", a->at[a->n], "a", b->p ? b->p : "", b->at[b->n], "a", &o, NULL,
				  NULL, on_hunk, NULL, out);
	if (rc) {
		const git_error *g = git_error_last();
		err_set(e, ERR_SYSTEM, "compare two texts: %s", g ? g->message : "unknown reason");
		hunks_done(out);
	}
	git_libgit2_shutdown();
	return rc ? -1 : 0;
}

static void add_u64(struct sha256 *h, uint64_t v)
{
	uint8_t raw[8];
	for (int i = 0; i < 8; i++)
		raw[i] = (uint8_t)(v >> 8 * i);
	sha256_add(h, raw, sizeof raw);
}

static void add_part(struct sha256 *h, const void *p, size_t n)
{
	add_u64(h, n);
	sha256_add(h, p, n);
}

static void first_digits(struct sha256 *s, char id[HUNK_ID])
{
	char hex[SHA256_HEX];
	sha256_end_hex(s, hex);
	memcpy(id, hex, HUNK_ID - 1);
	id[HUNK_ID - 1] = 0;
}

// Which of several equal changes it is: positions do not count, order does.
struct equal {
	uint8_t sha[32];
	size_t at;
};

static int by_sha(const void *a, const void *b)
{
	const struct equal *x = a, *y = b;
	int d = memcmp(x->sha, y->sha, sizeof x->sha);
	return d ? d : x->at < y->at ? -1 : x->at > y->at;
}

void hunks_name(struct hunks *h, const char *path, const struct lines *a, const struct lines *b)
{
	struct equal *v = xcalloc(h->n + 1, sizeof *v);
	struct sha256 *mid = xcalloc(h->n + 1, sizeof *mid);
	for (size_t i = 0; i < h->n; i++) {
		size_t n;
		sha256_init(&mid[i]);
		add_part(&mid[i], path, strlen(path));
		const char *p = lines_get(a, h->v[i].old_at, h->v[i].old_n, &n);
		add_part(&mid[i], p, n);
		p = lines_get(b, h->v[i].new_at, h->v[i].new_n, &n);
		add_part(&mid[i], p, n);
		struct sha256 copy = mid[i];
		v[i].at = i;
		sha256_end(&copy, v[i].sha);
	}
	qsort(v, h->n, sizeof *v, by_sha);
	for (size_t i = 0, nth = 0; i < h->n; i++) {
		nth = i && !memcmp(v[i].sha, v[i - 1].sha, sizeof v->sha) ? nth + 1 : 0;
		add_u64(&mid[v[i].at], nth);
		first_digits(&mid[v[i].at], h->v[v[i].at].id);
	}
	free(v);
	free(mid);
}

void hunk_name_whole(struct hunk *h, const char *path, const char *tag, const void *old, size_t old_n, const void *now,
		     size_t now_n)
{
	struct sha256 s;
	sha256_init(&s);
	add_part(&s, path, strlen(path));
	add_part(&s, old, old_n);
	add_part(&s, now, now_n);
	add_part(&s, tag, strlen(tag));
	first_digits(&s, h->id);
}

static bool same_change(const struct hunk *a, const struct lines *al, const struct hunk *b, const struct lines *bl)
{
	size_t an, bn;
	if (a->old_at != b->old_at || a->old_n != b->old_n || a->new_n != b->new_n)
		return false;
	const char *ap = lines_get(al, a->new_at, a->new_n, &an), *bp = lines_get(bl, b->new_at, b->new_n, &bn);
	return an == bn && !memcmp(ap, bp, an);
}

void hunks_place(struct hunks *h, const struct lines *s, const struct hunks *host, const struct lines *host_lines)
{
	int64_t shift = 0;
	for (size_t i = 0, k = 0; i < h->n; i++) {
		struct hunk *x = &h->v[i];
		// those of the host that end before it, not even touching, only move it
		for (; k < host->n && host->v[k].old_at + host->v[k].old_n < x->old_at; k++)
			shift += (int64_t)host->v[k].new_n - host->v[k].old_n;
		x->host_at = (uint32_t)(x->old_at + shift);
		x->state = HUNK_CLEAN;
		if (k < host->n && host->v[k].old_at <= x->old_at + x->old_n)
			x->state = same_change(x, s, &host->v[k], host_lines) ? HUNK_THERE : HUNK_CONFLICT;
	}
}

void hunks_splice(const struct hunks *h, const struct lines *base, const struct lines *s, bool at_host, struct buf *out)
{
	size_t done = 0, n;
	for (size_t i = 0; i < h->n; i++) {
		const struct hunk *x = &h->v[i];
		if (!x->take || x->kind != HUNK_LINES || (at_host && x->state != HUNK_CLEAN))
			continue;
		size_t at = at_host ? x->host_at : x->old_at;
		const char *p = lines_get(base, done, at - done, &n);
		buf_add(out, p, n);
		p = lines_get(s, x->new_at, x->new_n, &n);
		buf_add(out, x->edit ? x->edit : p, x->edit ? strlen(x->edit) : n);
		done = at + x->old_n;
	}
	const char *p = lines_get(base, done, base->n - done, &n);
	buf_add(out, p, n);
}

int lines_merge_markers(const struct lines *p, const struct lines *h, const struct lines *s, struct buf *out,
			struct err *e)
{
	git_merge_file_input in[3];
	git_merge_file_options o;
	git_merge_file_result r = {0};
	const struct lines *v[3] = {p, h, s};
	git_merge_file_options_init(&o, GIT_MERGE_FILE_OPTIONS_VERSION);
	for (int i = 0; i < 3; i++) {
		git_merge_file_input_init(&in[i], GIT_MERGE_FILE_INPUT_VERSION);
		in[i].ptr = v[i]->p ? v[i]->p : "";
		in[i].size = v[i]->at[v[i]->n];
	}
	o.ancestor_label = "base";
	o.our_label = "host";
	o.their_label = "sandbox";
	git_libgit2_init();
	int rc = git_merge_file(&r, &in[0], &in[1], &in[2], &o);
	if (rc)
		err_set(e, ERR_SYSTEM, "merge a text: %s",
			git_error_last() ? git_error_last()->message : "unknown reason");
	else
		buf_add(out, r.ptr, r.len);
	git_merge_file_result_free(&r);
	git_libgit2_shutdown();
	return rc ? -1 : 0;
}

static int on_binary_line(const git_diff_delta *d, const git_diff_hunk *h, const git_diff_line *l, void *arg)
{
	(void)d;
	(void)h;
	if (l->origin == GIT_DIFF_LINE_BINARY)
		buf_add(arg, l->content, l->content_len);
	return 0;
}

int lines_binary_patch(const void *old, size_t old_n, const void *now, size_t now_n, struct buf *out, struct err *e)
{
	git_diff_options o;
	git_patch *p = NULL;
	git_libgit2_init();
	git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);
	o.flags = GIT_DIFF_FORCE_BINARY | GIT_DIFF_SHOW_BINARY;
	int rc = git_patch_from_buffers(&p, old, old_n, "a", now, now_n, "a", &o);
	if (!rc)
		rc = git_patch_print(p, on_binary_line, out);
	if (rc)
		err_set(e, ERR_SYSTEM, "make a binary patch: %s",
			git_error_last() ? git_error_last()->message : "unknown reason");
	git_patch_free(p);
	git_libgit2_shutdown();
	return rc ? -1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_patch.h"

#include "base/mem.h"
#include "base/str.h"
#include <string.h>

#define STAT_WIDTH 40u
#define CONFLICT_SHOWN (256u << 10)

void patch_quote(struct buf *out, const char *prefix, const char *path)
{
	bool plain = true;
	for (const unsigned char *p = (const unsigned char *)path; *p; p++)
		plain &= *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\';
	if (plain) {
		buf_fmt(out, "%s%s", prefix, path);
		return;
	}
	buf_fmt(out, "\"%s", prefix);
	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		static const char from[] = "\a\b\t\n\v\f\r\"\\", to[] = "abtnvfr\"\\";
		const char *known = strchr(from, *p);
		if (known)
			buf_fmt(out, "\\%c", to[known - from]);
		else if (*p < 0x20 || *p >= 0x7f)
			buf_fmt(out, "\\%03o", *p);
		else
			buf_byte(out, (char)*p);
	}
	buf_byte(out, '"');
}

static unsigned git_mode(const struct side *s)
{
	return s->type == SIDE_LINK ? 0120000 : s->exec ? 0100755 : 0100644;
}

static void put_lines(struct buf *out, char sign, const struct lines *l, size_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++) {
		size_t len;
		const char *p = lines_get(l, i, 1, &len);
		buf_byte(out, sign);
		buf_add(out, p, len);
		if (!len || p[len - 1] != '\n')
			buf_str(out, "\n\\ No newline at end of file\n");
	}
}

static void put_range(struct buf *out, char sign, size_t at, size_t n)
{
	buf_fmt(out, "%c%zu", sign, n ? at + 1 : at);
	if (n != 1)
		buf_fmt(out, ",%zu", n);
}

static bool shown(const struct hunk *h, bool only_taken)
{
	return h->kind == HUNK_LINES && h->state == HUNK_CLEAN && (h->take || !only_taken);
}

// Hunks v[0..n) are near each other: one piece with their common context. shift: lines added before it.
static void put_group(struct buf *out, const struct hunk *const *v, size_t n, const struct lines *h,
		      const struct lines *s, unsigned context, int64_t shift)
{
	size_t from = v[0]->host_at > context ? v[0]->host_at - context : 0;
	size_t end = v[n - 1]->host_at + v[n - 1]->old_n + context, added = 0, removed = 0, done = from;
	end = end < h->n ? end : h->n;
	for (size_t i = 0; i < n; i++)
		added += v[i]->new_n, removed += v[i]->old_n;
	buf_str(out, "@@ ");
	put_range(out, '-', from, end - from);
	buf_byte(out, ' ');
	put_range(out, '+', (size_t)((int64_t)from + shift), end - from + added - removed);
	buf_str(out, " @@\n");
	for (size_t i = 0; i < n; i++) {
		put_lines(out, ' ', h, done, v[i]->host_at - done);
		put_lines(out, '-', h, v[i]->host_at, v[i]->old_n);
		put_lines(out, '+', s, v[i]->new_at, v[i]->new_n);
		done = v[i]->host_at + v[i]->old_n;
	}
	put_lines(out, ' ', h, done, end - done);
}

static void put_hunks(struct buf *out, const struct change *c, const struct texts *t, unsigned context, bool only_taken)
{
	struct lines h, s;
	const struct hunk **v = xcalloc(c->hunks.n + 1, sizeof *v);
	size_t n = 0;
	int64_t shift = 0;
	lines_init(&h, t->h, t->h_n);
	lines_init(&s, t->s, t->s_n);
	for (size_t i = 0; i < c->hunks.n; i++)
		if (shown(&c->hunks.v[i], only_taken))
			v[n++] = &c->hunks.v[i];
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && v[k]->host_at - (v[k - 1]->host_at + v[k - 1]->old_n) <= 2 * context; k++)
			;
		put_group(out, v + i, k - i, &h, &s, context, shift);
		for (; i < k; i++)
			shift += (int64_t)v[i]->new_n - v[i]->old_n;
	}
	mem_free_ptr(&v);
	lines_done(&h);
	lines_done(&s);
}

void hunk_text(const struct hunk *x, const struct lines *p, const struct lines *h, const struct lines *s,
	       unsigned context, struct buf *out)
{
	bool conflict = x->state == HUNK_CONFLICT; // its old lines are only in the base
	struct hunk at = *x;
	const struct hunk *one = &at;
	at.host_at = conflict ? x->old_at : x->host_at;
	put_group(out, &one, 1, conflict ? p : h, s, context, (int64_t)x->new_at - x->old_at);
}

static void put_name(struct buf *out, const char *mark, const char *prefix, const char *path)
{
	buf_str(out, mark);
	patch_quote(out, prefix, path);
	buf_str(out, strchr(path, ' ') ? "\t\n" : "\n");
}

static void put_rename(struct buf *out, const char *mark, const char *path)
{
	buf_str(out, mark);
	patch_quote(out, "", path);
	buf_byte(out, '\n');
}

static void put_whole_text(struct buf *out, char sign, const char *p, size_t n)
{
	struct lines l;
	lines_init(&l, p, n);
	buf_str(out, "@@ ");
	put_range(out, '-', 0, sign == '-' ? l.n : 0);
	buf_byte(out, ' ');
	put_range(out, '+', 0, sign == '+' ? l.n : 0);
	buf_str(out, " @@\n");
	put_lines(out, sign, &l, 0, l.n);
	lines_done(&l);
}

static void put_index(struct buf *out, const char *old, size_t old_n, bool has_old, const char *now, size_t now_n,
		      bool has_now)
{
	uint8_t a[SHADOW_OID] = {0}, b[SHADOW_OID] = {0};
	char ha[41], hb[41];
	if (has_old)
		shadow_hash(old, old_n, a);
	if (has_now)
		shadow_hash(now, now_n, b);
	shadow_hex(a, ha);
	shadow_hex(b, hb);
	buf_fmt(out, "index %s..%s\n", ha, hb);
}

static void put_link_index(struct buf *out, const struct texts *t)
{
	put_index(out, t->h, t->h_n, true, t->s, t->s_n, true);
	out->n--;
	buf_str(out, " 120000\n");
}

// A file or link that comes (sign '+') or goes.
static int put_one_sided(struct buf *out, const char *path, char sign, const struct side *s, const char *p, size_t n,
			 struct err *e)
{
	bool add = sign == '+';
	buf_str(out, "diff --git ");
	patch_quote(out, "a/", path);
	buf_byte(out, ' ');
	patch_quote(out, "b/", path);
	buf_fmt(out, "\n%s file mode %06o\n", add ? "new" : "deleted", git_mode(s));
	put_index(out, p, n, !add, p, n, add);
	if (!n)
		return 0;
	if (!lines_is_text(p, n))
		return add ? lines_binary_patch("", 0, p, n, out, e) : lines_binary_patch(p, n, "", 0, out, e);
	put_name(out, "--- ", add ? "" : "a/", add ? "/dev/null" : path);
	put_name(out, "+++ ", add ? "b/" : "", add ? path : "/dev/null");
	put_whole_text(out, sign, p, n);
	return 0;
}

static void put_mode_change(struct buf *out, const struct change *c, const struct side *old, bool exec)
{
	struct side now = {.type = SIDE_FILE, .exec = exec};
	if (c->s.type == SIDE_FILE && old->exec != exec)
		buf_fmt(out, "old mode %06o\nnew mode %06o\n", git_mode(old), git_mode(&now));
}

// The x-bit that lands: ours where the sandbox changed it, else the host's.
static bool target_exec(const struct change *c, const struct side *old, bool only_taken)
{
	if (c->whole || c->from)
		return c->s.exec;
	for (size_t i = 0; i < c->hunks.n; i++)
		if (c->hunks.v[i].kind == HUNK_MODE && (c->hunks.v[i].take || !only_taken))
			return c->s.exec;
	return old->exec;
}

static int put_two_sided(struct buf *out, struct change *c, const struct texts *t, unsigned context, bool only_taken,
			 struct err *e)
{
	const char *from = c->from ? c->from->path : c->path;
	const struct side *old = c->from ? &c->from->h : &c->h;
	bool exec = target_exec(c, old, only_taken);
	size_t before = out->n;
	buf_str(out, "diff --git ");
	patch_quote(out, "a/", from);
	buf_byte(out, ' ');
	patch_quote(out, "b/", c->path);
	buf_byte(out, '\n');
	put_mode_change(out, c, old, exec);
	if (c->from) {
		buf_fmt(out, "similarity index %u%%\n", c->similarity);
		put_rename(out, "rename from ", from);
		put_rename(out, "rename to ", c->path);
	}
	size_t head = out->n;
	if (c->whole && t->h_n == t->s_n && !memcmp(t->h, t->s, t->s_n))
		return 0; // mode or name alone
	if (c->binary) {
		put_index(out, t->h, t->h_n, true, t->s, t->s_n, true);
		return lines_binary_patch(t->h, t->h_n, t->s, t->s_n, out, e);
	}
	if (old->type == SIDE_LINK) // else it would be read as a file's content
		put_link_index(out, t);
	put_name(out, "--- ", "a/", from);
	put_name(out, "+++ ", "b/", c->path);
	size_t names = out->n;
	if (c->whole) {
		struct lines h, s;
		lines_init(&h, t->h, t->h_n), lines_init(&s, t->s, t->s_n);
		const struct hunk all = {.old_n = (uint32_t)h.n, .new_n = (uint32_t)s.n}, *one = &all;
		put_group(out, &one, 1, &h, &s, 0, 0);
		lines_done(&h), lines_done(&s);
	} else {
		put_hunks(out, c, t, context, only_taken);
	}
	if (out->n == names) // no lines: cut the names off, and all of it when nothing else is said
		out->n = old->exec != exec || c->from ? head : before;
	out->p[out->n] = 0;
	return 0;
}

bool change_has_patch(const struct change *c)
{
	return !c->hidden && c->kind != CHANGE_DIR && c->kind != CHANGE_RMDIR && !c->unseen &&
	       (c->state == STATE_CLEAN || c->state == STATE_MOVED || c->state == STATE_GONE);
}

// A line that git passes over, for what a patch can not hold: nothing is left out silently.
static void put_note(struct buf *out, const struct change *c)
{
	const char *what = c->kind == CHANGE_DIR     ? "an empty directory"
			   : c->kind == CHANGE_RMDIR ? "a directory that is gone"
			   : c->unseen		     ? "too long to be shown"
						     : change_state_name(c->state);
	if (c->hidden)
		return;
	buf_str(out, "skep: not in this patch: ");
	patch_quote(out, "", c->path);
	buf_fmt(out, ": %s", what);
	if (c->why) {
		buf_str(out, ": ");
		patch_quote(out, "", c->why);
	}
	buf_byte(out, '\n');
}

// With the directory its objects went: what the sandbox has is all there is.
static bool is_all_there_is(const struct review *r, const struct change *c)
{
	return c->state == STATE_LOST && r->root < 0 && c->entry && c->entry->kept && c->s.type != SIDE_NONE;
}

// Lines that git passes over, each behind our name.
static void put_quoted(struct buf *out, const struct buf *text)
{
	struct str rest = str_of(buf_cstr((struct buf *)text)), line;
	while (str_next(&rest, '\n', &line))
		buf_fmt(out, "skep: %.*s\n", (int)line.n, line.p);
	if (text->overflow)
		buf_str(out, "skep: (and more)\n");
}

// What a conflicting file would change, for the eyes only.
static int put_conflict(struct review *r, const struct change *c, unsigned context, struct buf *out, struct err *e)
{
	struct texts t;
	struct lines p, h, s;
	auto_buf struct buf text = BUF_INIT(CONFLICT_SHOWN);
	if (c->state != STATE_CONFLICT || c->unseen || c->binary || c->s.type != SIDE_FILE)
		return 0;
	int rc = texts_load(r, c, &t, e);
	if (!rc) {
		lines_init(&p, t.p, t.p_n), lines_init(&h, t.h, t.h_n), lines_init(&s, t.s, t.s_n);
		const struct hunk all = {.kind = HUNK_LINES, .state = HUNK_CONFLICT, .old_n = (uint32_t)p.n, .new_n = (uint32_t)s.n};
		if (c->whole)
			hunk_text(&all, &p, &h, &s, 0, &text);
		for (size_t i = 0; !c->whole && i < c->hunks.n; i++)
			if (c->hunks.v[i].kind == HUNK_LINES && c->hunks.v[i].state == HUNK_CONFLICT)
				hunk_text(&c->hunks.v[i], &p, &h, &s, context, &text);
		put_quoted(out, &text);
		lines_done(&p), lines_done(&h), lines_done(&s);
	}
	texts_done(&t);
	return rc;
}

int change_patch(struct review *r, const struct change *c, unsigned context, bool only_taken, struct buf *out,
		 struct err *e)
{
	struct texts t;
	if (is_all_there_is(r, c))
		return put_one_sided(out, c->path, '+', &c->s, review_copy_bytes(&r->copy, c->entry), c->entry->size, e);
	if (!change_has_patch(c)) {
		put_note(out, c);
		return c->hidden ? 0 : put_conflict(r, c, context, out, e);
	}
	int rc = texts_load(r, c, &t, e);
	if (!rc && c->kind == CHANGE_ADD)
		rc = put_one_sided(out, c->path, '+', &c->s, t.s, t.s_n, e);
	else if (!rc && c->kind == CHANGE_DELETE)
		rc = put_one_sided(out, c->path, '-', &c->h, t.h, t.h_n, e);
	else if (!rc && c->kind == CHANGE_TYPE)
		rc = put_one_sided(out, c->path, '-', &c->h, t.h, t.h_n, e) ||
				     put_one_sided(out, c->path, '+', &c->s, t.s, t.s_n, e)
			     ? -1
			     : 0;
	else if (!rc)
		rc = put_two_sided(out, (struct change *)c, &t, context, only_taken, e);
	texts_done(&t);
	return rc || !out->overflow ? rc : err_set(e, ERR_LIMIT, "the patch of %.200s is too long", c->path);
}

void change_name_status(const struct change *c, struct buf *out)
{
	static const char letters[] = "AMDMTRAD";
	if (c->hidden || c->kind == CHANGE_DIR || c->kind == CHANGE_RMDIR)
		return;
	buf_byte(out, letters[c->kind]);
	if (c->from) {
		buf_fmt(out, "%03u\t", c->similarity);
		patch_quote(out, "", c->from->path);
	}
	buf_byte(out, '\t');
	patch_quote(out, "", c->path);
	buf_byte(out, '\n');
}

void patch_unread(const struct copy_entry *en, bool status, struct buf *out)
{
	buf_str(out, status ? "X\t" : "skep: not in this patch: ");
	patch_quote(out, "", review_copy_left_name(en));
	if (!status)
		buf_fmt(out, ": %s", review_copy_left_why(en));
	buf_byte(out, '\n');
}

static void stat_line(const struct change *c, size_t width, uint64_t most, struct buf *out)
{
	auto_buf struct buf name = BUF_INIT(4 * DELTA_PATH);
	if (c->from) {
		patch_quote(&name, "", c->from->path);
		buf_str(&name, " => ");
	}
	patch_quote(&name, "", c->path);
	buf_fmt(out, " %-*s | ", (int)width, buf_cstr(&name));
	if (c->binary) {
		buf_fmt(out, "Bin %llu -> %llu bytes\n", (unsigned long long)c->h.size, (unsigned long long)c->s.size);
		return;
	}
	uint64_t sum = c->added + c->removed, bar = most > STAT_WIDTH ? (sum * STAT_WIDTH + most - 1) / most : sum;
	uint64_t plus = sum ? (c->added * bar + sum - 1) / sum : 0;
	buf_fmt(out, "%4llu ", (unsigned long long)sum);
	for (uint64_t i = 0; i < bar; i++)
		buf_byte(out, i < plus ? '+' : '-');
	buf_byte(out, '\n');
}

void patch_stat(const struct review *r, struct buf *out)
{
	size_t width = 0, files = 0;
	uint64_t most = 0, added = 0, removed = 0;
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < r->n; i++) {
			const struct change *c = r->v[i];
			if (c->hidden || c->kind == CHANGE_DIR || c->kind == CHANGE_RMDIR)
				continue;
			if (pass) {
				stat_line(c, width, most, out);
				continue;
			}
			size_t len = strlen(c->path) + (c->from ? strlen(c->from->path) + 4 : 0);
			width = len > width && len <= 60 ? len : width;
			most = c->added + c->removed > most ? c->added + c->removed : most;
			added += c->added, removed += c->removed, files++;
		}
	if (files)
		buf_fmt(out, " %zu file%s changed, %llu insertion%s(+), %llu deletion%s(-)\n", files, files == 1 ? "" : "s", (unsigned long long)added,
			added == 1 ? "" : "s", (unsigned long long)removed, removed == 1 ? "" : "s");
}

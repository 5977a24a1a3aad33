// SPDX-License-Identifier: Apache-2.0
// From the list of the copy to the changes that are pending.
#include "workspace/review.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/glob.h"
#include "workspace/review_base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *change_kind_name(enum change_kind k)
{
	static const char *const names[] = {"add", "modify", "delete", "mode", "type", "rename", "dir", "rmdir"};
	return names[k];
}

const char *change_state_name(enum change_state s)
{
	static const char *const names[] = {"clean", "moved", "conflict", "lost", "gone"};
	return names[s];
}

void change_free(struct change *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_risks; i++)
		free(c->risks[i].reason);
	free(c->risks);
	hunks_done(&c->hunks);
	buf_done(&c->host);
	free(c->why);
	free(c->path);
	free(c);
}

static int look_host(int root, const char *path, struct side *out, struct buf *bytes, struct err *e)
{
	*out = (struct side){0};
	return root < 0 ? 0 : side_look(root, path, out, bytes, e);
}

// The base's side. What the tree has not, and the host has since before the sandbox, was ignored when the base was
// pinned: then the host's file is the base.
static int look_base(struct review *r, struct change *c, const struct side *base_host, struct err *e)
{
	struct shadow_entry en;
	if (r->lost)
		return err_set(e, ERR_NOT_FOUND, "the base is gone");
	int found = shadow_lookup(r->shadow, r->p_tree, c->path, &en, e);
	if (found < 0)
		return -1;
	c->p = (struct side){0};
	if (found && (en.mode == 040000 || en.mode == 0160000))
		return 0; // what is below it has its own entries
	if (found) {
		c->p = (struct side){.type = en.mode == 0120000 ? SIDE_LINK : SIDE_FILE, .exec = en.mode == 0100755, .objected = true};
		memcpy(c->p.oid, en.oid, SHADOW_OID);
		return 0;
	}
	bool own = base_host->type == SIDE_FILE || base_host->type == SIDE_LINK;
	if (own && r->folds && !side_has_exact(r->root, c->path)) {
		if (!c->why)
			c->why = xstrdup("the host's file system takes its name for that of another file");
		return 0; // no base, and something is there: a conflict
	}
	if (own && base_host->ctime_ns <= r->spec.t0_ns) {
		c->p = *base_host;
		c->implied = true;
	}
	return 0;
}

static void look_copy(struct change *c)
{
	const struct copy_entry *en = c->entry;
	c->s = (struct side){0};
	if (!en || !strchr("flh", en->kind))
		return;
	c->s = (struct side){.type = en->kind == 'l' ? SIDE_LINK : SIDE_FILE, .exec = en->exec, .size = en->size};
	c->s.hashed = en->kind != 'h';
	memcpy(c->s.sha, en->sha, sizeof c->s.sha);
	c->unseen = !en->kept;
	if (en->kept && en->hashed) {
		memcpy(c->s.oid, en->oid, sizeof c->s.oid);
		c->s.objected = true;
	}
}

static int keep(struct review *r, struct change *c)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 64;
		r->v = xrealloc(r->v, r->cap * sizeof(struct change *));
	}
	r->v[r->n++] = c;
	return 0;
}

static bool is_hidden(const struct review *r, const char *path)
{
	return glob_covers(r->spec.hide, path);
}

// One file or link: looks at its sides and keeps it when something is pending.
static int consider(struct review *r, const char *path, const struct copy_entry *en, bool in_gone_dir, struct err *e)
{
	struct side base_host = {0};
	auto_buf struct buf bytes = BUF_INIT(COPY_FILE_MAX);
	struct change *c = xcalloc(1, sizeof *c);
	bool pending = false;
	if (r->n >= COPY_ENTRIES) {
		change_free(c);
		return err_set(e, ERR_LIMIT, "more than %u changes", COPY_ENTRIES);
	}
	c->path = xstrdup(path);
	c->host = BUF_INIT(HOST_KEPT + 1);
	c->entry = en;
	c->in_gone_dir = in_gone_dir;
	look_copy(c);
	int rc = look_host(r->root, path, &c->h, &bytes, e);
	if (!rc && c->h.type == SIDE_OTHER)
		c->why = xstrdup(e->msg);
	if (!rc && bytes.n <= HOST_KEPT && r->host_kept + bytes.n <= HOST_KEPT_ALL) {
		buf_add(&c->host, bytes.p, bytes.n);
		r->host_kept += bytes.n;
	}
	// What is below a directory has changes of its own; the name itself is free once they are done.
	if (!rc && c->h.type == SIDE_DIR)
		c->h = (struct side){0};
	base_host = c->h;
	if (!rc && r->base_root != r->root)
		rc = look_host(r->base_root, path, &base_host, &bytes, e);
	if (!rc && look_base(r, c, &base_host, e)) {
		c->lost = e->kind == ERR_NOT_FOUND; // a directory of the base is gone from the repository it was borrowed from
		rc = c->lost ? 0 : -1;
	}
	if (!rc && r->root < 0) // nothing to compare with: the base stands for it
		c->h = c->p;
	if (!rc)
		rc = change_judge(r, c, &pending, e);
	if (rc || !pending) {
		change_free(c);
		return rc;
	}
	return keep(r, c);
}

struct expand {
	struct review *r;
	char *kept; // the last path below that stays
	struct err *e;
};

static int on_base_file(void *arg, const char *path, const struct shadow_entry *en)
{
	struct expand *x = arg;
	const struct copy_entry *own = review_copy_find(&x->r->copy, path);
	if (en->mode == 0160000 || is_hidden(x->r, path) || (own && strchr("flhxn", own->kind)))
		return 0;
	return consider(x->r, path, NULL, true, x->e);
}

static int keep_dir(struct review *r, const char *path, enum change_kind kind)
{
	struct change *c = xcalloc(1, sizeof *c);
	c->path = xstrdup(path);
	c->kind = kind;
	c->whole = true;
	c->state = r->gone ? STATE_GONE : STATE_CLEAN;
	(kind == CHANGE_DIR ? &c->s : &c->h)->type = SIDE_DIR;
	c->p = c->h;
	struct hunk *h = hunks_add(&c->hunks, HUNK_WHOLE);
	hunk_name_whole(h, path, change_kind_name(kind), "", 0, "", 0);
	return keep(r, c);
}

static bool has_below(const struct review *r, const char *dir)
{
	size_t i = review_copy_lower(&r->copy, dir);
	while (i < r->copy.n && !strcmp(r->copy.v[i].path, dir))
		i++;
	return i < r->copy.n && review_path_below(r->copy.v[i].path, dir);
}

static bool copy_has_dir(const struct review *r, const char *path)
{
	const struct copy_entry *en = review_copy_find(&r->copy, path);
	return (en && strchr("do", en->kind)) || has_below(r, path);
}

static int on_host_entry(void *arg, const char *path, const struct side *s)
{
	struct expand *x = arg;
	struct shadow_entry en;
	const struct copy_entry *own = review_copy_find(&x->r->copy, path);
	if (is_hidden(x->r, path)) { // it never saw it: it stays, and so do the directories it is in
		free(x->kept);
		x->kept = xstrdup(path);
		return 0;
	}
	if (own && strchr("flhxn", own->kind))
		return 0;
	if (s->type == SIDE_DIR) {
		bool stays = copy_has_dir(x->r, path) || (x->kept && review_path_below(x->kept, path));
		return stays ? 0 : keep_dir(x->r, path, CHANGE_RMDIR);
	}
	int found = shadow_lookup(x->r->shadow, x->r->p_tree, path, &en, x->e);
	if (!found && s->ctime_ns > x->r->spec.t0_ns) {
		// newer than the sandbox, which never saw it: it stays, and so do the directories it is in
		free(x->kept);
		x->kept = xstrdup(path);
		return 0;
	}
	return found ? found < 0 ? -1 : 0 : consider(x->r, path, NULL, true, x->e);
}

static int host_type(struct review *r, const char *path, enum side_type *out, struct err *e)
{
	struct stat st;
	struct err none;
	*out = SIDE_NONE;
	auto_fd int fd = r->root < 0 ? -1 : fs_open_beneath(r->root, path, O_PATH | O_NOFOLLOW, 0, &none);
	if (fd >= 0 && fstat(fd, &st))
		return err_sys(e, "stat %.200s", path);
	if (fd >= 0)
		*out = S_ISDIR(st.st_mode) ? SIDE_DIR : SIDE_FILE;
	return 0;
}

// Everything the base and the host have below dir, which the sandbox removed or replaced.
static int expand(struct review *r, const char *dir, bool itself, struct err *e)
{
	enum side_type now;
	struct expand x = {.r = r, .e = e};
	if (!r->lost && shadow_walk(r->shadow, r->p_tree, dir, on_base_file, &x, e) && (e->kind != ERR_NOT_FOUND || r->root >= 0))
		return -1; // with the repository the list of what was there can be gone
	if (host_type(r, dir, &now, e))
		return -1;
	if (r->base_root != r->root || now != SIDE_DIR)
		return 0;
	int rc = side_walk(r->root, dir, on_host_entry, &x, e);
	if (!rc && itself && !x.kept)
		rc = keep_dir(r, dir, CHANGE_RMDIR);
	free(x.kept);
	return rc;
}

static int take_dir(struct review *r, const struct copy_entry *en, struct err *e)
{
	enum side_type now;
	size_t before = r->n;
	if (en->kind == 'o' && expand(r, en->path, false, e))
		return -1;
	if (consider(r, en->path, NULL, false, e)) // a file that stood in its place
		return -1;
	bool replaces = r->n > before && !strcmp(r->v[r->n - 1]->path, en->path);
	if (has_below(r, en->path))
		return 0;
	if (host_type(r, en->path, &now, e))
		return -1;
	if (now == SIDE_DIR)
		return 0;
	if (keep_dir(r, en->path, CHANGE_DIR))
		return -1;
	if (now != SIDE_NONE && !replaces) {
		r->v[r->n - 1]->state = STATE_CONFLICT;
		r->v[r->n - 1]->why = xstrdup("the host has something else in its place");
	}
	return 0;
}

static int take_entry(struct review *r, const struct copy_entry *en, struct err *e)
{
	if (is_hidden(r, en->path))
		return 0;
	switch (en->kind) {
	case 'd':
	case 'o':
		return take_dir(r, en, e);
	case 'x':
	case 'f':
	case 'l':
	case 'h':
		return expand(r, en->path, true, e) ? -1 : consider(r, en->path, en, false, e);
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return review_path_cmp((*(struct change *const *)a)->path, (*(struct change *const *)b)->path);
}

// A file that becomes a directory is one change at its path, an empty new directory another: the first is enough.
static void drop_doubles(struct review *r)
{
	size_t to = 0;
	if (r->n)
		qsort(r->v, r->n, sizeof(struct change *), by_path);
	for (size_t i = 0; i < r->n; i++) {
		struct change *last = to ? r->v[to - 1] : NULL, *c = r->v[i];
		if (last && !strcmp(last->path, c->path) && last->kind == c->kind)
			change_free(c);
		else
			r->v[to++] = c;
	}
	r->n = to;
}

static void add_digest(struct sha256 *h, const struct change *c)
{
	auto_buf struct buf b = BUF_INIT(DELTA_PATH * 2 + 256);
	static const uint8_t none[32];
	wire_str(&b, c->path);
	wire_u8(&b, (uint8_t)c->kind);
	wire_u8(&b, (uint8_t)c->s.type);
	wire_u8(&b, c->s.exec);
	buf_add(&b, c->s.hashed ? c->s.sha : none, 32);
	wire_u64(&b, c->s.hashed ? 0 : c->s.size);
	wire_u8(&b, (uint8_t)c->h.type);
	wire_u8(&b, c->h.exec);
	buf_add(&b, c->h.hashed ? c->h.sha : none, 32);
	// With the hunks of P -> S and the host's content the target is fixed.
	for (size_t i = 0; i < c->hunks.n; i++)
		buf_add(&b, c->hunks.v[i].id, HUNK_ID);
	sha256_add(h, b.p, b.n);
}

static void make_digest(struct review *r)
{
	struct sha256 h;
	sha256_init(&h);
	for (size_t i = 0; i < r->n; i++)
		add_digest(&h, r->v[i]);
	sha256_end_hex(&h, r->digest);
	if (r->copy.scoped)
		r->digest[0] = 'p'; // of a part: never equal to one of all changes
}

static int open_dir(const char *path, uint64_t dev, uint64_t ino)
{
	struct stat st;
	struct err none;
	auto_fd int fd = path ? fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, &none) : -1;
	if (fd < 0 || fstat(fd, &st) || (ino && (st.st_ino != ino || (dev && st.st_dev != dev))))
		return -1;
	return take_fd(&fd);
}

// With the directory of a sandbox its repository may be gone, and with it what the base was. A directory that changes are
// applied to instead has perhaps the same objects.
static int open_base(struct review *r, struct err *e)
{
	struct err none;
	if (r->spec.base && r->root >= 0 && r->base_root < 0 && fs_exists(r->root, ".git/objects")) {
		auto_free char *objects = xasprintf("%s/.git/objects", r->spec.target);
		if (shadow_borrow(r->shadow, objects, &none))
			err_set(e, ERR_NOT_FOUND, "%s", none.msg); // then it is lost, as below
	}
	if (!shadow_base(r->shadow, r->p_tree, e))
		return 0;
	r->lost = e->kind == ERR_NOT_FOUND && (r->root < 0 || r->base_root < 0);
	return r->lost ? shadow_empty_tree(r->shadow, r->p_tree, e) : -1;
}

// Where a part was asked for, a deleted file in it may have its new name outside of it, or the other way round: then the
// part alone would be judged as something else, and all of it is needed.
static int check_scope(struct review *r, struct err *e)
{
	bool adds[2] = {false, false}, deletes[2] = {false, false};
	for (size_t i = 0; r->copy.scoped && i < r->copy.n; i++) {
		const struct copy_entry *en = &r->copy.v[i];
		struct shadow_entry base;
		bool in = delta_path_meets(r->spec.scope, en->path);
		if (strchr("xo", en->kind))
			deletes[in] = true;
		if (!strchr("fhn", en->kind) || adds[in])
			continue;
		int found = shadow_lookup(r->shadow, r->p_tree, en->path, &base, e);
		if (found < 0)
			return -1;
		adds[in] = !found;
	}
	if (!(adds[0] && deletes[1]) && !(adds[1] && deletes[0]))
		return 0;
	err_set(e, ERR_CONFLICT, "a file may have been renamed out of what was named: all changes are needed");
	e->sys = REVIEW_NEEDS_ALL;
	return -1;
}

int review_open(const struct review_spec *spec, struct review *out, struct err *e)
{
	*out = (struct review){.spec = *spec, .root = -1, .base_root = -1};
	struct review *r = out;
	bool other = (spec->base && *spec->base) || spec->baseless;
	r->root = open_dir(spec->target, other ? 0 : spec->dev, other ? 0 : spec->ino);
	r->base_root = other ? open_dir(spec->base, spec->dev, spec->ino) : r->root;
	r->gone = r->root < 0 && spec->target;
	r->folds = r->root >= 0 && side_folds_case(r->root);
	int rc = shadow_open(spec->shadow, &r->shadow, e);
	if (!rc && spec->t0_ns != INT64_MAX) // a frozen base is never older
		review_base_t0(shadow_dir(r->shadow), &r->spec.t0_ns);
	if (!rc)
		rc = review_copy_open(shadow_dir(r->shadow), &r->copy, e);
	if (!rc)
		rc = open_base(r, e);
	if (!rc)
		rc = check_scope(r, e);
	for (size_t i = 0; !rc && i < r->copy.n; i++)
		if (!r->copy.scoped || delta_path_meets(spec->scope, r->copy.v[i].path))
			rc = take_entry(r, &r->copy.v[i], e);
	if (!rc)
		drop_doubles(r);
	if (!rc && !spec->ignored)
		rc = review_drop_ignored(r, e);
	if (!rc && spec->renames)
		rc = review_find_renames(r, e);
	if (!rc && spec->risks)
		rc = review_risks(r, e);
	if (!rc)
		make_digest(r);
	else
		review_done(r);
	return rc;
}

void review_done(struct review *r)
{
	for (size_t i = 0; i < r->n; i++)
		change_free(r->v[i]);
	free(r->v);
	review_copy_done(&r->copy);
	shadow_close(r->shadow);
	if (r->base_root != r->root)
		close_fd(&r->base_root);
	close_fd(&r->root);
	*r = (struct review){.root = -1, .base_root = -1};
}

void change_add_risk(struct change *c, const char *flag, const char *fmt, ...)
{
	char *reason = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&reason, fmt, ap) < 0)
		abort();
	va_end(ap);
	c->risks = xrealloc(c->risks, (c->n_risks + 1) * sizeof *c->risks);
	c->risks[c->n_risks++] = (struct risk){flag, reason};
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_shadow.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/pin.h"
#include "workspace/review_copy.h"
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYNC_EACH 64u // more new objects than this: one sync of the file system instead of a wait for each

struct shadow {
	int dir;
	git_odb *odb;
	git_repository *repo; // a wrapper of odb alone: no configuration, no refs, no work tree
	git_oid written[SYNC_EACH];
	size_t n_written; // counts on past the array
};

// libgit2 reads every certificate of the system when it is initialised, which takes longer than a small review. No program of
// ours that links it makes a connection by it: these are found before the library's own, and read nothing.
int mbedtls_x509_crt_parse_file(void *chain, const char *path);
int mbedtls_x509_crt_parse_path(void *chain, const char *path);

__attribute__((visibility("default"))) int mbedtls_x509_crt_parse_file(void *chain, const char *path)
{
	(void)chain;
	(void)path;
	return 0;
}

__attribute__((visibility("default"))) int mbedtls_x509_crt_parse_path(void *chain, const char *path)
{
	(void)chain;
	(void)path;
	return 0;
}

static void note_written(struct shadow *s, const git_oid *id)
{
	if (s->n_written < SYNC_EACH)
		s->written[s->n_written] = *id;
	s->n_written++;
}

static int git_fails(struct err *e, int rc, const char *what)
{
	const git_error *g = git_error_last();
	enum err_kind kind = rc == GIT_ENOTFOUND ? ERR_NOT_FOUND : ERR_SYSTEM;
	return err_set(e, kind, "%s: %s", what, g && g->message ? g->message : "unknown reason");
}

void shadow_warm(void)
{
	git_libgit2_init();
}

int shadow_open(const char *path, struct shadow **out, struct err *e)
{
	auto_free char *objects = xasprintf("%s/objects", path);
	auto_fd int dir = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	git_libgit2_init();
	struct shadow *s = xcalloc(1, sizeof *s);
	s->dir = take_fd(&dir);
	int rc = git_odb_open(&s->odb, objects);
	if (!rc)
		rc = git_repository_wrap_odb(&s->repo, s->odb);
	if (rc) {
		git_fails(e, rc, "open the shadow repository");
		shadow_close(s);
		return -1;
	}
	*out = s;
	return 0;
}

void shadow_close(struct shadow *s)
{
	if (!s)
		return;
	git_repository_free(s->repo);
	git_odb_free(s->odb);
	git_libgit2_shutdown();
	close_fd(&s->dir);
	free(s);
}

int shadow_dir(const struct shadow *s)
{
	return s->dir;
}

void shadow_hex(const uint8_t oid[SHADOW_OID], char out[41])
{
	str_hex(out, oid, SHADOW_OID);
}

int shadow_unhex(const char *hex, uint8_t out[SHADOW_OID])
{
	git_oid id;
	if (strlen(hex) < 40 || git_oid_fromstrn(&id, hex, 40))
		return -1;
	memcpy(out, id.id, SHADOW_OID);
	return 0;
}

static git_oid oid_of(const uint8_t raw[SHADOW_OID])
{
	git_oid id;
	memcpy(id.id, raw, SHADOW_OID);
	return id;
}

// What was reviewed last; before any review what was pinned; else nothing, which is not written down: a base that is away
// for a moment may still be pinned.
static int base_name(struct shadow *s, struct buf *out, struct err *e)
{
	if (!fs_read(s->dir, "refs/skep/p", out, e))
		return 1;
	if (e->sys != ENOENT)
		return -1;
	buf_clear(out);
	if (!fs_read(s->dir, PIN_REF, out, e))
		return 1;
	return e->sys == ENOENT ? 0 : -1;
}

int shadow_borrow(struct shadow *s, const char *objects, struct err *e)
{
	int rc = git_odb_add_disk_alternate(s->odb, objects);
	return rc ? git_fails(e, rc, "use the objects of the target") : 0;
}

int shadow_base(struct shadow *s, uint8_t out[SHADOW_OID], struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	git_object *named = NULL, *tree = NULL;
	int found = base_name(s, &b, e);
	if (found <= 0)
		return found ? -1 : shadow_empty_tree(s, out, e);
	if (shadow_unhex(buf_cstr(&b), out))
		return err_set(e, ERR_SYSTEM, "the base of the shadow repository has no object id");
	git_oid id = oid_of(out);
	int rc = git_object_lookup(&named, s->repo, &id, GIT_OBJECT_ANY);
	if (!rc)
		rc = git_object_peel(&tree, named, GIT_OBJECT_TREE);
	if (rc)
		git_fails(e, rc, "read the pinned base");
	else
		memcpy(out, git_object_id(tree)->id, SHADOW_OID);
	git_object_free(tree);
	git_object_free(named);
	return rc ? -1 : 0;
}

int shadow_ref_set(struct shadow *s, const char *ref, const uint8_t oid[SHADOW_OID], struct err *e)
{
	char line[42];
	shadow_hex(oid, line);
	line[40] = '\n';
	if (fs_mkdirs(s->dir, "refs/skep", 0700, e))
		return -1;
	return fs_replace(s->dir, ref, line, 41, 0600, e);
}

int shadow_base_set(struct shadow *s, const uint8_t oid[SHADOW_OID], struct err *e)
{
	return shadow_ref_set(s, "refs/skep/p", oid, e);
}

static int tree_of(struct shadow *s, const uint8_t raw[SHADOW_OID], git_tree **out, struct err *e)
{
	git_oid id = oid_of(raw);
	int rc = git_tree_lookup(out, s->repo, &id);
	return rc ? git_fails(e, rc, "read the pinned base") : 0;
}

int shadow_lookup(struct shadow *s, const uint8_t tree[SHADOW_OID], const char *path, struct shadow_entry *out,
		  struct err *e)
{
	git_tree *t = NULL;
	git_tree_entry *en = NULL;
	if (tree_of(s, tree, &t, e))
		return -1;
	git_error_clear();
	int rc = git_tree_entry_bypath(&en, t, path), found = rc ? 0 : 1;
	// What is no tree has nothing below it. A tree whose object is gone is another matter.
	const git_error *why = rc ? git_error_last() : NULL;
	if (why && why->klass != GIT_ERROR_TREE)
		found = git_fails(e, rc, path);
	if (found == 1) {
		out->mode = git_tree_entry_filemode(en);
		memcpy(out->oid, git_tree_entry_id(en)->id, SHADOW_OID);
	}
	git_tree_entry_free(en);
	git_tree_free(t);
	return found;
}

struct walker {
	struct shadow *s;
	struct buf path;
	int (*fn)(void *arg, const char *path, const struct shadow_entry *en);
	void *arg;
	struct err *e;
};

static int walk_tree(struct walker *w, const uint8_t oid[SHADOW_OID])
{
	git_tree *t = NULL;
	int rc = tree_of(w->s, oid, &t, w->e);
	size_t n = rc ? 0 : git_tree_entrycount(t), keep = w->path.n;
	for (size_t i = 0; !rc && i < n; i++) {
		const git_tree_entry *te = git_tree_entry_byindex(t, i);
		struct shadow_entry en = {.mode = git_tree_entry_filemode(te)};
		memcpy(en.oid, git_tree_entry_id(te)->id, SHADOW_OID);
		if (keep)
			buf_byte(&w->path, '/');
		buf_str(&w->path, git_tree_entry_name(te));
		if (w->path.overflow)
			rc = err_set(w->e, ERR_LIMIT, "a path of the base is too long");
		else
			rc = en.mode == GIT_FILEMODE_TREE ? walk_tree(w, en.oid) : w->fn(w->arg, w->path.p, &en);
		w->path.n = keep;
		w->path.p[keep] = 0;
	}
	git_tree_free(t);
	return rc;
}

int shadow_walk(struct shadow *s, const uint8_t tree[SHADOW_OID], const char *dir,
		int (*fn)(void *arg, const char *path, const struct shadow_entry *en), void *arg, struct err *e)
{
	struct shadow_entry en = {.mode = GIT_FILEMODE_TREE};
	memcpy(en.oid, tree, SHADOW_OID);
	int found = *dir ? shadow_lookup(s, tree, dir, &en, e) : 1;
	if (found <= 0 || en.mode != GIT_FILEMODE_TREE)
		return found < 0 ? -1 : 0;
	struct walker w = {.s = s, .path = BUF_INIT(2 * DELTA_PATH), .fn = fn, .arg = arg, .e = e};
	buf_str(&w.path, dir);
	int rc = walk_tree(&w, en.oid);
	buf_done(&w.path);
	return rc;
}

struct updater {
	struct shadow *s;
	struct err *e;
};

// Bytes of the path's component at `from`.
static size_t part_len(const char *path, size_t from)
{
	return strcspn(path + from, "/");
}

static int update_tree(struct updater *u, const git_oid *old, const struct shadow_update *v, size_t n, size_t from,
		       git_oid *out, bool *out_empty);

// All updates v[0..n) have the same component at `from`: one entry of the tree being built.
static int update_entry(struct updater *u, git_treebuilder *tb, const struct shadow_update *v, size_t n, size_t from)
{
	size_t len = part_len(v->path, from);
	auto_free char *name = xstrndup(v->path + from, len);
	const git_tree_entry *old = git_treebuilder_get(tb, name);
	bool was_tree = old && git_tree_entry_filemode(old) == GIT_FILEMODE_TREE, empty = false;
	git_oid sub = {{0}}, old_id = {{0}};
	if (was_tree)
		old_id = *git_tree_entry_id(old);
	bool own = !v->path[from + len]; // the name itself, sorted first; the rest is below it
	int rc = 0;
	if (own && (v->mode || n == 1)) {
		for (size_t i = 1; i < n; i++)
			if (v[i].mode)
				return err_set(u->e, ERR_INVALID, "%.200s would be a file and a directory", v->path);
		sub = oid_of(v->oid);
		if (v->mode)
			rc = git_treebuilder_insert(NULL, tb, name, &sub, (git_filemode_t)v->mode);
		else if (old && !was_tree)
			rc = git_treebuilder_remove(tb, name);
		return rc ? git_fails(u->e, rc, name) : 0;
	}
	if (update_tree(u, was_tree ? &old_id : NULL, v + own, n - own, from + len + 1, &sub, &empty))
		return -1;
	if (!empty)
		rc = git_treebuilder_insert(NULL, tb, name, &sub, GIT_FILEMODE_TREE);
	else if (old)
		rc = git_treebuilder_remove(tb, name);
	return rc ? git_fails(u->e, rc, name) : 0;
}

static int update_tree(struct updater *u, const git_oid *old, const struct shadow_update *v, size_t n, size_t from,
		       git_oid *out, bool *out_empty)
{
	git_tree *t = NULL;
	git_treebuilder *tb = NULL;
	if (old && tree_of(u->s, old->id, &t, u->e))
		return -1;
	int rc = git_treebuilder_new(&tb, u->s->repo, t);
	git_tree_free(t);
	if (rc)
		return git_fails(u->e, rc, "build a tree");
	for (size_t i = 0, j; !rc && i < n; i = j) {
		size_t len = part_len(v[i].path, from);
		for (j = i + 1; j < n && !strncmp(v[j].path + from, v[i].path + from, len) && part_len(v[j].path, from) == len;)
			j++;
		rc = update_entry(u, tb, v + i, j - i, from);
	}
	*out_empty = !git_treebuilder_entrycount(tb);
	if (!rc && git_treebuilder_write(out, tb))
		rc = git_fails(u->e, -1, "write a tree");
	if (!rc)
		note_written(u->s, out);
	git_treebuilder_free(tb);
	return rc;
}

int shadow_update(struct shadow *s, const uint8_t tree[SHADOW_OID], const struct shadow_update *v, size_t n,
		  uint8_t out[SHADOW_OID], struct err *e)
{
	struct updater u = {.s = s, .e = e};
	git_oid old = oid_of(tree), now;
	bool empty;
	if (update_tree(&u, &old, v, n, 0, &now, &empty))
		return -1;
	memcpy(out, now.id, SHADOW_OID);
	return 0;
}

int shadow_read(struct shadow *s, const uint8_t oid[SHADOW_OID], struct shadow_bytes *out, struct err *e)
{
	git_odb_object *o = NULL;
	git_oid id = oid_of(oid);
	int rc = git_odb_read(&o, s->odb, &id);
	if (rc)
		return git_fails(e, rc, "read an object of the base");
	*out = (struct shadow_bytes){git_odb_object_data(o), git_odb_object_size(o), o};
	return 0;
}

void shadow_bytes_done(struct shadow_bytes *b)
{
	git_odb_object_free(b->object);
	*b = (struct shadow_bytes){0};
}

int shadow_commit_tree(struct shadow *s, const uint8_t commit[SHADOW_OID], uint8_t out[SHADOW_OID], struct err *e)
{
	git_commit *c = NULL;
	git_oid id = oid_of(commit);
	int rc = git_commit_lookup(&c, s->repo, &id);
	if (rc)
		return git_fails(e, rc, "read the commit to build on");
	memcpy(out, git_commit_tree_id(c)->id, SHADOW_OID);
	git_commit_free(c);
	return 0;
}

static int write_object(struct shadow *s, const void *p, size_t n, git_object_t type, uint8_t out[SHADOW_OID], struct err *e)
{
	git_oid id;
	int rc = git_odb_write(&id, s->odb, p, n, type);
	if (rc)
		return git_fails(e, rc, "keep an object");
	note_written(s, &id);
	memcpy(out, id.id, SHADOW_OID);
	return 0;
}

int shadow_write(struct shadow *s, const void *p, size_t n, uint8_t out[SHADOW_OID], struct err *e)
{
	return write_object(s, p, n, GIT_OBJECT_BLOB, out, e);
}

int shadow_write_commit(struct shadow *s, const char *text, size_t n, uint8_t out[SHADOW_OID], struct err *e)
{
	return write_object(s, text, n, GIT_OBJECT_COMMIT, out, e);
}

void shadow_hash(const void *p, size_t n, uint8_t out[SHADOW_OID])
{
	git_oid id = {{0}};
	if (git_odb_hash(&id, p, n, GIT_OBJECT_BLOB))
		abort(); // fails only for types that are none
	memcpy(out, id.id, SHADOW_OID);
}

static int sync_object(struct shadow *s, const git_oid *id, struct err *e)
{
	char hex[41];
	shadow_hex(id->id, hex);
	auto_free char *dir = xasprintf("objects/%.2s", hex), *name = xasprintf("objects/%.2s/%s", hex, hex + 2);
	auto_fd int file = openat(s->dir, name, O_RDONLY | O_CLOEXEC);
	if (file < 0 && errno == ENOENT)
		return 0; // it was there before: in a pack, or in the repository objects are borrowed from
	auto_fd int at = openat(s->dir, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return file < 0 || at < 0 || fsync(file) || fsync(at) ? err_sys(e, "sync an object") : 0;
}

int shadow_sync(struct shadow *s, struct err *e)
{
	if (s->n_written > SYNC_EACH)
		return syncfs(s->dir) ? err_sys(e, "sync the shadow repository") : 0;
	for (size_t i = 0; i < s->n_written; i++)
		if (sync_object(s, &s->written[i], e))
			return -1;
	auto_fd int objects = openat(s->dir, "objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return objects < 0 || fsync(objects) ? err_sys(e, "sync the shadow repository") : 0;
}

int shadow_empty_tree(struct shadow *s, uint8_t out[SHADOW_OID], struct err *e)
{
	git_oid id;
	int rc = git_odb_write(&id, s->odb, "", 0, GIT_OBJECT_TREE);
	if (rc)
		return git_fails(e, rc, "write to the shadow repository");
	memcpy(out, id.id, SHADOW_OID);
	return 0;
}

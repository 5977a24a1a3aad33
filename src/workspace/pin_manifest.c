// SPDX-License-Identifier: Apache-2.0
// The manifest of a directory without git: what stat says of everything below it (pin.h has the form).
#include "workspace/pin_int.h"

#include "base/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_ENTRIES 5000000
#define MANIFEST_DEPTH 500 // one descriptor for each level

struct record {
	char *path;
	uint64_t size, mtime, ctime, ino;
	unsigned mode;
};

struct records {
	struct record *v;
	size_t n, cap;
};

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void add(struct records *r, const char *path, const struct stat *st)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 256;
		r->v = xrealloc(r->v, r->cap * sizeof *r->v);
	}
	r->v[r->n++] = (struct record){
		xstrdup(path), (uint64_t)st->st_size, ns_of(st->st_mtim), ns_of(st->st_ctim), st->st_ino, st->st_mode};
}

static void done(struct records *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].path);
	free(r->v);
}

// Takes at.
static int walk(struct records *r, int at, const char *path, int depth, struct err *e)
{
	struct dirent *ent;
	DIR *d = fdopendir(at);
	int rc = 0;
	if (!d) {
		close_fd(&at);
		return err_sys(e, "list %s", path);
	}
	while (!rc && (ent = readdir(d))) {
		struct stat st;
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") ||
		    fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		auto_free char *full = xasprintf("%s%s%s", path, *path ? "/" : "", ent->d_name);
		add(r, full, &st);
		if (r->n > MANIFEST_ENTRIES || depth > MANIFEST_DEPTH)
			rc = err_set(e, ERR_LIMIT, "more than %d files, or %d levels", MANIFEST_ENTRIES,
				     MANIFEST_DEPTH);
		int sub = !rc && S_ISDIR(st.st_mode)
				  ? openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				  : -1;
		if (sub >= 0)
			rc = walk(r, sub, full, depth + 1, e);
	}
	closedir(d);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct record *)a)->path, ((const struct record *)b)->path);
}

static int write_blob(struct pin *p, const struct buf *b, char **out, struct err *e)
{
	auto_git struct git_run hash, ref;
	pin_git(p, &hash);
	pin_git(p, &ref);
	auto_fd int in = git_stdin(b->p, b->n, e);
	if (in < 0)
		return -1;
	hash.in = in;
	git_args(&hash, "hash-object", "-w", "--no-filters", "--stdin", NULL);
	if (git_must(&hash, e))
		return -1;
	git_args(&ref, "update-ref", PIN_MANIFEST_REF, git_output(&hash), NULL);
	if (git_must(&ref, e))
		return -1;
	*out = xstrdup(git_output(&hash));
	return 0;
}

int pin_manifest(struct pin *p, char **out_blob, uint64_t *out_files, struct err *e)
{
	struct records r = {0};
	auto_buf struct buf b = BUF_INIT(PIN_MANIFEST_MAX);
	int top = openat(p->base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = top < 0 ? err_sys(e, "%s", p->args->dir) : walk(&r, top, "", 0, e);
	if (!rc && r.n)
		qsort(r.v, r.n, sizeof *r.v, by_path);
	for (size_t i = 0; !rc && i < r.n; i++) {
		const struct record *f = &r.v[i];
		buf_fmt(&b, "%o %llu %llu %llu %llu ", f->mode, (unsigned long long)f->size,
			(unsigned long long)f->mtime, (unsigned long long)f->ctime, (unsigned long long)f->ino);
		buf_add(&b, f->path, strlen(f->path) + 1);
	}
	*out_files = r.n;
	done(&r);
	if (!rc && b.overflow)
		rc = err_set(e, ERR_LIMIT, "the manifest of %s is too long", p->args->dir);
	return rc ? -1 : write_blob(p, &b, out_blob, e);
}

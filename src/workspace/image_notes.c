// SPDX-License-Identifier: Apache-2.0
#include "workspace/image_notes.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRS_BYTES (256u << 20)

struct image_dir {
	char *path;
	size_t depth, at;
	struct image_meta m;
};

static uint64_t hash_path(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325; // FNV-1a
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3;
	return h ? h : 1;
}

static uint64_t *find_slot(const struct image_seen *s, uint64_t h)
{
	size_t i = h & (s->cap - 1);
	while (s->slot[i] && s->slot[i] != h)
		i = (i + 1) & (s->cap - 1);
	return &s->slot[i];
}

static void grow(struct image_seen *s)
{
	struct image_seen big = {.cap = s->cap ? 2 * s->cap : 1024, .n = s->n};
	big.slot = xcalloc(big.cap, sizeof *big.slot);
	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			*find_slot(&big, s->slot[i]) = s->slot[i];
	free(s->slot);
	*s = big;
}

void image_seen_add(struct image_seen *s, const char *path)
{
	size_t n = strlen(path);
	while (n) {
		if (2 * s->n >= s->cap)
			grow(s);
		uint64_t h = hash_path(path, n), *slot = find_slot(s, h);
		if (*slot)
			return; // and so are the directories on its way
		*slot = h;
		s->n++;
		while (n && path[n] != '/')
			n--;
	}
}

bool image_seen_has(const struct image_seen *s, const char *path)
{
	return s->cap && *find_slot(s, hash_path(path, strlen(path)));
}

void image_seen_clear(struct image_seen *s)
{
	free(s->slot);
	*s = (struct image_seen){0};
}

uint32_t image_owner(uint64_t id)
{
	return id <= 65535 ? (uint32_t)id : 0;
}

int image_dirs_add(struct image_dirs *d, const char *path, const struct image_meta *m, struct err *e)
{
	size_t depth = *path != 0;
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	d->bytes += strlen(path) + sizeof *d->v;
	if (d->bytes > DIRS_BYTES)
		return err_set(e, ERR_LIMIT, "the image has too many directories");
	if (d->n == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 256;
		d->v = xrealloc(d->v, d->cap * sizeof *d->v);
	}
	d->v[d->n] = (struct image_dir){xstrdup(path), depth, d->n, *m};
	d->n++;
	return 0;
}

static int deepest_newest_first(const void *a, const void *b)
{
	const struct image_dir *x = a, *y = b;
	if (x->depth != y->depth)
		return x->depth > y->depth ? -1 : 1;
	return x->at > y->at ? -1 : 1;
}

static int apply_one(const struct image_dir *d, int root, bool keep_owners, struct err *e)
{
	const struct timespec times[2] = {d->m.mtime, d->m.mtime};
	struct err why;
	// Only directories are noted, but a later layer may have put something else there or removed it.
	auto_fd int fd = fs_open_beneath(root, *d->path ? d->path : ".", O_RDONLY | O_DIRECTORY, 0, &why);
	if (fd < 0 && (why.sys == ENOENT || why.sys == ENOTDIR || why.sys == ELOOP))
		return 0;
	if (fd < 0) {
		*e = why;
		return -1;
	}
	if (keep_owners && fchown(fd, image_owner(d->m.uid), image_owner(d->m.gid)))
		return err_sys(e, "set owner of %s", d->path);
	mode_t mode = (d->m.mode & 01777) | (*d->path ? 0 : 0555); // a root nobody may enter is no root
	if (fchmod(fd, mode) || futimens(fd, times))
		return err_sys(e, "set mode of %s", d->path);
	return 0;
}

int image_dirs_apply(struct image_dirs *d, int root, bool keep_owners, struct err *e)
{
	struct image_seen done = {0};
	int rc = 0;
	if (d->n)
		qsort(d->v, d->n, sizeof *d->v, deepest_newest_first);
	for (size_t i = 0; i < d->n && !rc; i++) {
		// A set of its own: here a path does not stand for the directories on its way.
		uint64_t h = hash_path(d->v[i].path, strlen(d->v[i].path));
		if (2 * done.n >= done.cap)
			grow(&done);
		uint64_t *slot = find_slot(&done, h);
		if (*slot)
			continue;
		*slot = h;
		done.n++;
		rc = apply_one(&d->v[i], root, keep_owners, e);
	}
	image_seen_clear(&done);
	return rc;
}

void image_dirs_done(struct image_dirs *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].path);
	free(d->v);
	*d = (struct image_dirs){0};
}

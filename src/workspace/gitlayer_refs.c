// SPDX-License-Identifier: Apache-2.0
// Refs are read without git: the directory may be hostile, and there may be thousands of them. Loose refs go over
// packed ones; all of them become one packed-refs file, however they were kept.
#include "workspace/gitlayer_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REFS_MAX 1000000
#define PACKED_MAX (256u << 20)

bool gitref_is_id(const char *s, unsigned hex)
{
	return strlen(s) == hex && strspn(s, "0123456789abcdef") == hex;
}

// As git-check-ref-format has it.
bool gitref_is_name(const char *name)
{
	size_t n = strlen(name);
	if (!str_has_prefix(name, "refs/") || n > 1024 || name[n - 1] == '/' || name[n - 1] == '.')
		return false;
	if (strstr(name, "..") || strstr(name, "//") || strstr(name, "@{") || strstr(name, "/.") ||
	    strstr(name, ".lock/") || str_has_suffix(name, ".lock"))
		return false;
	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		if (*p < 33 || *p == 127 || strchr("~^:?*[\\", *p))
			return false;
	return true;
}

void gitrefs_add(struct gitrefs *r, const char *name, const char *id, const char *peeled, const char *target)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 64;
		r->list = xrealloc(r->list, r->cap * sizeof *r->list);
	}
	r->list[r->n] = (struct gitref){xstrdup(name), id ? xstrdup(id) : NULL, peeled ? xstrdup(peeled) : NULL,
					target ? xstrdup(target) : NULL, r->n};
	r->n++;
}

static void ref_done(struct gitref *f)
{
	free(f->name);
	free(f->id);
	free(f->peeled);
	free(f->target);
}

void gitrefs_done(struct gitrefs *r)
{
	for (size_t i = 0; i < r->n; i++)
		ref_done(&r->list[i]);
	free(r->list);
	*r = (struct gitrefs){0};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gitref *)a)->name, ((const struct gitref *)b)->name);
}

static int by_name_and_age(const void *a, const void *b)
{
	const struct gitref *x = a, *y = b;
	int c = strcmp(x->name, y->name);
	return c ? c : (x->seq > y->seq) - (x->seq < y->seq);
}

void gitrefs_sort(struct gitrefs *r)
{
	size_t kept = 0;
	if (r->n)
		qsort(r->list, r->n, sizeof *r->list, by_name_and_age);
	for (size_t i = 0; i < r->n; i++) {
		if (kept && !strcmp(r->list[kept - 1].name, r->list[i].name))
			ref_done(&r->list[--kept]);
		r->list[kept++] = r->list[i];
	}
	r->n = kept;
}

const struct gitref *gitrefs_find(const struct gitrefs *r, const char *name)
{
	struct gitref key = {.name = (char *)(uintptr_t)name};
	return r->n ? bsearch(&key, r->list, r->n, sizeof *r->list, by_name) : NULL;
}

bool gitrefs_head(const struct gitrefs *r, struct buf *text, char **out_commit, char **out_branch)
{
	while (text->n && text->p[text->n - 1] == '\n')
		text->p[--text->n] = 0;
	const char *head = buf_cstr(text);
	*out_commit = *out_branch = NULL;
	if (gitref_is_id(head, r->hex)) {
		*out_commit = xstrdup(head);
		return true;
	}
	if (!str_has_prefix(head, "ref: ") || !gitref_is_name(head + 5))
		return false;
	const struct gitref *f = gitrefs_find(r, head + 5);
	for (int i = 0; f && f->target && i < 5; i++)
		f = gitrefs_find(r, f->target);
	*out_commit = f && f->id ? xstrdup(f->id) : NULL;
	*out_branch = xstrdup(str_has_prefix(head + 5, "refs/heads/") ? head + 16 : head + 5);
	return true;
}

// "ID NAME" or "^ID", which belongs to the line before it.
static void packed_line(struct gitrefs *r, char *line)
{
	char *space = strchr(line, ' ');
	if (line[0] == '^') {
		if (r->n && gitref_is_id(line + 1, r->hex) && !r->list[r->n - 1].peeled)
			r->list[r->n - 1].peeled = xstrdup(line + 1);
		return;
	}
	if (space)
		*space = 0;
	if (space && gitref_is_id(line, r->hex) && gitref_is_name(space + 1))
		gitrefs_add(r, space + 1, line, NULL, NULL);
	else if (line[0] && line[0] != '#')
		r->skipped++;
}

static int read_packed(int common, struct gitrefs *r, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(PACKED_MAX);
	int rc = gitdir_read(common, "packed-refs", &b, e);
	if (rc <= 0)
		return rc;
	for (char *p = b.p, *end; p && *p; p = end) {
		end = strchr(p, '\n');
		end = end ? (*end = 0, end + 1) : p + strlen(p);
		packed_line(r, p);
		if (r->n > REFS_MAX)
			return err_set(e, ERR_LIMIT, "the repository has more than %d refs", REFS_MAX);
	}
	return 0;
}

static int read_loose(struct gitrefs *r, int dir, const char *file, const char *name, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(2048);
	struct err why;
	if (r->n > REFS_MAX)
		return err_set(e, ERR_LIMIT, "the repository has more than %d refs", REFS_MAX);
	if (!gitref_is_name(name) || gitdir_read(dir, file, &b, &why) <= 0) {
		r->skipped += !str_has_suffix(name, ".lock"); // a link, a FIFO, unreadable, or no ref at all
		return 0;
	}
	char *text = b.p;
	for (size_t n = b.n; n && (text[n - 1] == '\n' || text[n - 1] == ' '); n--)
		text[n - 1] = 0;
	if (text && str_has_prefix(text, "ref: ") && gitref_is_name(text + 5))
		gitrefs_add(r, name, NULL, NULL, text + 5);
	else if (text && gitref_is_id(text, r->hex))
		gitrefs_add(r, name, text, NULL, NULL);
	else
		r->skipped++;
	return 0;
}

static bool is_own(const char *name)
{
	return str_has_prefix(name, "refs/bisect/") || str_has_prefix(name, "refs/worktree/") ||
	       str_has_prefix(name, "refs/rewritten/");
}

enum whose { REFS_ALL, REFS_SHARED, REFS_OWN };

static int walk(struct gitrefs *r, int parent, const char *name, enum whose whose, int depth, struct err *e)
{
	const char *last = strrchr(name, '/');
	int fd = openat(parent, last ? last + 1 : name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	DIR *d = fd < 0 || depth > GITDIR_DEPTH ? NULL : fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	if (!d) {
		close_fd(&fd);
		return 0; // gone meanwhile, a link, or too deep to be a ref
	}
	while (!rc && (ent = readdir(d))) {
		auto_free char *full = xasprintf("%s/%s", name, ent->d_name);
		if (ent->d_name[0] == '.' || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISDIR(st.st_mode))
			rc = walk(r, dirfd(d), full, whose, depth + 1, e);
		else if (whose == REFS_ALL || is_own(full) == (whose == REFS_OWN))
			rc = read_loose(r, dirfd(d), ent->d_name, full, e);
	}
	closedir(d);
	return rc;
}

int gitrefs_read(const struct gitdir *g, unsigned hex, struct gitrefs *out, struct err *e)
{
	struct gitrefs r = {.hex = hex};
	if (read_packed(g->common_fd, &r, e) ||
	    walk(&r, g->common_fd, "refs", g->linked ? REFS_SHARED : REFS_ALL, 0, e) ||
	    (g->linked && walk(&r, g->dir_fd, "refs", REFS_OWN, 0, e))) {
		gitrefs_done(&r);
		return -1;
	}
	gitrefs_sort(&r);
	*out = r;
	return 0;
}

static int write_symbolic(int git, const struct gitref *f, struct err *e)
{
	auto_free char *dir = xstrdup(f->name), *text = xasprintf("ref: %s\n", f->target);
	*strrchr(dir, '/') = 0;
	return fs_mkdirs(git, dir, 0755, e) || fs_write(git, f->name, text, strlen(text), 0644, e) ? -1 : 0;
}

int gitrefs_write(const struct gitrefs *r, int git, struct err *e)
{
	// Without "fully-peeled": a loose tag does not say what it points at. What is known stays known.
	auto_buf struct buf b = BUF_INIT(PACKED_MAX * 2u);
	buf_str(&b, "# pack-refs with: sorted \n");
	for (size_t i = 0; i < r->n; i++) {
		const struct gitref *f = &r->list[i];
		if (f->target && write_symbolic(git, f, e))
			return -1;
		if (f->target)
			continue;
		buf_fmt(&b, "%s %s\n", f->id, f->name);
		if (f->peeled)
			buf_fmt(&b, "^%s\n", f->peeled);
	}
	return b.overflow ? err_set(e, ERR_LIMIT, "too many refs") : fs_write(git, "packed-refs", b.p, b.n, 0644, e);
}

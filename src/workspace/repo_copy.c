// SPDX-License-Identifier: Apache-2.0
// skep-repo copy: the frozen base of --pin. TREE/files is the directory as it is now, dirty, untracked and ignored
// files and all, without its .git; TREE/git/ws/.git is the private one. Times are kept, so the index knows every
// file, and blocks are shared where the file system can. TREE/objects holds what git needs: nothing is borrowed, so the
// host's gc takes nothing away. Read through descriptors: a link put in the way meanwhile is
// copied as a link.
#include "workspace/repo_layer_int.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "workspace/repo_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_DEPTH 300 // descriptors held at once: three for each level
#define COPY_FILES 20000000ULL

struct copying {
	uint64_t files, bytes, left; // left: sockets, FIFOs, devices, and what may not be read
};

static int copy_dir(struct copying *c, int from, int to, int depth, struct err *e);

static int copy_link(int from, int to, const char *name, const struct stat *st, struct err *e)
{
	char target[PATH_MAX];
	struct timespec times[2] = {st->st_mtim, st->st_mtim};
	ssize_t n = readlinkat(from, name, target, sizeof target - 1);
	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : err_sys(e, "%s", name);
	target[n] = 0;
	if (symlinkat(target, to, name))
		return err_sys(e, "link %s", name);
	return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) ? err_sys(e, "%s", name) : 0;
}

static int copy_file(struct copying *c, int from, int to, const char *name, struct err *e)
{
	struct stat st;
	auto_fd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		c->left += fd >= 0 || errno != ENOENT; // gone meanwhile is gone
		return 0;
	}
	if (++c->files > COPY_FILES)
		return err_set(e, ERR_LIMIT, "more than %llu files", COPY_FILES);
	c->bytes += (uint64_t)st.st_size;
	return repo_copy_fd(fd, to, name, (st.st_mode & 0777) | 0400, st.st_mtim, e);
}

static int copy_below(struct copying *c, int from, int to, const char *name, int depth, struct err *e)
{
	struct stat st;
	auto_fd int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0 || fstat(in, &st)) {
		c->left += errno != ENOENT;
		return 0;
	}
	if (depth > COPY_DEPTH)
		return err_set(e, ERR_LIMIT, "directories are more than %d levels deep", COPY_DEPTH);
	struct timespec times[2] = {st.st_mtim, st.st_mtim};
	if (mkdirat(to, name, 0700))
		return err_sys(e, "mkdir %s", name);
	auto_fd int out = fs_open(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (out < 0 || copy_dir(c, in, out, depth + 1, e))
		return -1;
	return fchmod(out, (st.st_mode & 0777) | 0700) || futimens(out, times) ? err_sys(e, "%s", name) : 0;
}

static int copy_entry(struct copying *c, int from, int to, const char *name, int depth, struct err *e)
{
	struct stat st;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : err_sys(e, "%s", name);
	if (S_ISDIR(st.st_mode))
		return copy_below(c, from, to, name, depth, e);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name, &st, e);
	if (S_ISREG(st.st_mode))
		return copy_file(c, from, to, name, e);
	c->left++;
	return 0;
}

static int copy_dir(struct copying *c, int from, int to, int depth, struct err *e)
{
	struct dirent *ent;
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		close_fd(&fd);
		return err_sys(e, "list a directory");
	}
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") && (depth || strcmp(ent->d_name, ".git")))
			rc = copy_entry(c, from, to, ent->d_name, depth, e);
	closedir(d);
	return rc;
}

static int copy_tree(const char *dir, int into, struct copying *c, struct err *e)
{
	if (mkdirat(into, "files", 0755))
		return err_sys(e, "mkdir files");
	auto_fd int from = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, e);
	auto_fd int to = from < 0 ? -1 : fs_open(into, "files", O_RDONLY | O_DIRECTORY, 0, e);
	if (to < 0 || fault(FAULT_COPY_FILES, e) || copy_dir(c, from, to, 0, e))
		return err_wrap(e, "copy of %s", dir);
	return 0;
}

static int make(const struct repo_args *a, struct repo_dir *d, struct buf *out, struct err *e)
{
	struct copying c = {0};
	struct jsonw w = {.b = out, .comma = true};
	if (mkdirat(d->fd, "git", 0755) || mkdirat(d->fd, "objects", 0755))
		return err_sys(e, "mkdir git and objects");
	auto_fd int git = fs_open(d->fd, "git", O_RDONLY | O_DIRECTORY, 0, e);
	auto_fd int objects = git < 0 ? -1 : fs_open(d->fd, "objects", O_RDONLY | O_DIRECTORY, 0, e);
	// the private .git first: an index younger than a file would vouch for what it never saw
	if (objects < 0 || repo_make_layer(a, git, objects, out, e) || copy_tree(a->dir, d->fd, &c, e))
		return -1;
	out->p[--out->n] = 0; // the object goes on
	jw_ku64(&w, "files", c.files);
	jw_ku64(&w, "bytes", c.bytes);
	jw_ku64(&w, "left", c.left);
	jw_close(&w, '}');
	return repo_write_result(d->fd, out, e) || repo_dir_commit(d, e) ? -1 : 0;
}

int repo_copy(const struct repo_args *a, struct buf *out, struct err *e)
{
	struct repo_dir d = {.fd = -1};
	int rc = repo_dir_begin(a->into, &d, e);
	if (rc <= 0)
		return rc ? -1 : repo_read_result(a->into, out, e);
	rc = make(a, &d, out, e);
	repo_dir_drop(&d);
	return rc;
}

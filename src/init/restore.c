// SPDX-License-Identifier: Apache-2.0
// Files put back as a review decided, each only where what is there is what the reviewer saw.
#include "init/collect.h"

#include "base/delta.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct restoring {
	int dir;
	struct delta_in in;
	struct delta_entry *want, *now; // the expectation, and the entry behind it
	unsigned refused;
	struct err *e;
};

static int hash_fd(int fd, uint8_t out[32], struct err *e)
{
	char chunk[32768];
	struct sha256 h;
	sha256_init(&h);
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			break;
		sha256_add(&h, chunk, (size_t)n);
	}
	sha256_end(&h, out);
	return 0;
}

static bool link_holds(struct restoring *r)
{
	char target[DELTA_PATH + 1];
	uint8_t sha[32];
	struct err none;
	struct sha256 h;
	auto_fd int fd = fs_open_beneath(r->dir, r->want->path, O_PATH | O_NOFOLLOW, 0, &none);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target);
	sha256_init(&h);
	sha256_add(&h, target, n > 0 ? (size_t)n : 0);
	sha256_end(&h, sha);
	return n > 0 && !memcmp(sha, r->want->sha, sizeof sha);
}

// Is what is there what the reviewer saw?
static bool holds(struct restoring *r)
{
	struct stat st;
	uint8_t sha[32];
	struct err e;
	if (r->want->expect == 'l')
		return link_holds(r);
	auto_fd int fd = fs_open_beneath(r->dir, r->want->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, &e);
	if (r->want->expect == 'x')
		return fd < 0 && (e.sys == ENOENT || e.sys == ENOTDIR);
	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && !(st.st_mode & 0100) == !r->want->exec &&
	       !hash_fd(fd, sha, &e) && !memcmp(sha, r->want->sha, sizeof sha);
}

static int skip_body(struct restoring *r)
{
	const char *p;
	size_t n = r->now->kind == 'f';
	bool torn;
	while (n)
		if (delta_body(&r->in, &p, &n, &torn, r->e))
			return -1;
	return 0;
}

static int open_parent(struct restoring *r, const char **out_name)
{
	const char *path = r->now->path, *slash = strrchr(path, '/');
	auto_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	*out_name = slash ? slash + 1 : path;
	if (slash && fs_mkdirs(r->dir, parent, 0777, r->e))
		return -1;
	return fs_open_beneath(r->dir, parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, r->e);
}

static int write_body(struct restoring *r, int fd)
{
	for (;;) {
		const char *p;
		size_t n;
		bool torn;
		if (delta_body(&r->in, &p, &n, &torn, r->e))
			return -1;
		if (!n)
			return 0;
		if (fs_write_all(fd, p, n, r->e))
			return -1;
	}
}

static int write_file(struct restoring *r, int dir, const char *temp)
{
	auto_fd int fd = fs_open(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, r->now->exec ? 0777 : 0666, r->e);
	return fd < 0 ? -1 : write_body(r, fd);
}

static int write_entry(struct restoring *r)
{
	const char *name;
	auto_free char *temp = xasprintf(".skep-restore-%d", (int)getpid());
	auto_fd int dir = open_parent(r, &name);
	if (dir < 0)
		return -1;
	int rc = r->now->kind == 'f' ? write_file(r, dir, temp)
		 : symlinkat(r->now->link, dir, temp) ? err_sys(r->e, "make the link %s", r->now->path)
						      : 0;
	if (!rc && renameat(dir, temp, dir, name))
		rc = err_sys(r->e, "restore %s", r->now->path);
	if (rc)
		unlinkat(dir, temp, 0);
	return rc;
}

static int remove_entry(struct restoring *r)
{
	const char *name;
	auto_fd int dir = open_parent(r, &name);
	if (dir < 0)
		return -1;
	if (!unlinkat(dir, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(r->e, "remove %s", r->now->path);
	// a directory with something in it stays
	return unlinkat(dir, name, AT_REMOVEDIR) && errno != ENOTEMPTY && errno != EEXIST
		       ? err_sys(r->e, "remove %s", r->now->path)
		       : 0;
}

static int restore_entry(struct restoring *r)
{
	switch (r->now->kind) {
	case 'f':
	case 'l':
		return write_entry(r);
	case 'x':
		return remove_entry(r);
	case 'd':
		return fs_mkdirs(r->dir, r->now->path, 0777, r->e);
	}
	return err_set(r->e, ERR_INVALID, "%s can not be restored as '%c'", r->now->path, r->now->kind);
}

static int restore_all(struct restoring *r)
{
	int more = delta_start(&r->in, r->e) ? -1 : 1;
	while (more > 0 && (more = delta_next(&r->in, r->now, r->e)) > 0) {
		bool ok = true;
		if (r->now->kind == 'c') {
			*r->want = *r->now;
			more = delta_next(&r->in, r->now, r->e);
			if (more <= 0 || strcmp(r->want->path, r->now->path))
				return more < 0 ? -1
						: err_set(r->e, ERR_INVALID, "an expectation without an entry: %.200s",
							  r->want->path);
			ok = holds(r);
		}
		if (!ok) {
			r->refused++;
			dprintf(2, "%s changed meanwhile\n", r->now->path);
		}
		if (ok ? restore_entry(r) : skip_body(r))
			return -1;
	}
	return more;
}

int restore_run(const char *dir, struct err *e)
{
	struct restoring r = {.e = e, .dir = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, e)};
	if (r.dir < 0)
		return -1;
	r.want = xcalloc(1, sizeof *r.want);
	r.now = xcalloc(1, sizeof *r.now);
	delta_in_fd(&r.in, 0);
	int rc = restore_all(&r);
	delta_in_done(&r.in);
	free(r.want);
	free(r.now);
	close_fd(&r.dir);
	if (!rc && r.refused)
		rc = err_set(e, ERR_CONFLICT, "%u paths changed meanwhile and were left as they are", r.refused);
	return rc;
}

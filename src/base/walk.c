// SPDX-License-Identifier: Apache-2.0
#include "base/walk.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (128u << 10)

struct writer {
	int fd;
	const struct walk_form *form;
	struct buf out, path; // out: what is not yet written
	char *chunk;
	struct err *e;
};

static int flush(struct writer *w)
{
	int rc = fs_write_all(w->fd, w->out.p, w->out.n, w->e);
	buf_clear(&w->out);
	return rc;
}

static int put_entry(struct writer *w, struct walk_entry *en, const struct stat *st)
{
	if (w->path.overflow)
		return err_set(w->e, ERR_LIMIT, "a path is longer than %d bytes", WALK_PATH);
	en->mode = st->st_mode & 0777;
	en->mtime = st->st_mtim;
	en->path = w->path.p;
	en->n_path = w->path.n;
	w->form->entry(&w->out, en);
	return 0;
}

static int put_link(struct writer *w, int dirfd, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(dirfd, name, w->chunk, WALK_PATH + 1);
	if (n < 0)
		return err_sys(w->e, "read link %s", buf_cstr(&w->path));
	if (n > WALK_PATH)
		return err_set(w->e, ERR_LIMIT, "link %s is too long", buf_cstr(&w->path));
	return put_entry(w, &(struct walk_entry){.type = 'l', .target = w->chunk, .n_target = (size_t)n}, st);
}

static int put_file(struct writer *w, int dirfd, const char *name)
{
	struct stat st;
	// O_NONBLOCK: the file may have become a FIFO since it was looked at
	auto_fd int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(w->e, "open %s", buf_cstr(&w->path));
	if (!S_ISREG(st.st_mode))
		return err_set(w->e, ERR_CONFLICT, "%s was replaced while it was read", buf_cstr(&w->path));
	if (put_entry(w, &(struct walk_entry){.type = 'f', .size = (uint64_t)st.st_size}, &st))
		return -1;
	for (uint64_t left = (uint64_t)st.st_size; left;) {
		ssize_t n = read(fd, w->chunk, left < CHUNK ? left : CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(w->e, "read %s", buf_cstr(&w->path));
		if (!n)
			return err_set(w->e, ERR_CONFLICT, "%s became shorter while it was read", buf_cstr(&w->path));
		if (flush(w) || fs_write_all(w->fd, w->chunk, (size_t)n, w->e))
			return -1;
		left -= (uint64_t)n;
	}
	for (size_t block = w->form->block, n = block ? (size_t)((uint64_t)st.st_size % block) : 0; n && n < block; n++)
		buf_byte(&w->out, 0);
	return 0;
}

static int put(struct writer *w, int dirfd, const char *name, int depth);

static int put_children(struct writer *w, DIR *d, int depth)
{
	struct dirent *ent;
	size_t keep = w->path.n;
	while ((errno = 0, ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		buf_byte(&w->path, '/');
		buf_str(&w->path, ent->d_name);
		if (put(w, dirfd(d), ent->d_name, depth + 1))
			return -1;
		w->path.n = keep;
		w->path.p[keep] = 0;
	}
	return errno ? err_sys(w->e, "list %s", buf_cstr(&w->path)) : 0;
}

static int put_dir(struct writer *w, int dirfd, const char *name, const struct stat *st, int depth)
{
	if (depth >= WALK_DEPTH)
		return err_set(w->e, ERR_LIMIT, "directories are nested deeper than %d", WALK_DEPTH);
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		err_sys(w->e, "open %s", buf_cstr(&w->path));
		close_fd(&fd);
		return -1;
	}
	int rc = put_entry(w, &(struct walk_entry){.type = 'd'}, st) ? -1 : put_children(w, d, depth);
	closedir(d);
	return rc;
}

static int put(struct writer *w, int dirfd, const char *name, int depth)
{
	struct stat st;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT && depth ? 0 : err_sys(w->e, "%s", name); // gone since it was listed
	int rc = 0;
	if (S_ISREG(st.st_mode))
		rc = put_file(w, dirfd, name);
	else if (S_ISDIR(st.st_mode))
		rc = put_dir(w, dirfd, name, &st, depth);
	else if (S_ISLNK(st.st_mode))
		rc = put_link(w, dirfd, name, &st);
	else if (!depth) // below the root such a thing is left out
		rc = err_set(w->e, ERR_UNSUPPORTED, "%s is not a file, directory or link", name);
	return !rc && w->out.n >= CHUNK ? flush(w) : rc;
}

int walk_write(int out_fd, int dirfd, const char *name, const char *as, const struct walk_form *form, struct err *e)
{
	struct writer w = {
		.fd = out_fd,
		.form = form,
		.out = BUF_INIT(CHUNK * 2),
		.path = BUF_INIT(WALK_PATH),
		.e = e,
		.chunk = xcalloc(1, CHUNK),
	};
	buf_add(&w.out, form->begin, form->n_begin);
	buf_str(&w.path, as);
	int rc = put(&w, dirfd, name, 0);
	if (!rc) {
		buf_add(&w.out, form->end, form->n_end);
		rc = flush(&w);
	}
	buf_done(&w.out);
	buf_done(&w.path);
	free(w.chunk);
	return rc;
}

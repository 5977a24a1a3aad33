// SPDX-License-Identifier: Apache-2.0
// Where the entries of an archive go; what they are is read in tar_in.c. They may come in any order. The directories on the
// way to the newest one are held open, one descriptor per level; every name is made relative to the last of them, so there is
// no path that the kernel would resolve for us.
#include "base/tar.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar_int.h"
#include "base/walk.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLOSED_MAX 10000 // directories that their owner may not change

// A directory on the way. What its own entry says is put on when it is left: it may be read-only, and what is made in it moves its time.
struct level {
	int fd;
	size_t n_path; // how much of path names it
	bool named;    // it had an entry
	mode_t mode;   // to leave it with
	struct timespec mtime;
};

struct reader {
	struct tar_in in;
	int top; // of levels; 0 = the target itself, borrowed
	struct level levels[WALK_DEPTH + 1];
	char path[WALK_PATH + 1]; // of the newest level
	struct closed {
		char *path;
		mode_t mode;
		size_t turn;
	} *closed; // directories that get their modes last: more may come for them
	size_t n_closed;
	struct err *e;
};

static int refuse(struct reader *r, const struct tar_entry *en, const char *why)
{
	return err_set(r->e, ERR_INVALID, "refused %.150s: %s", en->path, why);
}

static int failed(struct reader *r, const struct tar_entry *en, const char *what)
{
	err_sys(r->e, "%s", what);
	return err_wrap(r->e, "%.150s", en->path);
}

// --- directories ---

static int close_later(struct reader *r, mode_t mode)
{
	if (r->n_closed == CLOSED_MAX)
		return err_set(r->e, ERR_LIMIT, "%.150s: more than %d directories that their owner may not change", r->path, CLOSED_MAX);
	r->closed = xrealloc(r->closed, (r->n_closed + 1) * sizeof *r->closed);
	r->closed[r->n_closed] = (struct closed){xstrdup(r->path), mode, r->n_closed};
	r->n_closed++;
	return 0;
}

static int leave(struct reader *r)
{
	struct level *l = &r->levels[r->top--];
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, l->mtime};
	int rc = l->named && (fchmod(l->fd, l->mode | 0700) || futimens(l->fd, times)) ? err_sys(r->e, "finish %s", r->path) : 0;
	if (!rc && l->named && (l->mode & 0700) != 0700)
		rc = close_later(r, l->mode);
	close_fd(&l->fd);
	r->path[r->levels[r->top].n_path] = 0;
	return rc;
}

// One more on the way: made if it is not there.
static int enter(struct reader *r, const struct tar_entry *en, struct str name)
{
	struct level *l = &r->levels[r->top];
	auto_free char *one = xstrndup(name.p, name.n);
	if (r->top == WALK_DEPTH)
		return refuse(r, en, "directories are nested too deep");
	if (mkdirat(l->fd, one, 0777) && errno != EEXIST)
		return failed(r, en, "make directory");
	int fd = openat(l->fd, one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return refuse(r, en, "something on its way is a link or a file");
	if (fd < 0)
		return failed(r, en, "open directory");
	size_t at = l->n_path;
	if (at)
		r->path[at++] = '/';
	memcpy(r->path + at, one, name.n + 1);
	r->levels[++r->top] = (struct level){.fd = fd, .n_path = at + name.n};
	return 0;
}

// Without empty parts and ".", in its own place: it becomes no longer. "" is the target itself.
static int clean_path(struct reader *r, struct tar_entry *en)
{
	struct str rest = str_of(en->path), part;
	char *to = en->path;
	if (rest.n > WALK_PATH)
		return refuse(r, en, "its name is too long");
	if (en->path[0] == '/')
		return refuse(r, en, "its name is absolute");
	for (struct str look = rest; str_next(&look, '/', &part);)
		if (str_is(part, ".."))
			return refuse(r, en, "its name leads out with ..");
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (to != en->path)
			*to++ = '/';
		memmove(to, part.p, part.n);
		to += part.n;
	}
	*to = 0;
	return 0;
}

static bool is_below(const struct reader *r, const char *path, size_t parent)
{
	size_t n = r->levels[r->top].n_path;
	return n <= parent && !memcmp(r->path, path, n) && (!n || n == parent || path[n] == '/');
}

// Stands in the entry's directory, and gives its last name; "" for the target itself.
static int place(struct reader *r, struct tar_entry *en, const char **out_name)
{
	if (clean_path(r, en))
		return -1;
	const char *slash = strrchr(en->path, '/');
	size_t parent = slash ? (size_t)(slash - en->path) : 0;
	while (!is_below(r, en->path, parent))
		if (leave(r))
			return -1;
	size_t have = r->levels[r->top].n_path, from = have && have < parent ? have + 1 : have;
	struct str rest = {en->path + from, parent - from}, part;
	while (rest.n && str_next(&rest, '/', &part))
		if (enter(r, en, part))
			return -1;
	*out_name = slash ? slash + 1 : en->path;
	return 0;
}

// --- entries ---

static int take_dir(struct reader *r, const struct tar_entry *en, const char *name)
{
	if (!*name)
		return 0; // the target is whose it is
	if (enter(r, en, str_of(name)))
		return -1;
	struct level *l = &r->levels[r->top];
	l->named = true;
	l->mode = en->mode & 0777;
	l->mtime = en->mtime;
	// until it is left we must get in
	return fchmod(l->fd, l->mode | 0700) ? err_sys(r->e, "change mode of %s", r->path) : 0;
}

static int clear_way(struct reader *r, const struct tar_entry *en, const char *name)
{
	if (!unlinkat(r->levels[r->top].fd, name, 0) || errno == ENOENT)
		return 0;
	if (errno == EISDIR || errno == EPERM)
		return refuse(r, en, "a directory is there");
	return failed(r, en, "replace");
}

static int copy(struct reader *r, int fd, uint64_t left)
{
	while (left) {
		size_t n = left < TAR_CHUNK ? (size_t)left : TAR_CHUNK;
		if (tar_in_all(&r->in, r->in.chunk, n) || fs_write_all(fd, r->in.chunk, n, r->e))
			return -1;
		left -= n;
	}
	return 0;
}

static int take_file(struct reader *r, const struct tar_entry *en, const char *name)
{
	int dir = r->levels[r->top].fd;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, en->mtime};
	if (en->mode & 06000)
		return refuse(r, en, "it is setuid or setgid");
	if (clear_way(r, en, name))
		return -1;
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(r, en, "make");
	int rc = copy(r, fd, en->size);
	if (!rc && (fchmod(fd, en->mode & 0777) || futimens(fd, times)))
		rc = err_sys(r->e, "finish");
	if (!rc)
		return tar_in_skip(&r->in, tar_padding(en->size));
	unlinkat(dir, name, 0); // half a file is none
	return err_wrap(r->e, "%.150s", en->path);
}

static int take_link(struct reader *r, const struct tar_entry *en, const char *name)
{
	int dir = r->levels[r->top].fd;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, en->mtime};
	if (!*en->target)
		return refuse(r, en, "a link to nothing");
	if (clear_way(r, en, name))
		return -1;
	if (!symlinkat(en->target, dir, name) && !utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return 0;
	return failed(r, en, "make link");
}

// The directory of a name below the target, on a way without links; its last part in *out_name, borrowed from path.
static int open_parent(const struct reader *r, const char *path, const char **out_name)
{
	auto_fd int at = dup(r->levels[0].fd);
	struct str rest = str_of(path), part, next = {NULL, 0};
	bool more = str_next(&rest, '/', &part);
	for (; more && at >= 0; part = next) {
		more = str_next(&rest, '/', &next);
		if (str_is(part, "..") || (!part.n && part.p == path))
			return -1;
		if (!more)
			break;
		if (!part.n || str_is(part, "."))
			continue;
		auto_free char *one = xstrndup(part.p, part.n);
		int below = openat(at, one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close_fd(&at);
		at = below;
	}
	*out_name = part.p;
	return at < 0 || !part.n || str_is(part, ".") ? -1 : take_fd(&at);
}

static int take_hard_link(struct reader *r, const struct tar_entry *en, const char *name)
{
	const char *last;
	struct stat st, here;
	int to = r->levels[r->top].fd;
	auto_fd int from = open_parent(r, en->target, &last);
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return refuse(r, en, "a hard link to what is no regular file below the target");
	if (!fstatat(to, name, &here, AT_SYMLINK_NOFOLLOW) && here.st_dev == st.st_dev && here.st_ino == st.st_ino)
		return 0; // it is that file already
	if (clear_way(r, en, name))
		return -1;
	if (!linkat(from, last, to, name, 0))
		return 0;
	return failed(r, en, "make hard link");
}

static int take_entry(struct reader *r, struct tar_entry *en)
{
	const char *name;
	bool dir = en->type == '5' || (strchr("07", en->type ? en->type : '0') && *en->path && en->path[strlen(en->path) - 1] == '/');
	if (!*en->path)
		return err_set(r->e, ERR_INVALID, "an entry of the archive has no name");
	if (strchr("346", en->type ? en->type : '0'))
		return refuse(r, en, "devices and FIFOs are not taken");
	if (en->type == 'S' || en->sparse)
		return refuse(r, en, "sparse files are not taken");
	if (en->type && !strchr("01257", en->type))
		return refuse(r, en, "it is of no kind that is known");
	if (place(r, en, &name))
		return -1;
	if (!*name && !dir)
		return refuse(r, en, "it would replace the directory itself");
	if (dir)
		return take_dir(r, en, name) ? -1 : tar_in_skip(&r->in, en->size + tar_padding(en->size));
	switch (en->type) {
	case '1':
		return take_hard_link(r, en, name) ? -1 : tar_in_skip(&r->in, en->size + tar_padding(en->size));
	case '2':
		return take_link(r, en, name) ? -1 : tar_in_skip(&r->in, en->size + tar_padding(en->size));
	default:
		return take_file(r, en, name);
	}
}

static int take_all(struct reader *r)
{
	if (tar_in_begin(&r->in))
		return -1;
	for (;;) {
		struct tar_entry en = {0};
		int rc = tar_in_next(&r->in, &en);
		if (rc > 0 && take_entry(r, &en))
			rc = -1;
		tar_entry_done(&en);
		if (rc <= 0)
			return rc;
	}
}

// The deepest first, for behind a closed one there is no way in; of the same one the last counts.
static int by_depth(const void *a, const void *b)
{
	const struct closed *x = a, *y = b;
	size_t n = strlen(x->path), m = strlen(y->path);
	return n != m ? (n < m) - (n > m) : (x->turn > y->turn) - (x->turn < y->turn);
}

static int close_all(struct reader *r)
{
	if (r->n_closed)
		qsort(r->closed, r->n_closed, sizeof *r->closed, by_depth);
	for (size_t i = 0; i < r->n_closed; i++) {
		const struct closed *c = &r->closed[i];
		const char *last;
		auto_fd int at = open_parent(r, c->path, &last);
		auto_fd int fd = at < 0 ? -1 : openat(at, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fchmod(fd, c->mode))
			return err_sys(r->e, "change mode of %.150s", c->path);
	}
	return 0;
}

int tar_read(int in_fd, int dirfd, struct err *e)
{
	struct reader *r = xcalloc(1, sizeof *r);
	*r = (struct reader){.in = {.fd = in_fd, .chunk = xcalloc(1, TAR_CHUNK), .e = e}, .e = e};
	r->levels[0].fd = dirfd;
	int rc = take_all(r);
	while (!rc && r->top)
		rc = leave(r);
	for (; r->top; r->top--)
		close(r->levels[r->top].fd);
	if (!rc)
		rc = close_all(r) || tar_in_drain(&r->in) ? -1 : 0;
	while (r->n_closed)
		free(r->closed[--r->n_closed].path);
	free(r->closed);
	free(r->in.chunk);
	free(r);
	return rc;
}

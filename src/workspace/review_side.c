// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_side.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "workspace/review_copy.h"
#include "model/treename.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALK_DEPTH 200
#define FOLD_LOOKS 50 // entries tried in the other case

const char *side_name(enum side_type t)
{
	static const char *const names[] = {"none", "file", "link", "dir", "other"};
	return names[t];
}

bool side_same_content(const struct side *a, const struct side *b)
{
	if (a->type != b->type || a->type == SIDE_OTHER)
		return false;
	if (a->type == SIDE_NONE || a->type == SIDE_DIR)
		return true;
	if (a->hashed && b->hashed)
		return !memcmp(a->sha, b->sha, sizeof a->sha);
	return a->objected && b->objected && !memcmp(a->oid, b->oid, SHADOW_OID);
}

bool side_same(const struct side *a, const struct side *b)
{
	return side_same_content(a, b) && (a->type != SIDE_FILE || a->exec == b->exec);
}

void side_hash(struct side *s, const void *p, size_t n)
{
	struct sha256 h;
	sha256_init(&h);
	sha256_add(&h, p, n);
	sha256_end(&h, s->sha);
	shadow_hash(p, n, s->oid);
	s->size = n;
	s->hashed = s->objected = true;
}

static void from_stat(struct side *out, const struct stat *st)
{
	*out = (struct side){
		.type = S_ISREG(st->st_mode)   ? SIDE_FILE
			: S_ISLNK(st->st_mode) ? SIDE_LINK
			: S_ISDIR(st->st_mode) ? SIDE_DIR
					       : SIDE_OTHER,
		.exec = S_ISREG(st->st_mode) && st->st_mode & 0100,
		.perm = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.ino = st->st_ino,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
	};
}

static int look_link(int dir, const char *path, struct side *out, struct buf *bytes, struct err *e)
{
	struct stat st;
	auto_fd int fd = fs_open_beneath(dir, path, O_PATH | O_NOFOLLOW, 0, e);
	if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode)) {
		out->type = SIDE_OTHER; // a link further up
		err_set(e, ERR_CONFLICT, "%.200s lies behind a symbolic link on the host", path);
		return 0;
	}
	from_stat(out, &st);
	char *p = buf_room(bytes, DELTA_PATH + 1);
	ssize_t n = p ? readlinkat(fd, "", p, DELTA_PATH + 1) : -1;
	if (n < 0 || n > DELTA_PATH)
		return err_set(e, ERR_SYSTEM, "read the link %.200s", path);
	bytes->n += (size_t)n;
	side_hash(out, bytes->p, bytes->n);
	return 0;
}

static int absent(int error)
{
	return error == ENOENT || error == ENOTDIR;
}

// A failed open that is an answer, not a failure.
static int look_other(const char *path, struct side *out, struct err *e)
{
	*out = (struct side){.type = absent(e->sys) ? SIDE_NONE : SIDE_OTHER};
	if (absent(e->sys) || e->sys == EACCES || e->sys == ENXIO || e->sys == EXDEV || e->sys == EPERM ||
	    e->sys == ENAMETOOLONG)
		return 0;
	return err_wrap(e, "look at %.200s", path);
}

int side_look(int dir, const char *path, struct side *out, struct buf *bytes, struct err *e)
{
	struct stat st;
	// O_NONBLOCK: whatever it is, opening it must not wait
	auto_fd int fd = fs_open_beneath(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, e);
	buf_clear(bytes);
	if (fd < 0 && e->sys == ELOOP)
		return look_link(dir, path, out, bytes, e);
	if (fd < 0)
		return look_other(path, out, e);
	if (fstat(fd, &st))
		return err_sys(e, "stat %.200s", path);
	from_stat(out, &st);
	if (out->type == SIDE_OTHER)
		err_set(e, ERR_CONFLICT, "%.200s is neither file, directory nor link on the host", path);
	if (out->type != SIDE_FILE)
		return 0;
	if (fs_read_fd(fd, bytes, e)) {
		out->type = SIDE_OTHER;
		buf_clear(bytes);
		return e->kind == ERR_LIMIT ? 0 : err_wrap(e, "%.200s", path);
	}
	side_hash(out, buf_cstr(bytes), bytes->n);
	return 0;
}

// The same name with every letter in the other case; NULL when there is none in it.
static char *other_case(const char *name)
{
	char *other = xstrdup(name);
	bool differs = false;
	for (char *p = other; *p; p++)
		if (isalpha((unsigned char)*p)) {
			*p ^= 0x20;
			differs = true;
		}
	if (differs)
		return other;
	mem_free_ptr(&other);
	return NULL;
}

bool side_folds_case(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = FOLD_LOOKS;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *ent;
	bool folds = false;
	if (!d) {
		close_fd(&copy);
		return false;
	}
	while (!folds && left-- && (ent = readdir(d))) {
		struct stat a, b;
		auto_free char *other = other_case(ent->d_name);
		folds = other && !fstatat(dir, ent->d_name, &a, AT_SYMLINK_NOFOLLOW) &&
			!fstatat(dir, other, &b, AT_SYMLINK_NOFOLLOW) && a.st_ino == b.st_ino && a.st_nlink < 2;
	}
	closedir(d);
	return folds;
}

bool side_has_exact(int root, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	auto_free char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	struct err none;
	int fd = fs_open_beneath(root, parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	bool found = false;
	if (!d) {
		close_fd(&fd);
		return false;
	}
	while (!found && (ent = readdir(d)))
		found = !strcmp(ent->d_name, name);
	closedir(d);
	return found;
}

struct walker {
	struct buf path;
	int (*fn)(void *arg, const char *path, const struct side *s);
	void *arg;
	struct err *e;
};

static int walk_dir(struct walker *w, int fd, int depth);

static int walk_entry(struct walker *w, int dir, const char *name, int depth)
{
	struct stat st;
	struct side s;
	int rc = 0;
	size_t keep = w->path.n;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || treename_is_git(name, strlen(name)))
		return 0; // gone meanwhile, or not ours to look into
	from_stat(&s, &st);
	buf_byte(&w->path, '/');
	buf_str(&w->path, name);
	if (w->path.overflow)
		return err_set(w->e, ERR_LIMIT, "a path below the target is longer than %d bytes", DELTA_PATH);
	if (s.type == SIDE_DIR) {
		struct err e;
		auto_fd int fd = fs_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &e);
		if (fd >= 0 && depth < WALK_DEPTH)
			rc = walk_dir(w, fd, depth + 1);
	}
	if (!rc)
		rc = w->fn(w->arg, w->path.p, &s);
	w->path.n = keep;
	w->path.p[keep] = 0;
	return rc;
}

static int walk_dir(struct walker *w, int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *ent;
	if (!d) {
		close_fd(&copy);
		return 0; // can not be listed: nothing of it is ours to delete
	}
	while (!rc && (ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			rc = walk_entry(w, fd, ent->d_name, depth);
	closedir(d);
	return rc;
}

int side_walk(int root, const char *dir, int (*fn)(void *arg, const char *path, const struct side *s), void *arg,
	      struct err *e)
{
	struct walker w = {.path = BUF_INIT(DELTA_PATH), .fn = fn, .arg = arg, .e = e};
	struct err none;
	auto_fd int fd = fs_open_beneath(root, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	if (fd < 0)
		return 0;
	buf_str(&w.path, dir);
	int rc = walk_dir(&w, fd, 0);
	buf_done(&w.path);
	return rc;
}

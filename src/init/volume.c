// SPDX-License-Identifier: Apache-2.0
// Everything below a volume belongs to cells, which may exchange any name at any moment. So a path is never walked by hand:
// reads resolve it with the volume as their root, writes resolve its parent without following links, and what was opened is
// looked at before it is used. A FIFO or device is never opened. A file that is put is written under another name in the same
// directory and renamed when it is whole.
#include "init/volume.h"

#include "base/fs.h"
#include "base/id.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANSWER_LONGEST (64u << 20)
#define SIZE_DEPTH 1000 // directories below each other; descriptors are the reason
#define SIZE_ENTRIES 10000000
#define RENAME_KEEPS 1u	   // RENAME_NOREPLACE, which not every libc names

// What a caller can do about it is in the kind of the error.
static int volume_fail(struct err *e, const char *path)
{
	int sys = errno;
	err_sys(e, "/%.300s", path);
	switch (sys) {
	case ENOENT:
		e->kind = ERR_NOT_FOUND;
		break;
	case EEXIST:
	case ENOTEMPTY:
	case EBUSY:
		e->kind = ERR_CONFLICT;
		break;
	case ELOOP:
	case EXDEV:
		return err_set(e, ERR_INVALID, "/%.300s leads through a symbolic link, and nothing is written there", path);
	case ENOTDIR:
	case EISDIR:
	case ENAMETOOLONG:
	case EINVAL:
		e->kind = ERR_INVALID;
		break;
	case EACCES:
	case EPERM:
		e->kind = ERR_DENIED;
		break;
	default:
		break;
	}
	return -1;
}

static const char *volume_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// --- answers ---

static int volume_answer(const struct buf *b, struct err *e)
{
	if (b->overflow)
		return err_set(e, ERR_LIMIT, "the answer is longer than %u bytes: ask for a smaller directory", ANSWER_LONGEST);
	auto_fd int fd = memfd_create("skep-volume", MFD_CLOEXEC);
	if (fd < 0 || fs_write_all(fd, b->p ? b->p : "", b->n, e))
		return fd < 0 ? err_sys(e, "memory for an answer") : -1;
	return lseek(fd, 0, SEEK_SET) ? err_sys(e, "answer") : take_fd(&fd);
}

static const char *volume_type_name(mode_t mode)
{
	if (S_ISREG(mode))
		return "file";
	if (S_ISDIR(mode))
		return "directory";
	return S_ISLNK(mode) ? "symlink" : "unknown";
}

static uint64_t volume_ms(const struct timespec *t)
{
	return t->tv_sec < 0 ? 0 : (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_nsec / 1000000;
}

// at, name: where the link's text is read; with name "" at is the link itself.
static void volume_put_entry(struct jsonw *w, const char *path, int at, const char *name, const struct stat *st)
{
	char target[4096];
	auto_free char *whole = xasprintf("/%s", path);
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(at, name, target, sizeof target) : -1;
	jw_open(w, '{');
	jw_kstr(w, "name", *path ? volume_base_name(path) : "/");
	jw_kstr(w, "type", volume_type_name(st->st_mode));
	jw_kstr(w, "path", whole);
	jw_ku64(w, "size", S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size);
	jw_ku64(w, "mode", st->st_mode & 07777);
	jw_ku64(w, "uid", st->st_uid);
	jw_ku64(w, "gid", st->st_gid);
	jw_ktime(w, "atime", volume_ms(&st->st_atim));
	jw_ktime(w, "mtime", volume_ms(&st->st_mtim));
	jw_ktime(w, "ctime", volume_ms(&st->st_ctim));
	if (n >= 0)
		jw_kbytes(w, "target", target, (size_t)n);
	jw_close(w, '}');
}

static int volume_entry_answer(int fd, const char *path, struct err *e)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(ANSWER_LONGEST);
	struct jsonw w = {.b = &b};
	if (fstat(fd, &st))
		return volume_fail(e, path);
	volume_put_entry(&w, path, fd, "", &st);
	return volume_answer(&b, e);
}

// --- opening ---

// The parent of path, and its last name; links are not followed.
static int volume_open_parent(int dir, const char *path, const char **out_name, struct err *e)
{
	*out_name = volume_base_name(path);
	auto_free char *parent = xstrndup(path, (size_t)(*out_name - path));
	if (!*path)
		return err_set(e, ERR_INVALID, "the top of a volume can not be made, replaced or removed");
	int fd = fs_open_beneath(dir, *parent ? parent : ".", O_PATH | O_DIRECTORY, 0, e);
	return fd < 0 ? volume_fail(e, path) : fd;
}

static int volume_open_itself(int dir, const char *path, struct err *e)
{
	const char *name;
	auto_fd int parent = *path ? volume_open_parent(dir, path, &name, e) : -1;
	if (*path && parent < 0)
		return -1;
	int fd = openat(*path ? parent : dir, *path ? name : ".", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? volume_fail(e, path) : fd;
}

// What an O_PATH descriptor stands for, opened in earnest: nobody can exchange it any more.
static int volume_reopen(int at, int flags, const char *path, struct err *e)
{
	char self[32];
	if (fmt_to(self, sizeof self, "/proc/self/fd/%d", at))
		return err_set(e, ERR_BUG, "path");
	int fd = open(self, flags | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? volume_fail(e, path) : fd;
}

static int volume_do_open(int dir, const struct volume_op *op, struct err *e)
{
	struct stat st;
	auto_fd int at = fs_open_in_root(dir, *op->path ? op->path : ".", O_PATH, e);
	if (at < 0 || fstat(at, &st))
		return volume_fail(e, op->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "/%.300s is no regular file", op->path);
	return volume_reopen(at, O_RDONLY, op->path, e);
}

// --- lists and sizes ---

struct volume_listing {
	struct jsonw w;
	size_t n;
};

static int volume_list_dir(struct volume_listing *l, int fd, const char *path, uint32_t depth, struct err *e);

static int volume_list_entry(struct volume_listing *l, int dir, const char *path, uint32_t depth, struct err *e)
{
	struct stat st;
	const char *name = volume_base_name(path);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0; // it went meanwhile
	if (++l->n > VOLUME_LIST_MAX)
		return err_set(e, ERR_LIMIT, "more than %d entries: list the directories below one by one", VOLUME_LIST_MAX);
	volume_put_entry(&l->w, path, dir, name, &st);
	if (!S_ISDIR(st.st_mode) || depth <= 1)
		return 0;
	auto_fd int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return sub < 0 ? 0 : volume_list_dir(l, sub, path, depth - 1, e);
}

static int volume_list_dir(struct volume_listing *l, int fd, const char *path, uint32_t depth, struct err *e)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	DIR *d = own >= 0 ? fdopendir(own) : NULL;
	struct dirent *ent;
	int rc = 0;
	if (!d) {
		close_fd(&own);
		return volume_fail(e, path);
	}
	while (!rc && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		auto_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", ent->d_name);
		rc = volume_list_entry(l, fd, below, depth, e);
	}
	closedir(d);
	return rc;
}

static int volume_do_list(int dir, const struct volume_op *op, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(ANSWER_LONGEST);
	struct volume_listing l = {.w = {.b = &b}};
	auto_fd int at = fs_open_in_root(dir, *op->path ? op->path : ".", O_PATH | O_DIRECTORY, e);
	if (at < 0)
		return volume_fail(e, op->path);
	auto_fd int fd = volume_reopen(at, O_RDONLY | O_DIRECTORY, op->path, e);
	if (fd < 0)
		return -1;
	jw_open(&l.w, '[');
	if (volume_list_dir(&l, fd, op->path, op->depth ? op->depth : 1, e))
		return -1;
	jw_close(&l.w, ']');
	return volume_answer(&b, e);
}

struct volume_sum {
	uint64_t bytes, files;
};

static int volume_sum_dir(struct volume_sum *s, int fd, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	if (!d) {
		close(fd);
		return 0;
	}
	while ((ent = readdir(d)) && s->files < SIZE_ENTRIES) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		s->files++;
		s->bytes += (uint64_t)st.st_blocks * 512 / (st.st_nlink && !S_ISDIR(st.st_mode) ? st.st_nlink : 1);
		int sub = S_ISDIR(st.st_mode) && depth < SIZE_DEPTH ?
				  openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) :
				  -1;
		if (sub >= 0)
			volume_sum_dir(s, sub, depth + 1);
	}
	closedir(d);
	return 0;
}

static int volume_do_size(int dir, struct err *e)
{
	struct volume_sum s = {0};
	auto_buf struct buf b = BUF_INIT(256);
	struct jsonw w = {.b = &b};
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return volume_fail(e, "");
	volume_sum_dir(&s, fd, 0);
	jw_open(&w, '{');
	jw_ku64(&w, "bytes", s.bytes);
	jw_ku64(&w, "files", s.files);
	jw_close(&w, '}');
	return volume_answer(&b, e);
}

// --- making ---

static int volume_own(int fd, const struct volume_op *op, mode_t mode, struct err *e)
{
	if (fchownat(fd, "", op->uid, op->gid, AT_EMPTY_PATH)) {
		if (errno == EINVAL)
			return err_set(e, ERR_INVALID, "uid %u, gid %u: sandboxes of this machine have no such ids", op->uid, op->gid);
		return volume_fail(e, op->path);
	}
	return fchmod(fd, op->mode == VOLUME_KEEP ? mode : op->mode & 01777) ? volume_fail(e, op->path) : 0;
}

// 1: made, 0: there was one.
static int volume_make_dir(int parent, const char *name, const struct volume_op *op, mode_t mode, struct err *e)
{
	if (mkdirat(parent, name, 0700))
		return errno == EEXIST ? 0 : volume_fail(e, op->path);
	auto_fd int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return volume_fail(e, op->path);
	return volume_own(fd, op, mode, e) ? -1 : 1;
}

// Every directory above path that is missing.
static int volume_make_parents(int dir, const struct volume_op *op, struct err *e)
{
	struct volume_op plain = *op;
	plain.mode = VOLUME_KEEP;
	for (const char *slash = strchr(op->path, '/'); slash; slash = strchr(slash + 1, '/')) {
		const char *name;
		auto_free char *above = xstrndup(op->path, (size_t)(slash - op->path));
		auto_fd int parent = volume_open_parent(dir, above, &name, e);
		if (parent < 0 || volume_make_dir(parent, name, &plain, 0755, e) < 0)
			return -1;
	}
	return 0;
}

static int volume_do_mkdir(int dir, const struct volume_op *op, struct err *e)
{
	struct stat st;
	const char *name;
	if (op->force && volume_make_parents(dir, op, e))
		return -1;
	auto_fd int parent = volume_open_parent(dir, op->path, &name, e);
	int made = parent < 0 ? -1 : volume_make_dir(parent, name, op, 0755, e);
	if (made < 0)
		return -1;
	bool fine = made || (op->force && !fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode));
	if (!fine)
		return err_set(e, ERR_CONFLICT, "/%.300s exists", op->path);
	auto_fd int at = volume_open_itself(dir, op->path, e);
	return at < 0 ? -1 : volume_entry_answer(at, op->path, e);
}

static int volume_copy_bytes(int from, int to, const char *path, struct err *e)
{
	char chunk[65536];
	off_t at = 0;
	ssize_t n;
	while ((n = copy_file_range(from, &at, to, NULL, 1 << 30, 0)) > 0)
		;
	if (!n)
		return 0;
	while ((n = pread(from, chunk, sizeof chunk, at)) > 0) { // where the kernel can not do that
		if (fs_write_all(to, chunk, (size_t)n, e))
			return e->kind == ERR_LIMIT ? -1 : volume_fail(e, path);
		at += n;
	}
	return n < 0 ? volume_fail(e, path) : 0;
}

static int volume_fill(int fd, const struct volume_op *op, int body, struct err *e)
{
	if (volume_copy_bytes(body, fd, op->path, e) || volume_own(fd, op, 0644, e))
		return -1;
	return fsync(fd) ? volume_fail(e, op->path) : 0;
}

static int volume_do_put(int dir, const struct volume_op *op, int body, struct err *e)
{
	char id[ID_SIZE];
	const char *name;
	if (op->force && volume_make_parents(dir, op, e))
		return -1;
	auto_fd int parent = volume_open_parent(dir, op->path, &name, e);
	if (parent < 0)
		return -1;
	id_make('p', id);
	auto_free char *partial = xasprintf(".%s.skep", id);
	auto_fd int fd = openat(parent, partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return volume_fail(e, op->path);
	int rc = volume_fill(fd, op, body, e);
	if (!rc && syscall(SYS_renameat2, parent, partial, parent, name, op->force ? 0 : RENAME_KEEPS))
		rc = errno == EEXIST ? err_set(e, ERR_CONFLICT, "/%.300s exists: write it with force to replace it", op->path) :
				       volume_fail(e, op->path);
	if (rc) {
		unlinkat(parent, partial, 0);
		return -1;
	}
	return volume_entry_answer(fd, op->path, e);
}

// --- changing ---

static int volume_do_set(int dir, const struct volume_op *op, struct err *e)
{
	struct stat st;
	char self[32];
	auto_fd int at = volume_open_itself(dir, op->path, e);
	if (at < 0)
		return -1;
	uid_t uid = op->uid == VOLUME_KEEP ? (uid_t)-1 : op->uid;
	gid_t gid = op->gid == VOLUME_KEEP ? (gid_t)-1 : op->gid;
	if (fstat(at, &st) || fchownat(at, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return volume_fail(e, op->path);
	bool moded = op->mode != VOLUME_KEEP && !S_ISLNK(st.st_mode) && !fmt_to(self, sizeof self, "/proc/self/fd/%d", at);
	if (moded && chmod(self, op->mode & 01777))
		return volume_fail(e, op->path);
	return volume_entry_answer(at, op->path, e);
}

static int volume_do_remove(int dir, const struct volume_op *op, struct err *e)
{
	struct stat st;
	const char *name;
	auto_fd int parent = volume_open_parent(dir, op->path, &name, e);
	if (parent < 0)
		return -1;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW))
		return volume_fail(e, op->path);
	if (fs_remove_tree(parent, name, e))
		return -1;
	auto_buf struct buf b = BUF_INIT(8);
	buf_str(&b, "{}");
	return volume_answer(&b, e);
}

static int volume_do_verb(int dir, const struct volume_op *op, int body, struct err *e)
{
	switch (op->verb) {
	case VOLUME_LIST:
		return volume_do_list(dir, op, e);
	case VOLUME_STAT: {
		auto_fd int at = volume_open_itself(dir, op->path, e);
		return at < 0 ? -1 : volume_entry_answer(at, op->path, e);
	}
	case VOLUME_OPEN:
		return volume_do_open(dir, op, e);
	case VOLUME_PUT:
		return body < 0 ? err_set(e, ERR_BUG, "no bytes came along") : volume_do_put(dir, op, body, e);
	case VOLUME_MKDIR:
		return volume_do_mkdir(dir, op, e);
	case VOLUME_SET:
		return volume_do_set(dir, op, e);
	case VOLUME_REMOVE:
		return volume_do_remove(dir, op, e);
	case VOLUME_SIZE:
		return volume_do_size(dir, e);
	case VOLUME_VERBS:
		break;
	}
	return err_set(e, ERR_INVALID, "no such work in a volume");
}

int volume_do(int dir, const struct volume_op *op, int body, uint32_t owner, struct err *e)
{
	struct volume_op own = *op;
	bool makes = op->verb == VOLUME_PUT || op->verb == VOLUME_MKDIR;
	if (makes && own.uid == VOLUME_KEEP)
		own.uid = owner;
	if (makes && own.gid == VOLUME_KEEP)
		own.gid = owner;
	umask(0);
	return volume_do_verb(dir, &own, body, e);
}

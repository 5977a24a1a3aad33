// SPDX-License-Identifier: Apache-2.0
#include "init/sftp.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/sftp_wire.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HANDLES 256
#define ENTRIES 100		   // names in one answer
#define OUT_HIGH SFTP_PACKET_MAX // answers are gathered up to here

struct handle {
	bool used;
	int fd; // file
	bool append;
	DIR *dir;
};

struct sftp {
	struct buf in, out;
	struct handle handles[HANDLES];
	bool greeted;
};

// --- answers ---

static void answer(struct sftp *s, uint32_t id, enum sftp_status code, const char *text)
{
	size_t at = sftp_begin(&s->out, SFTP_STATUS, id);
	sftp_u32(&s->out, code);
	sftp_str(&s->out, text, strlen(text));
	sftp_str(&s->out, "", 0);
	sftp_end(&s->out, at);
}

static enum sftp_status status_of(int no)
{
	switch (no) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
		return SFTP_NO_SUCH_FILE;
	case EACCES:
	case EPERM:
	case EROFS:
	case EFAULT:
		return SFTP_DENIED;
	case ENOSYS:
	case EOPNOTSUPP:
		return SFTP_UNSUPPORTED;
	default:
		return SFTP_FAILURE;
	}
}

static void answer_errno(struct sftp *s, uint32_t id)
{
	int no = errno;
	answer(s, id, status_of(no), strerror(no));
}

static void answer_rc(struct sftp *s, uint32_t id, int rc)
{
	if (rc)
		answer_errno(s, id);
	else
		answer(s, id, SFTP_OK, "Success");
}

static struct sftp_attrs attrs_of(const struct stat *st)
{
	return (struct sftp_attrs){
		.has = SFTP_HAS_SIZE | SFTP_HAS_OWNER | SFTP_HAS_MODE | SFTP_HAS_TIMES,
		.size = (uint64_t)st->st_size,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mode = st->st_mode,
		.atime = (uint32_t)st->st_atime,
		.mtime = (uint32_t)st->st_mtime,
	};
}

static void answer_stat(struct sftp *s, uint32_t id, int rc, const struct stat *st)
{
	if (rc) {
		answer_errno(s, id);
		return;
	}
	struct sftp_attrs a = attrs_of(st);
	size_t at = sftp_begin(&s->out, SFTP_ATTRS, id);
	sftp_attrs(&s->out, &a);
	sftp_end(&s->out, at);
}

static void answer_name(struct sftp *s, uint32_t id, const char *name)
{
	size_t at = sftp_begin(&s->out, SFTP_NAME, id);
	sftp_u32(&s->out, 1);
	sftp_str(&s->out, name, strlen(name));
	sftp_str(&s->out, name, strlen(name));
	sftp_attrs(&s->out, &(struct sftp_attrs){0});
	sftp_end(&s->out, at);
}

// --- handles ---

static struct handle *handle_get(struct sftp *s, const struct sftp_request *q)
{
	if (!q->bad_handle && q->handle < HANDLES && s->handles[q->handle].used)
		return &s->handles[q->handle];
	answer(s, q->id, SFTP_FAILURE, "Invalid handle");
	return NULL;
}

static struct handle *handle_new(struct sftp *s, uint32_t id)
{
	for (uint32_t i = 0; i < HANDLES; i++)
		if (!s->handles[i].used) {
			s->handles[i] = (struct handle){.used = true, .fd = -1};
			return &s->handles[i];
		}
	answer(s, id, SFTP_FAILURE, "Too many open files");
	return NULL;
}

static int handle_close(struct handle *h)
{
	int rc = h->dir ? closedir(h->dir) : close(h->fd);
	*h = (struct handle){.fd = -1};
	return rc;
}

static void answer_handle(struct sftp *s, uint32_t id, struct handle *h)
{
	size_t at = sftp_begin(&s->out, SFTP_HANDLE, id);
	sftp_u32(&s->out, 4);
	sftp_u32(&s->out, (uint32_t)(h - s->handles));
	sftp_end(&s->out, at);
}

// --- files ---

static void do_open(struct sftp *s, const struct sftp_request *q)
{
	bool r = q->flags & SFTP_F_READ, w = q->flags & SFTP_F_WRITE;
	int flags = (r && w ? O_RDWR : w ? O_WRONLY : O_RDONLY) | (q->flags & SFTP_F_CREATE ? O_CREAT : 0) |
		    (q->flags & SFTP_F_TRUNC ? O_TRUNC : 0) | (q->flags & SFTP_F_EXCL ? O_EXCL : 0) | (q->flags & SFTP_F_APPEND ? O_APPEND : 0);
	mode_t mode = q->attrs.has & SFTP_HAS_MODE ? q->attrs.mode & 07777 : 0666;
	struct handle *h = handle_new(s, q->id);
	if (!h)
		return;
	// a pipe that nobody else opens must not hold everything up
	h->fd = open(q->path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
	h->append = flags & O_APPEND;
	if (h->fd < 0) {
		h->used = false;
		answer_errno(s, q->id);
		return;
	}
	answer_handle(s, q->id, h);
}

static void do_close(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	if (h)
		answer_rc(s, q->id, handle_close(h));
}

static void do_read(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	if (!h)
		return;
	size_t want = q->len < SFTP_DATA_MAX ? q->len : SFTP_DATA_MAX, start = s->out.n;
	size_t at = sftp_begin(&s->out, SFTP_DATA, q->id), length_at = s->out.n;
	sftp_u32(&s->out, 0);
	char *room = buf_room(&s->out, want);
	ssize_t n = h->dir || !room ? (errno = EISDIR, -1) : pread(h->fd, room, want, (off_t)q->offset);
	if (n <= 0) {
		s->out.n = start;
		if (n < 0)
			answer_errno(s, q->id);
		else
			answer(s, q->id, SFTP_EOF, "End of file");
		return;
	}
	s->out.n += (size_t)n;
	for (int i = 0; i < 4; i++)
		s->out.p[length_at + (size_t)i] = (char)((uint32_t)n >> (24 - 8 * i));
	sftp_end(&s->out, at);
}

static void do_write(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	uint32_t done = 0;
	if (!h)
		return;
	while (done < q->len) {
		ssize_t n = h->dir	? (errno = EBADF, -1)
			    : h->append ? write(h->fd, q->data + done, q->len - done)
					: pwrite(h->fd, q->data + done, q->len - done, (off_t)(q->offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			answer_errno(s, q->id);
			return;
		}
		done += (uint32_t)n;
	}
	answer(s, q->id, SFTP_OK, "Success");
}

// --- what a file is ---

static void do_stat(struct sftp *s, const struct sftp_request *q)
{
	struct stat st;
	answer_stat(s, q->id, fstatat(AT_FDCWD, q->path, &st, q->type == SFTP_LSTAT ? AT_SYMLINK_NOFOLLOW : 0), &st);
}

static void do_fstat(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	struct stat st;
	if (h)
		answer_stat(s, q->id, fstat(h->dir ? dirfd(h->dir) : h->fd, &st), &st);
}

static void times_of(const struct sftp_attrs *a, struct timespec out[2])
{
	out[0] = (struct timespec){.tv_sec = a->atime};
	out[1] = (struct timespec){.tv_sec = a->mtime};
}

// Size first: it changes the times. Whatever of it can be done is, and the first failure is told.
static int set_path(const struct sftp_request *q)
{
	const struct sftp_attrs *a = &q->attrs;
	int no = 0, nofollow = q->type == SFTP_LSETSTAT ? AT_SYMLINK_NOFOLLOW : 0;
	struct timespec t[2];
	times_of(a, t);
	if (a->has & SFTP_HAS_SIZE && (nofollow ? (errno = EINVAL, -1) : truncate(q->path, (off_t)a->size)))
		no = errno;
	if (a->has & SFTP_HAS_MODE && fchmodat(AT_FDCWD, q->path, a->mode & 07777, nofollow) && !no)
		no = errno;
	if (a->has & SFTP_HAS_TIMES && utimensat(AT_FDCWD, q->path, t, nofollow) && !no)
		no = errno;
	if (a->has & SFTP_HAS_OWNER && fchownat(AT_FDCWD, q->path, a->uid, a->gid, nofollow) && !no)
		no = errno;
	errno = no;
	return no ? -1 : 0;
}

static int set_fd(int fd, const struct sftp_attrs *a)
{
	int no = 0;
	struct timespec t[2];
	times_of(a, t);
	if (a->has & SFTP_HAS_SIZE && ftruncate(fd, (off_t)a->size))
		no = errno;
	if (a->has & SFTP_HAS_MODE && fchmod(fd, a->mode & 07777) && !no)
		no = errno;
	if (a->has & SFTP_HAS_TIMES && futimens(fd, t) && !no)
		no = errno;
	if (a->has & SFTP_HAS_OWNER && fchown(fd, a->uid, a->gid) && !no)
		no = errno;
	errno = no;
	return no ? -1 : 0;
}

static void do_setstat(struct sftp *s, const struct sftp_request *q)
{
	answer_rc(s, q->id, set_path(q));
}

static void do_fsetstat(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	if (h)
		answer_rc(s, q->id, set_fd(h->dir ? dirfd(h->dir) : h->fd, &q->attrs));
}

static void do_fsync(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	if (h)
		answer_rc(s, q->id, fsync(h->dir ? dirfd(h->dir) : h->fd));
}

static void do_statvfs(struct sftp *s, const struct sftp_request *q)
{
	struct statvfs v;
	if (statvfs(q->path, &v)) {
		answer_errno(s, q->id);
		return;
	}
	const uint64_t fields[] = {v.f_bsize,  v.f_frsize,  v.f_blocks, v.f_bfree, v.f_bavail, v.f_files,
				   v.f_ffree, v.f_favail, v.f_fsid,   (v.f_flag & ST_RDONLY ? 1u : 0) | (v.f_flag & ST_NOSUID ? 2u : 0), v.f_namemax};
	size_t at = sftp_begin(&s->out, SFTP_EXTENDED_REPLY, q->id);
	for (size_t i = 0; i < countof(fields); i++)
		sftp_u64(&s->out, fields[i]);
	sftp_end(&s->out, at);
}

// --- directories ---

static void do_opendir(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_new(s, q->id);
	if (!h)
		return;
	h->dir = opendir(q->path);
	if (!h->dir) {
		h->used = false;
		answer_errno(s, q->id);
		return;
	}
	answer_handle(s, q->id, h);
}

// As `ls -l` would say it: clients show it as it is.
static void put_long_name(struct buf *b, const char *name, const struct stat *st)
{
	static const char kinds[] = "?pc?d?b?-?l?s???", bits[] = "rwxrwxrwx";
	char mode[11] = {kinds[st->st_mode >> 12 & 15]}, when[32] = "";
	struct tm tm;
	for (int i = 0; i < 9; i++)
		mode[1 + i] = st->st_mode >> (8 - i) & 1 ? bits[i] : '-';
	if (st->st_mode & S_ISUID)
		mode[3] = st->st_mode & S_IXUSR ? 's' : 'S';
	if (st->st_mode & S_ISGID)
		mode[6] = st->st_mode & S_IXGRP ? 's' : 'S';
	if (st->st_mode & S_ISVTX)
		mode[9] = st->st_mode & S_IXOTH ? 't' : 'T';
	bool recent = time(NULL) - st->st_mtime < 180 * 86400 && st->st_mtime <= time(NULL) + 3600;
	if (gmtime_r(&st->st_mtime, &tm))
		strftime(when, sizeof when, recent ? "%b %e %H:%M" : "%b %e  %Y", &tm);
	auto_buf struct buf line = BUF_INIT(1024);
	buf_fmt(&line, "%s %3lu %-8u %-8u %8llu %s %s", mode, (unsigned long)st->st_nlink, st->st_uid, st->st_gid,
		(unsigned long long)st->st_size, when, name);
	sftp_str(b, line.p, line.n);
}

static void do_readdir(struct sftp *s, const struct sftp_request *q)
{
	struct handle *h = handle_get(s, q);
	struct dirent *ent;
	uint32_t n = 0;
	if (!h)
		return;
	size_t start = s->out.n, at = sftp_begin(&s->out, SFTP_NAME, q->id), count_at = s->out.n;
	sftp_u32(&s->out, 0);
	errno = ENOTDIR;
	while (h->dir && n < ENTRIES && (errno = 0, ent = readdir(h->dir))) {
		struct stat st;
		if (fstatat(dirfd(h->dir), ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue; // gone meanwhile
		struct sftp_attrs a = attrs_of(&st);
		sftp_str(&s->out, ent->d_name, strlen(ent->d_name));
		put_long_name(&s->out, ent->d_name, &st);
		sftp_attrs(&s->out, &a);
		n++;
	}
	if (!n) {
		s->out.n = start;
		if (errno)
			answer_errno(s, q->id);
		else
			answer(s, q->id, SFTP_EOF, "End of file");
		return;
	}
	s->out.p[count_at + 3] = (char)n; // fewer than 256
	sftp_end(&s->out, at);
}

static void do_mkdir(struct sftp *s, const struct sftp_request *q)
{
	answer_rc(s, q->id, mkdir(q->path, q->attrs.has & SFTP_HAS_MODE ? q->attrs.mode & 07777 : 0777));
}

// --- names ---

static void do_remove(struct sftp *s, const struct sftp_request *q)
{
	answer_rc(s, q->id, q->type == SFTP_RMDIR ? rmdir(q->path) : unlink(q->path));
}

// Version 3 takes nobody's place; its extension does.
static void do_rename(struct sftp *s, const struct sftp_request *q)
{
	struct stat st;
	int rc = q->type == SFTP_POSIX_RENAME ? rename(q->path, q->path2)
					      : (int)syscall(SYS_renameat2, AT_FDCWD, q->path, AT_FDCWD, q->path2, 1 /* NOREPLACE */);
	if (rc && errno == EINVAL && q->type != SFTP_POSIX_RENAME) // a file system that can not
		rc = lstat(q->path2, &st) ? rename(q->path, q->path2) : (errno = EEXIST, -1);
	answer_rc(s, q->id, rc);
}

static void do_link(struct sftp *s, const struct sftp_request *q)
{
	answer_rc(s, q->id, q->type == SFTP_SYMLINK ? symlink(q->path, q->path2) : link(q->path, q->path2));
}

static void do_readlink(struct sftp *s, const struct sftp_request *q)
{
	char to[4096];
	ssize_t n = readlink(q->path, to, sizeof to - 1);
	if (n < 0) {
		answer_errno(s, q->id);
		return;
	}
	to[n] = 0;
	answer_name(s, q->id, to);
}

// The last part need not exist: clients ask before they make it.
static char *real_path(const char *path)
{
	auto_free char *real = realpath(path, NULL), *copy = xstrdup(path);
	if (real || errno != ENOENT)
		return take(&real);
	size_t n = strlen(copy);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = 0;
	char *slash = strrchr(copy, '/');
	const char *last = slash ? slash + 1 : copy;
	if (!*last || !strcmp(last, "..")) {
		errno = ENOENT;
		return NULL;
	}
	auto_free char *name = xstrdup(last);
	if (slash)
		slash[slash == copy] = 0;
	auto_free char *parent = realpath(slash ? copy : ".", NULL);
	return parent ? xasprintf("%s/%s", strcmp(parent, "/") ? parent : "", name) : NULL;
}

static char *expand(const char *path)
{
	if (*path != '~')
		return xstrdup(path);
	size_t n = strcspn(path + 1, "/");
	auto_free char *user = xstrndup(path + 1, n);
	struct passwd *pw = n ? getpwnam(user) : getpwuid(getuid());
	return pw ? xasprintf("%s%s", pw->pw_dir, path + 1 + n) : NULL;
}

static void do_realpath(struct sftp *s, const struct sftp_request *q)
{
	errno = ENOENT;
	auto_free char *full = q->type == SFTP_EXPAND ? expand(q->path) : xstrdup(q->path), *real = full ? real_path(full) : NULL;
	if (real)
		answer_name(s, q->id, real);
	else
		answer_errno(s, q->id);
}

static void do_limits(struct sftp *s, const struct sftp_request *q)
{
	size_t at = sftp_begin(&s->out, SFTP_EXTENDED_REPLY, q->id);
	sftp_u64(&s->out, SFTP_PACKET_MAX);
	sftp_u64(&s->out, SFTP_DATA_MAX);
	sftp_u64(&s->out, SFTP_DATA_MAX);
	sftp_u64(&s->out, HANDLES);
	sftp_end(&s->out, at);
}

// --- packets ---

static const struct {
	unsigned type;
	void (*run)(struct sftp *s, const struct sftp_request *q);
} table[] = {
	{SFTP_OPEN, do_open},	      {SFTP_CLOSE, do_close},	      {SFTP_READ, do_read},	    {SFTP_WRITE, do_write},
	{SFTP_LSTAT, do_stat},	      {SFTP_STAT, do_stat},	      {SFTP_FSTAT, do_fstat},	    {SFTP_SETSTAT, do_setstat},
	{SFTP_LSETSTAT, do_setstat},  {SFTP_FSETSTAT, do_fsetstat},   {SFTP_FSYNC, do_fsync},	    {SFTP_OPENDIR, do_opendir},
	{SFTP_READDIR, do_readdir},   {SFTP_MKDIR, do_mkdir},	      {SFTP_REMOVE, do_remove},	    {SFTP_RMDIR, do_remove},
	{SFTP_RENAME, do_rename},     {SFTP_POSIX_RENAME, do_rename}, {SFTP_SYMLINK, do_link},	    {SFTP_HARDLINK, do_link},
	{SFTP_READLINK, do_readlink}, {SFTP_REALPATH, do_realpath},   {SFTP_EXPAND, do_realpath}, {SFTP_STATVFS, do_statvfs},
	{SFTP_LIMITS, do_limits},
};

static int greet(struct sftp *s, const struct sftp_request *q, struct err *e)
{
	if (q->type != SFTP_INIT || q->id < 3)
		return err_set(e, ERR_INVALID, "the client does not speak SFTP version 3");
	size_t at = sftp_begin(&s->out, SFTP_VERSION, 3);
	for (const struct sftp_extension *x = sftp_extensions; x->name; x++) {
		sftp_str(&s->out, x->name, strlen(x->name));
		sftp_str(&s->out, x->version, strlen(x->version));
	}
	sftp_end(&s->out, at);
	s->greeted = true;
	return 0;
}

static int take_packet(struct sftp *s, const uint8_t *p, size_t n, struct err *e)
{
	struct sftp_request q;
	if (sftp_parse(p, n, &q)) {
		answer(s, q.id, SFTP_BAD_MESSAGE, "Malformed packet");
		return s->greeted ? 0 : err_set(e, ERR_INVALID, "not an SFTP client");
	}
	if (!s->greeted)
		return greet(s, &q, e);
	size_t i = 0;
	while (i < countof(table) && table[i].type != q.type)
		i++;
	if (i < countof(table))
		table[i].run(s, &q);
	else
		answer(s, q.id, SFTP_UNSUPPORTED, "Operation not supported");
	sftp_request_done(&q);
	return 0;
}

static int flush(struct sftp *s, struct err *e)
{
	int rc = fs_write_all(STDOUT_FILENO, s->out.p, s->out.n, e);
	buf_clear(&s->out);
	return rc;
}

// Every whole packet of what has been read; the rest stays.
static int take_packets(struct sftp *s, struct err *e)
{
	size_t at = 0;
	int rc = 0;
	while (!rc && s->in.n - at >= 4) {
		const uint8_t *h = (const uint8_t *)s->in.p + at;
		uint32_t n = (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
		if (n > SFTP_PACKET_MAX)
			return err_set(e, ERR_LIMIT, "a packet of more than %u bytes", SFTP_PACKET_MAX);
		if (s->in.n - at - 4 < n)
			break;
		rc = take_packet(s, h + 4, n, e);
		at += 4 + n;
		if (!rc && s->out.n > OUT_HIGH)
			rc = flush(s, e);
	}
	buf_cut(&s->in, at);
	return rc || (s->out.n && flush(s, e)) ? -1 : 0;
}

static int serve(struct sftp *s, struct err *e)
{
	for (;;) {
		char *room = buf_room(&s->in, SFTP_PACKET_MAX);
		ssize_t n = read(STDIN_FILENO, room, SFTP_PACKET_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (!n)
			return 0;
		s->in.n += (size_t)n;
		if (take_packets(s, e))
			return -1;
	}
}

static const char *home_of_user(void)
{
	struct passwd *pw = getpwuid(getuid());
	return pw && *pw->pw_dir == '/' && !access(pw->pw_dir, X_OK) ? pw->pw_dir : "/";
}

int sftp_run(const char *dir, struct err *e)
{
	struct sftp *s = xcalloc(1, sizeof *s);
	s->in = BUF_INIT(3 * SFTP_PACKET_MAX);
	s->out = BUF_INIT(4 * SFTP_PACKET_MAX);
	dir = dir ? dir : home_of_user();
	int rc = chdir(dir) ? err_sys(e, "%s", dir) : serve(s, e);
	for (uint32_t i = 0; i < HANDLES; i++)
		if (s->handles[i].used)
			handle_close(&s->handles[i]);
	buf_done(&s->in);
	buf_done(&s->out);
	free(s);
	return rc;
}

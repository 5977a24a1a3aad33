// SPDX-License-Identifier: Apache-2.0
#include "init/sftp_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/users.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define OUT_HIGH SFTP_PACKET_MAX // answers are gathered up to here

// --- answers ---

void sftp_answer(struct sftp *s, uint32_t id, enum sftp_status code, const char *text)
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

void sftp_answer_errno(struct sftp *s, uint32_t id)
{
	int no = errno;
	sftp_answer(s, id, status_of(no), strerror(no));
}

void sftp_answer_rc(struct sftp *s, uint32_t id, int rc)
{
	if (rc)
		sftp_answer_errno(s, id);
	else
		sftp_answer(s, id, SFTP_OK, "Success");
}

struct sftp_attrs sftp_attrs_of(const struct stat *st)
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
		sftp_answer_errno(s, id);
		return;
	}
	struct sftp_attrs a = sftp_attrs_of(st);
	size_t at = sftp_begin(&s->out, SFTP_ATTRS, id);
	sftp_attrs(&s->out, &a);
	sftp_end(&s->out, at);
}

void sftp_answer_name(struct sftp *s, uint32_t id, const char *name)
{
	size_t at = sftp_begin(&s->out, SFTP_NAME, id);
	sftp_u32(&s->out, 1);
	sftp_str(&s->out, name, strlen(name));
	sftp_str(&s->out, name, strlen(name));
	sftp_attrs(&s->out, &(struct sftp_attrs){0});
	sftp_end(&s->out, at);
}

// --- handles ---

struct sftp_handle *sftp_handle_get(struct sftp *s, const struct sftp_request *q)
{
	if (!q->bad_handle && q->handle < SFTP_HANDLES && s->handles[q->handle].used)
		return &s->handles[q->handle];
	sftp_answer(s, q->id, SFTP_FAILURE, "Invalid handle");
	return NULL;
}

struct sftp_handle *sftp_handle_new(struct sftp *s, uint32_t id)
{
	for (uint32_t i = 0; i < SFTP_HANDLES; i++)
		if (!s->handles[i].used) {
			s->handles[i] = (struct sftp_handle){.used = true, .fd = -1};
			return &s->handles[i];
		}
	sftp_answer(s, id, SFTP_FAILURE, "Too many open files");
	return NULL;
}

static int handle_close(struct sftp_handle *h)
{
	int rc = h->dir ? closedir(h->dir) : close(h->fd);
	*h = (struct sftp_handle){.fd = -1};
	return rc;
}

void sftp_answer_handle(struct sftp *s, uint32_t id, struct sftp_handle *h)
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
	struct sftp_handle *h = sftp_handle_new(s, q->id);
	if (!h)
		return;
	// a pipe that nobody else opens must not hold everything up
	h->fd = open(q->path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
	h->append = flags & O_APPEND;
	if (h->fd < 0) {
		h->used = false;
		sftp_answer_errno(s, q->id);
		return;
	}
	sftp_answer_handle(s, q->id, h);
}

static void do_close(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
	if (h)
		sftp_answer_rc(s, q->id, handle_close(h));
}

static void do_read(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
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
			sftp_answer_errno(s, q->id);
		else
			sftp_answer(s, q->id, SFTP_EOF, "End of file");
		return;
	}
	s->out.n += (size_t)n;
	for (int i = 0; i < 4; i++)
		s->out.p[length_at + (size_t)i] = (char)((uint32_t)n >> (24 - 8 * i));
	sftp_end(&s->out, at);
}

static void do_write(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
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
			sftp_answer_errno(s, q->id);
			return;
		}
		done += (uint32_t)n;
	}
	sftp_answer(s, q->id, SFTP_OK, "Success");
}

// --- what a file is ---

static void do_stat(struct sftp *s, const struct sftp_request *q)
{
	struct stat st;
	answer_stat(s, q->id, fstatat(AT_FDCWD, q->path, &st, q->type == SFTP_LSTAT ? AT_SYMLINK_NOFOLLOW : 0), &st);
}

static void do_fstat(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
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
	sftp_answer_rc(s, q->id, set_path(q));
}

static void do_fsetstat(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
	if (h)
		sftp_answer_rc(s, q->id, set_fd(h->dir ? dirfd(h->dir) : h->fd, &q->attrs));
}

static void do_fsync(struct sftp *s, const struct sftp_request *q)
{
	struct sftp_handle *h = sftp_handle_get(s, q);
	if (h)
		sftp_answer_rc(s, q->id, fsync(h->dir ? dirfd(h->dir) : h->fd));
}

static void do_statvfs(struct sftp *s, const struct sftp_request *q)
{
	struct statvfs v;
	if (statvfs(q->path, &v)) {
		sftp_answer_errno(s, q->id);
		return;
	}
	const uint64_t fields[] = {v.f_bsize,  v.f_frsize,  v.f_blocks, v.f_bfree, v.f_bavail, v.f_files,
				   v.f_ffree, v.f_favail, v.f_fsid,   (v.f_flag & ST_RDONLY ? 1u : 0) | (v.f_flag & ST_NOSUID ? 2u : 0), v.f_namemax};
	size_t at = sftp_begin(&s->out, SFTP_EXTENDED_REPLY, q->id);
	for (size_t i = 0; i < countof(fields); i++)
		sftp_u64(&s->out, fields[i]);
	sftp_end(&s->out, at);
}

// --- packets ---

static void do_limits(struct sftp *s, const struct sftp_request *q)
{
	size_t at = sftp_begin(&s->out, SFTP_EXTENDED_REPLY, q->id);
	sftp_u64(&s->out, SFTP_PACKET_MAX);
	sftp_u64(&s->out, SFTP_DATA_MAX);
	sftp_u64(&s->out, SFTP_DATA_MAX);
	sftp_u64(&s->out, SFTP_HANDLES);
	sftp_end(&s->out, at);
}

static const struct {
	unsigned type;
	void (*run)(struct sftp *s, const struct sftp_request *q);
} table[] = {
	{SFTP_OPEN, do_open},
	{SFTP_CLOSE, do_close},
	{SFTP_READ, do_read},
	{SFTP_WRITE, do_write},
	{SFTP_LSTAT, do_stat},
	{SFTP_STAT, do_stat},
	{SFTP_FSTAT, do_fstat},
	{SFTP_SETSTAT, do_setstat},
	{SFTP_LSETSTAT, do_setstat},
	{SFTP_FSETSTAT, do_fsetstat},
	{SFTP_FSYNC, do_fsync},
	{SFTP_OPENDIR, sftp_opendir},
	{SFTP_READDIR, sftp_readdir},
	{SFTP_MKDIR, sftp_mkdir},
	{SFTP_REMOVE, sftp_remove},
	{SFTP_RMDIR, sftp_remove},
	{SFTP_RENAME, sftp_rename},
	{SFTP_POSIX_RENAME, sftp_rename},
	{SFTP_SYMLINK, sftp_link},
	{SFTP_HARDLINK, sftp_link},
	{SFTP_READLINK, sftp_readlink},
	{SFTP_REALPATH, sftp_realpath},
	{SFTP_EXPAND, sftp_realpath},
	{SFTP_STATVFS, do_statvfs},
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
		sftp_answer(s, q.id, SFTP_BAD_MESSAGE, "Malformed packet");
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
		sftp_answer(s, q.id, SFTP_UNSUPPORTED, "Operation not supported");
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
	struct user u;
	return users_find_uid(getuid(), &u) && *u.home == '/' && !access(u.home, X_OK) ? u.home : "/"; // once, for the whole life
}

int sftp_run(const char *dir, struct err *e)
{
	struct sftp *s = xcalloc(1, sizeof *s);
	s->in = BUF_INIT(3 * SFTP_PACKET_MAX);
	s->out = BUF_INIT(4 * SFTP_PACKET_MAX);
	dir = dir ? dir : home_of_user();
	int rc = chdir(dir) ? err_sys(e, "%s", dir) : serve(s, e);
	for (uint32_t i = 0; i < SFTP_HANDLES; i++)
		if (s->handles[i].used)
			handle_close(&s->handles[i]);
	buf_done(&s->in);
	buf_done(&s->out);
	free(s);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
// Stream: 8 bytes of magic, then entries, then one byte 'e'.
//   entry: u8 type, u32 mode, u64 mtime in ns, u32 length + path, and then
//          'f' u64 size + bytes   'd' nothing   'l' u32 length + target
// The first entry is the root, its path a single name; a directory comes before what is in it, and all of
// that before anything else. So the reader keeps one open descriptor per level and makes every name
// relative to the directory it opened itself: there is no path to resolve and no link to follow.
#include "base/pack.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/walk.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SKEPPAK1"
#define PACK_DEPTH WALK_DEPTH // one descriptor per level
#define PACK_PATH WALK_PATH
#define PACK_CHUNK (128u << 10)
#define HOLE_MIN 4096u // bytes
#define ENTRY_HEAD 17u // type, mode, mtime, length of the path

static void put_entry(struct buf *out, const struct walk_entry *en)
{
	wire_u8(out, (uint8_t)en->type);
	wire_u32(out, en->mode);
	wire_u64(out, (uint64_t)en->mtime.tv_sec * 1000000000u + (uint64_t)en->mtime.tv_nsec);
	wire_bytes(out, en->path, en->n_path);
	if (en->type == 'f')
		wire_u64(out, en->size);
	else if (en->type == 'l')
		wire_bytes(out, en->target, en->n_target);
}

int pack_write(int out_fd, int dirfd, const char *name, const char *as, struct err *e)
{
	static const struct walk_form form = {.begin = MAGIC, .n_begin = sizeof MAGIC - 1, .entry = put_entry, .end = "e", .n_end = 1};
	return walk_write(out_fd, dirfd, name, as, &form, e);
}

// A directory being filled. Its mode and time are put on when it is left: it may be read-only, and
// every entry made in it moves its time.
struct level {
	int fd;
	size_t path_len; // how much of reader.path names it
	uint32_t mode;
	uint64_t mtime;
};

struct reader {
	int fd, top; // top: the level that is filled now; 0 = the target itself, borrowed
	char *chunk;
	size_t at, n;	 // what of chunk is not used yet
	struct buf path; // of the newest directory, as in the stream
	struct level levels[PACK_DEPTH + 1];
	struct err *e;
};

struct entry {
	uint8_t type;
	uint32_t mode;
	uint64_t mtime;
	char path[PACK_PATH + 1];
	size_t path_len;
	const char *name; // last component
};

static int cut_short(struct reader *r)
{
	return err_set(r->e, ERR_INVALID, "the stream of files ends early");
}

static int refill(struct reader *r)
{
	ssize_t n;
	do
		n = read(r->fd, r->chunk, PACK_CHUNK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(r->e, "read the stream of files");
	r->at = 0;
	r->n = (size_t)n;
	return n ? 0 : cut_short(r);
}

static int take_bytes(struct reader *r, void *out, size_t want)
{
	for (char *p = out; want;) {
		if (r->at == r->n && refill(r))
			return -1;
		size_t n = r->n - r->at < want ? r->n - r->at : want;
		memcpy(p, r->chunk + r->at, n);
		r->at += n;
		p += n;
		want -= n;
	}
	return 0;
}

// A path or target: 1 to PACK_PATH bytes without NUL. out has room for PACK_PATH + 1.
static int take_text(struct reader *r, uint32_t n, char *out)
{
	if (!n || n > PACK_PATH)
		return err_set(r->e, ERR_INVALID, "a path in the stream has %u bytes", n);
	if (take_bytes(r, out, n))
		return -1;
	out[n] = 0;
	return memchr(out, 0, n) ? err_set(r->e, ERR_INVALID, "a path in the stream holds a zero byte") : 0;
}

// Times before 1970 travel as negative numbers.
static struct timespec stamp(uint64_t mtime)
{
	int64_t ns = (int64_t)mtime, sec = ns / 1000000000, rest = ns % 1000000000;
	return (struct timespec){.tv_sec = rest < 0 ? sec - 1 : sec, .tv_nsec = rest < 0 ? rest + 1000000000 : rest};
}

static int leave(struct reader *r)
{
	struct level *l = &r->levels[r->top--];
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, stamp(l->mtime)};
	int rc = fchmod(l->fd, l->mode) || futimens(l->fd, times) ? err_sys(r->e, "finish %s", buf_cstr(&r->path)) : 0;
	close_fd(&l->fd);
	return rc;
}

// Leaves directories until the entry's parent is the one being filled. Nothing but a name that is one
// plain component, in a directory this stream made, passes.
static int place(struct reader *r, struct entry *en)
{
	char *slash = memrchr(en->path, '/', en->path_len);
	size_t parent = slash ? (size_t)(slash - en->path) : 0;
	en->name = slash ? slash + 1 : en->path;
	while (r->top && (r->levels[r->top].path_len != parent || memcmp(r->path.p, en->path, parent))) {
		if (leave(r))
			return -1;
		r->path.n = r->levels[r->top].path_len;
	}
	if (!*en->name || !strcmp(en->name, ".") || !strcmp(en->name, "..") || (!r->top && slash))
		return err_set(r->e, ERR_INVALID, "refused the path %s", en->path);
	return 0;
}

static int take_dir(struct reader *r, const struct entry *en, int dirfd)
{
	if (r->top >= PACK_DEPTH)
		return err_set(r->e, ERR_LIMIT, "directories are nested deeper than %d", PACK_DEPTH);
	if (mkdirat(dirfd, en->name, 0700) && errno != EEXIST)
		return err_sys(r->e, "make directory %s", en->path);
	int fd = fs_open_beneath(dirfd, en->name, O_RDONLY | O_DIRECTORY, 0, r->e);
	if (fd < 0)
		return -1;
	r->levels[++r->top] = (struct level){fd, en->path_len, en->mode, en->mtime};
	buf_clear(&r->path);
	buf_add(&r->path, en->path, en->path_len);
	return 0;
}

static bool is_zero(const char *p, size_t n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

// Zeros become a hole: a file that has none of its size on the sender's disk has none here either.
static int put_piece(struct reader *r, int fd, const char *p, size_t n)
{
	if (n < HOLE_MIN || !is_zero(p, n))
		return fs_write_all(fd, p, n, r->e);
	return lseek(fd, (off_t)n, SEEK_CUR) < 0 ? err_sys(r->e, "seek") : 0;
}

static int copy_out(struct reader *r, int fd, uint64_t size)
{
	for (uint64_t left = size; left;) {
		if (r->at == r->n && refill(r))
			return -1;
		size_t n = r->n - r->at < left ? r->n - r->at : (size_t)left;
		if (put_piece(r, fd, r->chunk + r->at, n))
			return -1;
		r->at += n;
		left -= n;
	}
	return ftruncate(fd, (off_t)size) ? err_sys(r->e, "set its size") : 0;
}

static int take_file(struct reader *r, const struct entry *en, int dirfd)
{
	uint8_t raw[8];
	if (take_bytes(r, raw, sizeof raw))
		return -1;
	uint64_t size = wire_get_u64(&(struct wire){.p = raw, .n = sizeof raw});
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, stamp(en->mtime)};
	if (unlinkat(dirfd, en->name, 0) && errno != ENOENT)
		return err_sys(r->e, "replace %s", en->path);
	auto_fd int fd = fs_open_beneath(dirfd, en->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, r->e);
	if (fd < 0)
		return -1;
	if (copy_out(r, fd, size))
		return err_wrap(r->e, "%s", en->path);
	return fchmod(fd, en->mode) || futimens(fd, times) ? err_sys(r->e, "finish %s", en->path) : 0;
}

static int take_link(struct reader *r, const struct entry *en, int dirfd)
{
	uint8_t raw[4];
	char target[PACK_PATH + 1];
	if (take_bytes(r, raw, sizeof raw) ||
	    take_text(r, wire_get_u32(&(struct wire){.p = raw, .n = sizeof raw}), target))
		return -1;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, stamp(en->mtime)};
	if (unlinkat(dirfd, en->name, 0) && errno != ENOENT)
		return err_sys(r->e, "replace %s", en->path);
	if (symlinkat(target, dirfd, en->name) || utimensat(dirfd, en->name, times, AT_SYMLINK_NOFOLLOW))
		return err_sys(r->e, "make link %s", en->path);
	return 0;
}

// The head of the next entry without its type.
static int take_head(struct reader *r, struct entry *en)
{
	uint8_t raw[ENTRY_HEAD - 1];
	if (take_bytes(r, raw, sizeof raw))
		return -1;
	struct wire w = {.p = raw, .n = sizeof raw};
	en->mode = wire_get_u32(&w) & 0777;
	en->mtime = wire_get_u64(&w);
	en->path_len = wire_get_u32(&w);
	return take_text(r, (uint32_t)en->path_len, en->path) || place(r, en) ? -1 : 0;
}

static int take_entries(struct reader *r)
{
	for (bool first = true;; first = false) {
		struct entry en;
		if (take_bytes(r, &en.type, 1))
			return -1;
		if (en.type == 'e' && !first)
			return 0;
		if (en.type != 'f' && en.type != 'd' && en.type != 'l')
			return err_set(r->e, ERR_INVALID, "not a stream of files");
		if (take_head(r, &en))
			return -1;
		if (!first && !r->top)
			return err_set(r->e, ERR_INVALID, "refused a second root %s", en.path);
		int dirfd = r->levels[r->top].fd;
		int rc = en.type == 'f'	  ? take_file(r, &en, dirfd)
			 : en.type == 'd' ? take_dir(r, &en, dirfd)
					  : take_link(r, &en, dirfd);
		if (rc)
			return -1;
	}
}

int pack_read(int in_fd, int dirfd, struct err *e)
{
	struct reader *r = xcalloc(1, sizeof *r);
	char magic[8];
	*r = (struct reader){.fd = in_fd, .path = BUF_INIT(PACK_PATH), .e = e, .chunk = xcalloc(1, PACK_CHUNK)};
	r->levels[0].fd = dirfd;
	int rc = take_bytes(r, magic, sizeof magic);
	if (!rc && memcmp(magic, MAGIC, sizeof magic))
		rc = err_set(e, ERR_INVALID, "not a stream of files");
	if (!rc)
		rc = take_entries(r);
	while (!rc && r->top)
		rc = leave(r);
	for (; r->top; r->top--)
		close(r->levels[r->top].fd);
	buf_done(&r->path);
	free(r->chunk);
	free(r);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/delta.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SKEPDLT1"
#define KINDS "fldoxhsgurc=~n"
#define ASK_MAGIC "SKEPASK1"
#define HOLE 0xffffffffu // instead of a length
#define MARKED 2u	 // flag of an entry
#define HOLE_LEAST (64u << 10) // shorter ones are sent as bytes

bool delta_path_ok(const char *path)
{
	size_t n = strlen(path);
	if (!n || n > DELTA_PATH)
		return false;
	for (const char *p = path;;) {
		size_t part = strcspn(p, "/");
		if (!part || (part == 1 && p[0] == '.') || (part == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[part])
			return true;
		p += part + 1;
	}
}

void delta_out_init(struct delta_out *o, int fd)
{
	*o = (struct delta_out){.fd = fd, .b = BUF_INIT(4 * DELTA_CHUNK)};
	buf_str(&o->b, MAGIC);
}

void delta_out_done(struct delta_out *o)
{
	buf_done(&o->b);
}

static int flush(struct delta_out *o, size_t keep_below, struct err *e)
{
	if (o->b.n <= keep_below)
		return 0;
	int rc = fs_write_all(o->fd, o->b.p, o->b.n, e);
	buf_clear(&o->b);
	return rc;
}

static void put_mark(struct buf *b, const struct delta_mark *m)
{
	wire_u64(b, m->dev);
	wire_u64(b, m->ino);
	wire_u64(b, m->size);
	wire_u64(b, m->mtime_ns);
	wire_u64(b, m->ctime_ns);
}

static struct delta_mark get_mark(struct wire *w)
{
	struct delta_mark m = {.dev = wire_get_u64(w)};
	m.ino = wire_get_u64(w);
	m.size = wire_get_u64(w);
	m.mtime_ns = wire_get_u64(w);
	m.ctime_ns = wire_get_u64(w);
	return m;
}

static int head_flags(struct delta_out *o, char kind, unsigned flags, const char *path, struct err *e)
{
	if (!delta_path_ok(path))
		return err_set(e, ERR_INVALID, "a change has the path \"%.200s\"", path);
	wire_u8(&o->b, (uint8_t)kind);
	wire_u8(&o->b, (uint8_t)flags);
	wire_bytes(&o->b, path, strlen(path));
	return 0;
}

static int head(struct delta_out *o, char kind, bool exec, const char *path, struct err *e)
{
	return head_flags(o, kind, exec, path, e);
}

int delta_put(struct delta_out *o, char kind, bool exec, const char *path, struct err *e)
{
	return head(o, kind, exec, path, e) ? -1 : flush(o, DELTA_CHUNK, e);
}

int delta_put_link(struct delta_out *o, const char *path, const char *target, struct err *e)
{
	if (head(o, 'l', false, path, e))
		return -1;
	wire_bytes(&o->b, target, strlen(target));
	return flush(o, DELTA_CHUNK, e);
}

int delta_put_same(struct delta_out *o, const char *path, bool exec, const char *as, struct err *e)
{
	if (head(o, '=', exec, path, e))
		return -1;
	wire_bytes(&o->b, as, strlen(as));
	return flush(o, DELTA_CHUNK, e);
}

int delta_put_known(struct delta_out *o, const char *path, bool exec, uint64_t place, struct err *e)
{
	return delta_put_size(o, '~', path, exec, place, e);
}

int delta_put_size(struct delta_out *o, char kind, const char *path, bool exec, uint64_t size, struct err *e)
{
	if (head(o, kind, exec, path, e))
		return -1;
	wire_u64(&o->b, size);
	return flush(o, DELTA_CHUNK, e);
}

int delta_put_expect(struct delta_out *o, const char *path, char kind, bool exec, const uint8_t sha[32], struct err *e)
{
	static const uint8_t none[32];
	if (head(o, 'c', exec, path, e))
		return -1;
	wire_u8(&o->b, (uint8_t)kind);
	buf_add(&o->b, sha ? sha : none, 32);
	return flush(o, DELTA_CHUNK, e);
}

int delta_put_bytes(struct delta_out *o, const char *path, bool exec, const void *bytes, size_t n, struct err *e)
{
	const char *p = bytes;
	if (head(o, 'f', exec, path, e))
		return -1;
	while (n) {
		size_t part = n < DELTA_CHUNK ? n : DELTA_CHUNK;
		wire_bytes(&o->b, p, part);
		if (flush(o, DELTA_CHUNK, e))
			return -1;
		p += part;
		n -= part;
	}
	wire_u32(&o->b, 0);
	wire_u8(&o->b, 0);
	return flush(o, DELTA_CHUNK, e);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// The bytes from offset at to the next hole: 0, a number, or with what is left of a hole in *out_hole.
static uint64_t data_left(int fd, uint64_t at, uint64_t *out_hole)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;
	*out_hole = 0;
	if (data < 0) { // ENXIO: nothing but a hole to the end
		off_t end = errno == ENXIO ? lseek(fd, 0, SEEK_END) : -1;
		*out_hole = end > (off_t)at ? (uint64_t)end - at : 0;
		return 0;
	}
	if ((uint64_t)data >= at + HOLE_LEAST) {
		*out_hole = (uint64_t)data - at;
		return 0;
	}
	hole = lseek(fd, data, SEEK_HOLE);
	return hole > (off_t)at ? (uint64_t)hole - at : 0;
}

struct sending {
	struct delta_out *o;
	int fd;
	bool holes;
	uint64_t sum, size, left; // left: bytes that are known to be no hole
};

static void send_hole(struct sending *s, uint64_t n)
{
	wire_u32(&s->o->b, HOLE);
	wire_u64(&s->o->b, n);
	s->sum += n;
}

// One piece. 1 at the end.
static int send_piece(struct sending *s, const char *path, struct err *e)
{
	uint64_t hole = 0;
	if (s->holes && !s->left)
		s->left = data_left(s->fd, s->sum, &hole);
	if (hole) {
		send_hole(s, hole);
		return 0;
	}
	size_t want = s->holes && s->left && s->left < DELTA_CHUNK ? (size_t)s->left : DELTA_CHUNK;
	char *p = buf_room(&s->o->b, DELTA_CHUNK + 5);
	ssize_t n = pread(s->fd, p + 4, want, (off_t)s->sum);
	if (n < 0)
		return errno == EINTR ? 0 : err_sys(e, "read %s", path);
	for (int i = 0; i < 4; i++) // by hand: a buffer's own append ends what it adds with a zero byte
		p[i] = (char)((uint32_t)n >> 8 * i);
	s->o->b.n += 4 + (size_t)n;
	s->sum += (uint64_t)n;
	s->left = s->left > (uint64_t)n ? s->left - (uint64_t)n : 0;
	return !n;
}

// What grows while it is read must end somewhere.
static int send_body(struct sending *s, const char *path, struct err *e)
{
	int over = 0;
	while (!over && s->sum <= s->size) {
		over = send_piece(s, path, e);
		if (over < 0 || flush(s->o, DELTA_CHUNK, e))
			return -1;
	}
	if (!over)
		wire_u32(&s->o->b, 0);
	return 0;
}

static int put_file(struct delta_out *o, const char *path, int fd, const struct delta_mark *m, struct err *e)
{
	struct stat before, after;
	if (fstat(fd, &before))
		return err_sys(e, "stat %s", path);
	if (head_flags(o, 'f', (before.st_mode & 0111 ? 1 : 0) | (m ? MARKED : 0), path, e))
		return -1;
	if (m)
		put_mark(&o->b, m);
	struct sending s = {.o = o, .fd = fd, .holes = m, .size = (uint64_t)before.st_size};
	if (send_body(&s, path, e))
		return -1;
	bool torn = fstat(fd, &after) || s.sum != s.size || !same_time(before.st_mtim, after.st_mtim);
	wire_u8(&o->b, torn);
	return flush(o, DELTA_CHUNK, e);
}

int delta_put_fd(struct delta_out *o, const char *path, int fd, struct err *e)
{
	return put_file(o, path, fd, NULL, e);
}

int delta_put_marked(struct delta_out *o, const char *path, int fd, const struct delta_mark *m, struct err *e)
{
	return put_file(o, path, fd, m, e);
}

int delta_end(struct delta_out *o, struct err *e)
{
	wire_u8(&o->b, 'e');
	return flush(o, 0, e);
}

void delta_in_fd(struct delta_in *d, int fd)
{
	char *own = xcalloc(1, DELTA_CHUNK);
	*d = (struct delta_in){.fd = fd, .own = own, .chunk = own};
}

void delta_in_mem(struct delta_in *d, const void *p, size_t n)
{
	*d = (struct delta_in){.fd = -1, .chunk = p, .n = n};
}

void delta_in_done(struct delta_in *d)
{
	free(d->own);
	*d = (struct delta_in){.fd = -1};
}

static int refill(struct delta_in *d, struct err *e)
{
	ssize_t n = 0;
	do
		n = d->fd < 0 ? 0 : read(d->fd, d->own, DELTA_CHUNK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read the stream of changes");
	d->at = 0;
	d->n = (size_t)n;
	return n ? 0 : err_set(e, ERR_INVALID, "the stream of changes ends early");
}

static int take_bytes(struct delta_in *d, void *out, size_t want, struct err *e)
{
	for (char *p = out; want;) {
		if (d->at == d->n && refill(d, e))
			return -1;
		size_t n = d->n - d->at < want ? d->n - d->at : want;
		memcpy(p, d->chunk + d->at, n);
		d->at += n;
		p += n;
		want -= n;
	}
	return 0;
}

static int take_u32(struct delta_in *d, uint32_t *out, struct err *e)
{
	uint8_t raw[4];
	if (take_bytes(d, raw, sizeof raw, e))
		return -1;
	*out = wire_get_u32(&(struct wire){.p = raw, .n = sizeof raw});
	return 0;
}

static int take_text(struct delta_in *d, char out[DELTA_PATH + 1], struct err *e)
{
	uint32_t n;
	if (take_u32(d, &n, e))
		return -1;
	if (!n || n > DELTA_PATH)
		return err_set(e, ERR_INVALID, "a path in the stream of changes has %u bytes", n);
	if (take_bytes(d, out, n, e))
		return -1;
	out[n] = 0;
	return memchr(out, 0, n) ? err_set(e, ERR_INVALID, "a path in the stream of changes holds a zero byte") : 0;
}

int delta_start(struct delta_in *d, struct err *e)
{
	char magic[8];
	if (take_bytes(d, magic, sizeof magic, e))
		return -1;
	return memcmp(magic, MAGIC, sizeof magic) ? err_set(e, ERR_INVALID, "not a stream of changes") : 0;
}

static int take_mark(struct delta_in *d, struct delta_mark *out, struct err *e)
{
	uint8_t raw[5 * 8];
	if (take_bytes(d, raw, sizeof raw, e))
		return -1;
	struct wire w = {.p = raw, .n = sizeof raw};
	*out = get_mark(&w);
	return 0;
}

static int take_tail(struct delta_in *d, struct delta_entry *en, struct err *e)
{
	uint8_t raw[8];
	switch (en->kind) {
	case 'l':
	case '=':
		return take_text(d, en->link, e);
	case 'h':
	case 'n':
	case '~':
		if (take_bytes(d, raw, sizeof raw, e))
			return -1;
		en->size = wire_get_u64(&(struct wire){.p = raw, .n = sizeof raw});
		return 0;
	case 'c':
		if (take_bytes(d, raw, 1, e) || take_bytes(d, en->sha, sizeof en->sha, e))
			return -1;
		en->expect = (char)raw[0];
		return raw[0] && strchr("flx", raw[0]) ? 0
						       : err_set(e, ERR_INVALID, "%s is expected as what?", en->path);
	}
	d->in_body = en->kind == 'f';
	return 0;
}

int delta_next(struct delta_in *d, struct delta_entry *out, struct err *e)
{
	uint8_t kind, flags;
	if (d->in_body)
		return err_set(e, ERR_BUG, "the body of a changed file was not read");
	if (take_bytes(d, &kind, 1, e))
		return -1;
	if (kind == 'e')
		return 0;
	if (!kind || !strchr(KINDS, kind))
		return err_set(e, ERR_INVALID, "not a stream of changes: an entry of kind %u", kind);
	if (take_bytes(d, &flags, 1, e) || take_text(d, out->path, e))
		return -1;
	if (!delta_path_ok(out->path))
		return err_set(e, ERR_INVALID, "refused the path \"%.200s\"", out->path);
	out->kind = (char)kind;
	out->exec = flags & 1;
	out->mark = (struct delta_mark){0};
	return (flags & MARKED && take_mark(d, &out->mark, e)) || take_tail(d, out, e) ? -1 : 1;
}

// Makes `want` bytes stand together in the chunk.
static int gather(struct delta_in *d, size_t want, struct err *e)
{
	if (d->n - d->at >= want)
		return 0;
	if (d->own) {
		memmove(d->own, d->own + d->at, d->n - d->at);
		d->n -= d->at;
		d->at = 0;
	}
	while (d->n - d->at < want) {
		ssize_t n = d->fd < 0 ? 0 : read(d->fd, d->own + d->n, want - d->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read the stream of changes");
		if (!n)
			return err_set(e, ERR_INVALID, "the stream of changes ends early");
		d->n += (size_t)n;
	}
	return 0;
}

// A hole is a promise of the sender alone; the reader bounds how much it takes.
static int take_hole(struct delta_in *d, const char **out, size_t *out_n, struct err *e)
{
	uint8_t raw[8];
	if (take_bytes(d, raw, sizeof raw, e))
		return -1;
	*out = NULL;
	*out_n = wire_get_u64(&(struct wire){.p = raw, .n = sizeof raw});
	return *out_n && *out_n <= INT64_MAX ? 0 : err_set(e, ERR_INVALID, "a hole in the stream of changes has no length");
}

int delta_body(struct delta_in *d, const char **out, size_t *out_n, bool *out_torn, struct err *e)
{
	uint32_t n;
	uint8_t torn;
	if (take_u32(d, &n, e))
		return -1;
	if (n == HOLE && d->holes)
		return take_hole(d, out, out_n, e);
	if (n > DELTA_CHUNK)
		return err_set(e, ERR_INVALID, "a piece in the stream of changes has %u bytes", n);
	if (n && gather(d, n, e))
		return -1;
	*out = d->chunk + d->at;
	*out_n = n;
	d->at += n;
	if (n)
		return 0;
	if (take_bytes(d, &torn, 1, e))
		return -1;
	d->in_body = false;
	*out_torn = torn;
	return 0;
}

// --- what is asked for ---

void delta_ask_print(const struct delta_ask *a, struct buf *out)
{
	buf_str(out, ASK_MAGIC);
	wire_u64(out, a->file_max);
	wire_u64(out, a->total_max);
	wire_strv(out, a->paths);
	wire_u32(out, (uint32_t)a->n_known);
	for (size_t i = 0; i < a->n_known; i++)
		put_mark(out, &a->known[i]);
}

int delta_ask_read(const void *p, size_t n, struct delta_ask *out, struct err *e)
{
	*out = (struct delta_ask){.file_max = UINT64_MAX, .total_max = UINT64_MAX};
	if (!n)
		return 0;
	if (n < 8 || memcmp(p, ASK_MAGIC, 8))
		return err_set(e, ERR_INVALID, "not a list of wanted changes");
	struct wire w = {.p = (const uint8_t *)p + 8, .n = n - 8};
	out->file_max = wire_get_u64(&w);
	out->total_max = wire_get_u64(&w);
	out->paths = wire_get_strv(&w);
	if (out->paths && !*out->paths) {
		strv_free(out->paths);
		out->paths = NULL;
	}
	uint32_t known = wire_get_u32(&w);
	if (!w.bad && known <= w.n / (5 * 8))
		out->known = xcalloc(known + 1, sizeof *out->known);
	for (out->n_known = 0; out->known && out->n_known < known;)
		out->known[out->n_known++] = get_mark(&w);
	if (!w.bad && !w.n && out->n_known == known)
		return 0;
	delta_ask_done(out);
	return err_set(e, ERR_INVALID, "the list of wanted changes is cut");
}

void delta_ask_done(struct delta_ask *a)
{
	strv_free(a->paths);
	free(a->known);
	*a = (struct delta_ask){0};
}

bool delta_path_meets(char *const *paths, const char *path)
{
	size_t len = strlen(path);
	for (char *const *p = paths; p && *p; p++) {
		size_t n = strlen(*p);
		while (n && (*p)[n - 1] == '/')
			n--;
		size_t common = n < len ? n : len;
		bool same = !strncmp(*p, path, common);
		if (!n || (n == 1 && (*p)[0] == '.') || (same && n == len))
			return true;
		if (same && (n < len ? path[n] == '/' : (*p)[len] == '/'))
			return true;
	}
	return !paths;
}

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
#define KINDS "fldoxhsgurc"

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

static int head(struct delta_out *o, char kind, bool exec, const char *path, struct err *e)
{
	if (!delta_path_ok(path))
		return err_set(e, ERR_INVALID, "a change has the path \"%.200s\"", path);
	wire_u8(&o->b, (uint8_t)kind);
	wire_u8(&o->b, exec);
	wire_bytes(&o->b, path, strlen(path));
	return 0;
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

int delta_put_huge(struct delta_out *o, const char *path, bool exec, uint64_t size, struct err *e)
{
	if (head(o, 'h', exec, path, e))
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

int delta_put_fd(struct delta_out *o, const char *path, int fd, struct err *e)
{
	struct stat before, after;
	uint64_t sum = 0;
	if (fstat(fd, &before))
		return err_sys(e, "stat %s", path);
	if (head(o, 'f', before.st_mode & 0111, path, e))
		return -1;
	for (;;) {
		char *p = buf_room(&o->b, DELTA_CHUNK + 5);
		ssize_t n = read(fd, p + 4, DELTA_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read %s", path);
		for (int i = 0; i < 4; i++) // by hand: a buffer's own append ends what it adds with a zero byte
			p[i] = (char)((uint32_t)n >> 8 * i);
		o->b.n += 4 + (size_t)n;
		sum += (uint64_t)n;
		// what grows while it is read must end somewhere
		if (!n || sum > (uint64_t)before.st_size)
			break;
		if (flush(o, DELTA_CHUNK, e))
			return -1;
	}
	bool torn = fstat(fd, &after) || sum != (uint64_t)before.st_size || !same_time(before.st_mtim, after.st_mtim);
	if (sum > (uint64_t)before.st_size)
		wire_u32(&o->b, 0);
	wire_u8(&o->b, torn);
	return flush(o, DELTA_CHUNK, e);
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

static int take_tail(struct delta_in *d, struct delta_entry *en, struct err *e)
{
	uint8_t raw[8];
	switch (en->kind) {
	case 'l':
		return take_text(d, en->link, e);
	case 'h':
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
	return take_tail(d, out, e) ? -1 : 1;
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

int delta_body(struct delta_in *d, const char **out, size_t *out_n, bool *out_torn, struct err *e)
{
	uint32_t n;
	uint8_t torn;
	if (take_u32(d, &n, e))
		return -1;
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

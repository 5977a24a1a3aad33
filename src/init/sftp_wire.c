// SPDX-License-Identifier: Apache-2.0
#include "init/sftp_wire.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 8192 // longer than any the kernel takes
#define HAS_EXTENDED 0x80000000u
#define PAIRS_MAX 64

struct reader {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static uint32_t get_u32(struct reader *r)
{
	if (r->n < 4) {
		r->bad = true;
		r->n = 0;
		return 0;
	}
	uint32_t v = (uint32_t)r->p[0] << 24 | (uint32_t)r->p[1] << 16 | (uint32_t)r->p[2] << 8 | r->p[3];
	r->p += 4;
	r->n -= 4;
	return v;
}

static uint64_t get_u64(struct reader *r)
{
	uint64_t high = get_u32(r);
	return high << 32 | get_u32(r);
}

static const uint8_t *get_bytes(struct reader *r, uint32_t *out_n)
{
	uint32_t n = get_u32(r);
	*out_n = 0;
	if (r->bad || n > r->n) {
		r->bad = true;
		r->n = 0;
		return NULL;
	}
	const uint8_t *p = r->p;
	r->p += n;
	r->n -= n;
	*out_n = n;
	return p;
}

// The empty path is the directory one starts in, as everywhere in SFTP.
static char *get_path(struct reader *r)
{
	uint32_t n;
	const uint8_t *p = get_bytes(r, &n);
	if (!p || n > PATH_BYTES || memchr(p, 0, n)) {
		r->bad = true;
		return NULL;
	}
	return n ? xstrndup((const char *)p, n) : xstrdup(".");
}

static void get_handle(struct reader *r, struct sftp_request *q)
{
	uint32_t n;
	const uint8_t *p = get_bytes(r, &n);
	struct reader h = {p, n, false};
	q->bad_handle = r->bad || n != 4;
	q->handle = q->bad_handle ? 0 : get_u32(&h);
}

static void get_attrs(struct reader *r, struct sftp_attrs *a)
{
	uint32_t flags = get_u32(r), n;
	a->has = flags & (SFTP_HAS_SIZE | SFTP_HAS_OWNER | SFTP_HAS_MODE | SFTP_HAS_TIMES);
	if (flags & SFTP_HAS_SIZE)
		a->size = get_u64(r);
	if (flags & SFTP_HAS_OWNER) {
		a->uid = get_u32(r);
		a->gid = get_u32(r);
	}
	if (flags & SFTP_HAS_MODE)
		a->mode = get_u32(r);
	if (flags & SFTP_HAS_TIMES) {
		a->atime = get_u32(r);
		a->mtime = get_u32(r);
	}
	uint32_t pairs = flags & HAS_EXTENDED ? get_u32(r) : 0;
	r->bad |= pairs > PAIRS_MAX;
	for (uint32_t i = 0; i < 2 * pairs && !r->bad; i++)
		get_bytes(r, &n);
}

const struct sftp_extension sftp_extensions[] = {
	{"posix-rename@openssh.com", "1", SFTP_POSIX_RENAME},
	{"hardlink@openssh.com", "1", SFTP_HARDLINK},
	{"fsync@openssh.com", "1", SFTP_FSYNC},
	{"lsetstat@openssh.com", "1", SFTP_LSETSTAT},
	{"statvfs@openssh.com", "2", SFTP_STATVFS},
	{"limits@openssh.com", "1", SFTP_LIMITS},
	{"expand-path@openssh.com", "1", SFTP_EXPAND},
	{NULL, NULL, SFTP_UNKNOWN},
};

static unsigned get_extension(struct reader *r)
{
	uint32_t n;
	const char *name = (const char *)get_bytes(r, &n);
	for (const struct sftp_extension *x = sftp_extensions; name && x->name; x++)
		if (strlen(x->name) == n && !memcmp(x->name, name, n))
			return x->type;
	return SFTP_UNKNOWN;
}

static void get_body(struct reader *r, struct sftp_request *q)
{
	switch (q->type) {
	case SFTP_OPEN:
		q->path = get_path(r);
		q->flags = get_u32(r);
		get_attrs(r, &q->attrs);
		break;
	case SFTP_READ:
		get_handle(r, q);
		q->offset = get_u64(r);
		q->len = get_u32(r);
		break;
	case SFTP_WRITE:
		get_handle(r, q);
		q->offset = get_u64(r);
		q->data = get_bytes(r, &q->len);
		break;
	case SFTP_CLOSE:
	case SFTP_FSTAT:
	case SFTP_READDIR:
	case SFTP_FSYNC:
		get_handle(r, q);
		break;
	case SFTP_FSETSTAT:
		get_handle(r, q);
		get_attrs(r, &q->attrs);
		break;
	case SFTP_SETSTAT:
	case SFTP_LSETSTAT:
	case SFTP_MKDIR:
		q->path = get_path(r);
		get_attrs(r, &q->attrs);
		break;
	case SFTP_LSTAT:
	case SFTP_STAT:
	case SFTP_OPENDIR:
	case SFTP_REMOVE:
	case SFTP_RMDIR:
	case SFTP_REALPATH:
	case SFTP_READLINK:
	case SFTP_STATVFS:
	case SFTP_EXPAND:
		q->path = get_path(r);
		break;
	case SFTP_RENAME:
	case SFTP_SYMLINK: // OpenSSH: what it leads to comes first, though the draft says otherwise
	case SFTP_POSIX_RENAME:
	case SFTP_HARDLINK:
		q->path = get_path(r);
		q->path2 = get_path(r);
		break;
	default:
		break;
	}
}

int sftp_parse(const uint8_t *p, size_t n, struct sftp_request *q)
{
	struct reader r = {p, n, false};
	*q = (struct sftp_request){0};
	if (!n)
		return -1;
	q->type = *p;
	r.p++;
	r.n--;
	q->id = get_u32(&r);
	if (q->type == SFTP_EXTENDED)
		q->type = get_extension(&r);
	if (!r.bad)
		get_body(&r, q);
	if (!r.bad)
		return 0;
	sftp_request_done(q);
	return -1;
}

void sftp_request_done(struct sftp_request *q)
{
	free(q->path);
	free(q->path2);
	q->path = q->path2 = NULL;
}

// --- answers ---

void sftp_u32(struct buf *b, uint32_t v)
{
	buf_add(b, (char[]){(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v}, 4);
}

void sftp_u64(struct buf *b, uint64_t v)
{
	sftp_u32(b, (uint32_t)(v >> 32));
	sftp_u32(b, (uint32_t)v);
}

void sftp_str(struct buf *b, const void *p, size_t n)
{
	sftp_u32(b, (uint32_t)n);
	buf_add(b, p, n);
}

void sftp_attrs(struct buf *b, const struct sftp_attrs *a)
{
	sftp_u32(b, a->has);
	if (a->has & SFTP_HAS_SIZE)
		sftp_u64(b, a->size);
	if (a->has & SFTP_HAS_OWNER) {
		sftp_u32(b, a->uid);
		sftp_u32(b, a->gid);
	}
	if (a->has & SFTP_HAS_MODE)
		sftp_u32(b, a->mode);
	if (a->has & SFTP_HAS_TIMES) {
		sftp_u32(b, a->atime);
		sftp_u32(b, a->mtime);
	}
}

size_t sftp_begin(struct buf *b, enum sftp_type type, uint32_t id)
{
	size_t at = b->n;
	sftp_u32(b, 0);
	buf_byte(b, (char)type);
	sftp_u32(b, id);
	return at;
}

void sftp_end(struct buf *b, size_t at)
{
	uint32_t n = (uint32_t)(b->n - at - 4);
	for (int i = 0; i < 4; i++)
		b->p[at + (size_t)i] = (char)(n >> (24 - 8 * i));
}

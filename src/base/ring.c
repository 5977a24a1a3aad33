// SPDX-License-Identifier: Apache-2.0
#include "base/ring.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define HEAD 4096
struct head {
	char magic[8];
	uint64_t cap, total;
};
static const char magic[8] = "skepring";

static int put_head(const struct ring *r, struct err *e)
{
	struct head h = {.cap = r->cap, .total = r->total};
	memcpy(h.magic, magic, sizeof magic);
	return pwrite(r->fd, &h, sizeof h, 0) != sizeof h ? err_sys(e, "write captured output") : 0;
}

int ring_create(struct ring *r, int dirfd, const char *name, uint64_t cap, struct err *e)
{
	*r = (struct ring){.fd = fs_open(dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e), .cap = cap ? cap : 1};
	if (r->fd < 0)
		return -1;
	if (put_head(r, e)) {
		ring_close(r);
		return -1;
	}
	return 0;
}

static int get_head(struct ring *r)
{
	struct head h;
	if (pread(r->fd, &h, sizeof h, 0) != sizeof h || memcmp(h.magic, magic, sizeof magic) || !h.cap)
		return -1;
	r->cap = h.cap;
	r->total = h.total;
	return 0;
}

int ring_open(struct ring *r, int dirfd, const char *name, struct err *e)
{
	*r = (struct ring){.fd = fs_open(dirfd, name, O_RDONLY | O_NOFOLLOW, 0, e)};
	if (r->fd < 0)
		return -1;
	if (get_head(r)) {
		ring_close(r);
		return err_set(e, ERR_SYSTEM, "%s is not captured output", name);
	}
	return 0;
}

void ring_close(struct ring *r)
{
	close_fd(&r->fd);
}

int ring_append(struct ring *r, const void *data, size_t n, struct err *e)
{
	const char *p = data;
	if (n > r->cap) { // only the end of it can be kept
		r->total += n - r->cap;
		p += n - r->cap;
		n = r->cap;
	}
	while (n) {
		uint64_t at = r->total % r->cap;
		size_t part = r->cap - at < n ? (size_t)(r->cap - at) : n;
		ssize_t w = pwrite(r->fd, p, part, (off_t)(HEAD + at));
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			struct err ignored; // what found room counts
			err_sys(e, "write captured output");
			put_head(r, &ignored);
			return -1;
		}
		r->total += (uint64_t)w;
		p += w;
		n -= (size_t)w;
	}
	return put_head(r, e);
}

uint64_t ring_first(const struct ring *r)
{
	return r->total > r->cap ? r->total - r->cap : 0;
}

long ring_read(struct ring *r, uint64_t at, void *p, size_t n)
{
	if (at >= r->total)
		return 0;
	if (at < ring_first(r))
		return -1;
	uint64_t pos = at % r->cap, have = r->total - at;
	if (have > r->cap - pos)
		have = r->cap - pos;
	ssize_t got = pread(r->fd, p, have < n ? (size_t)have : n, (off_t)(HEAD + pos));
	// Another process may write: what it wrote over meanwhile must not be taken for the old bytes.
	if (got > 0 && get_head(r) == 0 && at < ring_first(r))
		return -1;
	return got;
}

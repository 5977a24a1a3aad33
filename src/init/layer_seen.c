// SPDX-License-Identifier: Apache-2.0
// When is a file of a writable layer surely what it was when it was copied?
//
// Same inode number, same change time, same size. The change time is set by every write, chmod, chown, xattr and link; it is
// as coarse as the kernel's tick, so a file that changed in the last twentieth of a second before it was copied is not in the
// manifest. A store through a shared mapping sets it only when the page was clean: so larger files are written out before
// they are copied (`flushed`), after which the next store is noticed, and smaller ones are compared. On file systems
// that do not set it for mappings at all (tmpfs) there is no manifest.
#include "base/fs.h"
#include "base/mem.h"
#include "init/layer_int.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST "manifest"
#define MANIFEST_MAX (1u << 30)
#define MAGIC 0x31306d70656b73u
#define FNV 14695981039346656037u

static size_t slot_of(const struct seen_map *m, uint64_t ino)
{
	size_t at = (size_t)(ino * 11400714819323198485u) & (m->cap - 1);
	while (m->slots[at].ino && m->slots[at].ino != ino)
		at = (at + 1) & (m->cap - 1);
	return at;
}

struct seen *seen_find(const struct seen_map *m, uint64_t ino)
{
	struct seen *s = m->cap ? &m->slots[slot_of(m, ino)] : NULL;
	return s && s->ino ? s : NULL;
}

static void grow(struct seen_map *m)
{
	struct seen_map old = *m;
	m->cap = old.cap ? old.cap * 2 : 256;
	m->slots = xcalloc(m->cap, sizeof *m->slots);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].ino)
			m->slots[slot_of(m, old.slots[i].ino)] = old.slots[i];
	free(old.slots);
}

struct seen *seen_add(struct seen_map *m, uint64_t ino)
{
	if (m->n * 2 >= m->cap)
		grow(m);
	struct seen *s = &m->slots[slot_of(m, ino)];
	if (!s->ino) {
		s->ino = ino;
		m->n++;
	}
	return s;
}

void seen_done(struct seen_map *m)
{
	for (size_t i = 0; i < m->cap; i++)
		free(m->slots[i].path);
	free(m->slots);
	*m = (struct seen_map){0};
}

// --- manifest ---

static uint64_t sum_over(uint64_t sum, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (uint8_t)p[i]) * 1099511628211u;
	return sum;
}

static int put_out(struct manifest *m, struct err *e)
{
	m->sum = sum_over(m->sum, m->b.p, m->b.n);
	if (m->b.n && fs_write_all(m->fd, m->b.p, m->b.n, e))
		return -1;
	buf_clear(&m->b);
	return 0;
}

int manifest_open(struct manifest *m, int layer, struct err *e)
{
	*m = (struct manifest){.fd = -1, .b = BUF_INIT(1 << 20), .sum = FNV};
	m->fd = fs_open(layer, MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	wire_u64(&m->b, MAGIC);
	return m->fd < 0 ? -1 : 0;
}

int manifest_add(struct manifest *m, const struct seen *s, struct err *e)
{
	wire_u64(&m->b, s->ino);
	wire_u64(&m->b, s->ctime_ns);
	wire_u64(&m->b, s->size);
	wire_u8(&m->b, s->flushed);
	wire_str(&m->b, s->path);
	return m->b.n > 64 << 10 ? put_out(m, e) : 0;
}

int manifest_close(struct manifest *m, struct err *e)
{
	if (m->fd < 0)
		return 0;
	if (put_out(m, e))
		return -1;
	wire_u64(&m->b, m->sum);
	int rc = fs_write_all(m->fd, m->b.p, m->b.n, e);
	manifest_done(m);
	return rc;
}

void manifest_done(struct manifest *m)
{
	close_fd(&m->fd);
	buf_done(&m->b);
}

void manifest_load(int layer, struct seen_map *out)
{
	auto_buf struct buf b = BUF_INIT(MANIFEST_MAX);
	struct err e;
	if (fs_read(layer, MANIFEST, &b, &e) || b.n < 16)
		return;
	struct wire end = {.p = (const uint8_t *)b.p + b.n - 8, .n = 8};
	struct wire w = {.p = (const uint8_t *)b.p, .n = b.n - 8};
	if (wire_get_u64(&end) != sum_over(FNV, b.p, b.n - 8) || wire_get_u64(&w) != MAGIC)
		return;
	while (w.n && !w.bad) {
		uint64_t ino = wire_get_u64(&w);
		struct seen in = {.ino = ino, .ctime_ns = wire_get_u64(&w)};
		in.size = wire_get_u64(&w);
		in.flushed = wire_get_u8(&w);
		in.path = wire_get_str(&w);
		if (!ino || !in.path || seen_find(out, ino))
			free(in.path);
		else
			*seen_add(out, ino) = in;
	}
}

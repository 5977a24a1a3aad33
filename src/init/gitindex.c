// SPDX-License-Identifier: Apache-2.0
#include "init/gitindex.h"

#include "base/fs.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define STAT_BYTES 40 // times, numbers and size before the id
#define HEAD_BYTES 12
#define FLAG_EXTENDED 0x4000
#define PATH_MAX_BYTES 65536

static uint32_t be32(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

// Where the next entry is read, and the path before it (version 4 says what it shares with that one).
struct reader {
	const char *p, *end;
	uint32_t version;
	unsigned id_size;
	const char *last;
};

// Version 4's number of bytes to drop from the path before.
static bool read_offset(struct reader *r, size_t *out)
{
	size_t v = 0;
	for (int i = 0; i < 4 && r->p < r->end; i++) {
		uint8_t c = (uint8_t)*r->p++;
		v = i ? ((v + 1) << 7) | (c & 127) : c & 127;
		if (!(c & 128)) {
			*out = v;
			return true;
		}
	}
	return false;
}

static char *read_path(struct reader *r)
{
	size_t drop = 0, kept = strlen(r->last);
	if (r->version == 4 && (!read_offset(r, &drop) || drop > kept))
		return NULL;
	const char *stop = memchr(r->p, 0, (size_t)(r->end - r->p));
	kept = r->version == 4 ? kept - drop : 0;
	if (!stop || (size_t)(stop - r->p) + kept > PATH_MAX_BYTES)
		return NULL;
	char *path = xasprintf("%.*s%s", (int)kept, r->last, r->p);
	r->p = stop + 1;
	return path;
}

static bool read_entry(struct reader *r, struct gitindex *out)
{
	const char *start = r->p;
	if ((size_t)(r->end - r->p) < STAT_BYTES + r->id_size + 2)
		return false;
	const uint8_t *id = (const uint8_t *)r->p + STAT_BYTES;
	unsigned flags = id[r->id_size] << 8 | id[r->id_size + 1];
	r->p += STAT_BYTES + r->id_size + 2;
	if (flags & FLAG_EXTENDED) {
		if (r->version == 2 || r->end - r->p < 2)
			return false;
		r->p += 2;
	}
	char *path = read_path(r);
	if (!path || !*path) {
		free(path);
		return false;
	}
	if (r->version != 4) { // filled up to eight bytes, the end of the path among them
		size_t used = (size_t)(r->p - start);
		used = (used + 7) / 8 * 8;
		if (used > (size_t)(r->end - start)) {
			free(path);
			return false;
		}
		r->p = start + used;
	}
	out->paths[out->n_paths++] = path;
	out->v[out->n++] = (struct gitindex_entry){path, id};
	r->last = path;
	return true;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct gitindex_entry *)a)->path, ((const struct gitindex_entry *)b)->path);
}

static int parse_as(struct gitindex *out, size_t size, unsigned id_size)
{
	struct reader r = {.p = out->bytes, .end = out->bytes + size, .id_size = id_size, .last = ""};
	if (size < HEAD_BYTES + id_size || memcmp(r.p, "DIRC", 4))
		return -1;
	r.version = be32(r.p + 4);
	uint32_t count = be32(r.p + 8);
	r.p += HEAD_BYTES;
	r.end -= id_size; // the sum of all
	if (r.version < 2 || r.version > 4 || count > size / (STAT_BYTES + id_size))
		return -1;
	out->v = xcalloc((size_t)count + 1, sizeof *out->v);
	out->paths = xcalloc((size_t)count + 1, sizeof *out->paths);
	out->id_size = id_size;
	for (uint32_t i = 0; i < count; i++)
		if (!read_entry(&r, out))
			return -1;
	if (out->n)
		qsort(out->v, out->n, sizeof *out->v, by_path);
	return 0;
}

static void entries_done(struct gitindex *g)
{
	for (size_t i = 0; i < g->n_paths; i++)
		free(g->paths[i]);
	free(g->paths);
	free(g->v);
	g->paths = NULL;
	g->v = NULL;
	g->n = g->n_paths = 0;
}

static int parse_own(struct gitindex *out, size_t size)
{
	if (!parse_as(out, size, 20))
		return 0;
	entries_done(out);
	if (!parse_as(out, size, 32))
		return 0;
	gitindex_done(out);
	return -1;
}

int gitindex_parse(struct gitindex *out, const char *bytes, size_t n)
{
	*out = (struct gitindex){.bytes = xcalloc(1, n + 1)};
	if (n)
		memcpy(out->bytes, bytes, n);
	return parse_own(out, n);
}

int gitindex_read(struct gitindex *out, int fd)
{
	struct err e;
	struct buf b = BUF_INIT(GITINDEX_MAX);
	*out = (struct gitindex){0};
	if (fd < 0 || fs_read_fd(fd, &b, &e) || !b.n) {
		buf_done(&b);
		return -1;
	}
	size_t n = b.n;
	out->bytes = buf_take(&b);
	return parse_own(out, n);
}

void gitindex_done(struct gitindex *g)
{
	entries_done(g);
	free(g->bytes);
	*g = (struct gitindex){0};
}

const struct gitindex_entry *gitindex_find(const struct gitindex *g, const char *path)
{
	struct gitindex_entry key = {.path = path};
	return g->n ? bsearch(&key, g->v, g->n, sizeof *g->v, by_path) : NULL;
}

bool gitindex_covers(const struct gitindex *g, const char *path)
{
	size_t lo = 0, hi = g->n, n = strlen(path);
	while (n && path[n - 1] == '/')
		n--;
	auto_free char *below = xasprintf("%.*s/", (int)n, path);
	auto_free char *plain = xstrndup(path, n);
	if (gitindex_find(g, plain))
		return true;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (strcmp(g->v[mid].path, below) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < g->n && !strncmp(g->v[lo].path, below, n + 1);
}

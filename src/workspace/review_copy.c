// SPDX-License-Identifier: Apache-2.0
// SHADOW/skep/s: magic, contents, records, and at the end u64 offset and u64 length of the records and the magic again.
#include "workspace/review_copy.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/treename.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SKEPCPY1"
#define TAIL 24u
#define RECORD_MIN (2u + 8 + 8 + 32 + 4)

int review_path_cmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	int x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0, y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
	return x - y;
}

bool review_path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return !strncmp(path, dir, n) && path[n] == '/';
}

struct collector {
	int fd;
	struct buf out; // not written yet
	uint64_t at;	// bytes written and in out
	uint64_t file_max, total_max;
	struct copy_entry *v;
	size_t n, cap;
	struct collect_result *r;
	struct err *e;
};

static int put(struct collector *c, const void *p, size_t n)
{
	buf_add(&c->out, p, n);
	c->at += n;
	if (c->out.n < (1u << 20))
		return 0;
	int rc = fs_write_all(c->fd, c->out.p, c->out.n, c->e);
	buf_clear(&c->out);
	return rc;
}

static struct copy_entry *add(struct collector *c, char kind, const char *path)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? c->cap * 2 : 256;
		c->v = xrealloc(c->v, c->cap * sizeof *c->v);
	}
	c->v[c->n] = (struct copy_entry){.kind = kind, .off = c->at, .path = xstrdup(path)};
	return &c->v[c->n++];
}

// Bytes past the limits are still read and hashed: the digest must know them.
static int take_file(struct collector *c, struct delta_in *in, struct copy_entry *en)
{
	struct sha256 h;
	bool fits = true;
	sha256_init(&h);
	for (;;) {
		const char *p;
		size_t n;
		if (delta_body(in, &p, &n, &en->torn, c->e))
			return -1;
		if (!n)
			break;
		sha256_add(&h, p, n);
		en->size += n;
		fits = fits && en->size <= c->file_max && c->at + n <= c->total_max;
		if (fits && put(c, p, n))
			return -1;
	}
	sha256_end(&h, en->sha);
	en->kept = fits;
	c->r->files++;
	c->r->bytes += en->size;
	c->r->torn += en->torn;
	c->r->unkept += !fits;
	return 0;
}

static int skip_body(struct collector *c, struct delta_in *in)
{
	const char *p;
	size_t n = 1;
	bool torn;
	while (n)
		if (delta_body(in, &p, &n, &torn, c->e))
			return -1;
	return 0;
}

static int take_link(struct collector *c, struct copy_entry *en, const char *target)
{
	struct sha256 h;
	en->size = strlen(target);
	en->kept = true;
	sha256_init(&h);
	sha256_add(&h, target, en->size);
	sha256_end(&h, en->sha);
	return put(c, target, en->size);
}

// Git's own data is named by the component that makes it so, once, however much lies below it.
static int discard_git(struct collector *c, struct delta_in *in, const struct delta_entry *en)
{
	auto_free char *path = xstrdup(en->path);
	for (char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		bool git = treename_is_git(p, n);
		p += n;
		if (git)
			*p = 0;
		else if (*p)
			p++;
	}
	bool again = c->n && c->v[c->n - 1].kind == 'g' && !strcmp(c->v[c->n - 1].path, path);
	if (!again)
		add(c, 'g', path);
	return en->kind == 'f' ? skip_body(c, in) : 0;
}

static int take_entry(struct collector *c, struct delta_in *in, const struct delta_entry *en)
{
	if (c->n >= COPY_ENTRIES)
		return err_set(c->e, ERR_LIMIT, "more than %u paths changed; dismiss or remove some inside the sandbox",
			       COPY_ENTRIES);
	if (en->kind == 'c')
		return err_set(c->e, ERR_INVALID, "an expectation is no change: %.200s", en->path);
	if (en->kind == 'g' || (en->kind != 'r' && treename_path_has_git(en->path)))
		return discard_git(c, in, en);
	struct copy_entry *out = add(c, en->kind, en->path);
	out->exec = en->kind != 'l' && en->exec;
	if (en->kind == 'f')
		return take_file(c, in, out);
	if (en->kind == 'l')
		return take_link(c, out, en->link);
	out->size = en->kind == 'h' ? en->size : 0;
	c->r->unkept += en->kind == 'h';
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return review_path_cmp(((const struct copy_entry *)a)->path, ((const struct copy_entry *)b)->path);
}

// A path twice, or something below what is no directory: no file system holds that.
static int check_list(struct collector *c)
{
	size_t to = 0;
	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, by_path);
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i], *last = to ? &c->v[to - 1] : NULL;
		if (last && strchr("gr", en->kind) && strchr("gr", last->kind) && !strcmp(en->path, last->path)) {
			mem_free_ptr(&en->path);
			en->path = NULL;
			continue;
		}
		if (last && !strcmp(en->path, last->path))
			return err_set(c->e, ERR_INVALID, "the stream of changes names %.200s twice", en->path);
		if (last && !strchr("dogr", last->kind) && review_path_below(en->path, last->path))
			return err_set(c->e, ERR_INVALID, "the stream of changes has %.200s below what is no directory",
				       en->path);
		c->r->discarded += strchr("gsur", en->kind) != NULL;
		if (to != i)
			c->v[to] = *en, en->path = NULL;
		to++;
	}
	c->n = to;
	c->r->entries = to;
	return 0;
}

static int put_list(struct collector *c)
{
	uint64_t start = c->at;
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i];
		size_t before = c->out.n;
		wire_u8(&c->out, (uint8_t)en->kind);
		wire_u8(&c->out, (uint8_t)(en->exec | en->torn << 1 | en->kept << 2));
		wire_u64(&c->out, en->off);
		wire_u64(&c->out, en->size);
		buf_add(&c->out, en->sha, sizeof en->sha);
		wire_bytes(&c->out, en->path, strlen(en->path));
		c->at += c->out.n - before;
		if (put(c, "", 0))
			return -1;
	}
	wire_u64(&c->out, start);
	wire_u64(&c->out, c->at - start);
	buf_str(&c->out, MAGIC);
	return fs_write_all(c->fd, c->out.p, c->out.n, c->e);
}

static int collect(struct collector *c, struct delta_in *in)
{
	struct delta_entry *en = xcalloc(1, sizeof *en);
	int rc = put(c, MAGIC, 8) || delta_start(in, c->e) ? -1 : 0, more = 1;
	while (!rc && (more = delta_next(in, en, c->e)) > 0)
		rc = take_entry(c, in, en);
	free(en);
	return rc || more < 0 || check_list(c) || put_list(c) ? -1 : 0;
}

const char *review_copy_left_name(const struct copy_entry *en)
{
	if (en->kind != 'r')
		return en->path;
	bool home = str_has_prefix(en->path, DELTA_WORK_HOME);
	return en->path + (home ? strlen(DELTA_WORK_HOME) - strlen("~/") : strlen(DELTA_WORK_GIT));
}

// A bundle has refs and commits of the workspace's own repository only.
static const char *work_why(const char *path)
{
	const char *name = path + strlen(DELTA_WORK_GIT);
	if (str_has_prefix(path, DELTA_WORK_HOME))
		return "it lies in the sandbox's home: skep cp takes it";
	if (str_has_prefix(name, "refs/") || str_has_prefix(name, "stash@") || str_has_prefix(name, "commit "))
		return "it is only in the sandbox's repository: skep export --bundle takes it";
	return "it is only in the sandbox's repository: skep shell shows it";
}

const char *review_copy_left_why(const struct copy_entry *en)
{
	switch (en->kind) {
	case 'r':
		return work_why(en->path);
	case 'g':
		return "git's own data never leaves the sandbox this way";
	case 's':
		return "neither file, directory nor link";
	default:
		return "it can not be read";
	}
}

int review_collect(int shadow, struct delta_in *in, uint64_t file_max, uint64_t total_max, struct collect_result *out,
		   struct err *e)
{
	if (fs_mkdirs(shadow, "skep", 0700, e))
		return -1;
	auto_fd int fd = fs_open(shadow, "skep/s.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	*out = (struct collect_result){0};
	struct collector c = {
		.fd = fd, .out = BUF_INIT(4u << 20), .file_max = file_max, .total_max = total_max, .r = out, .e = e};
	int rc = collect(&c, in);
	if (!rc && renameat(shadow, "skep/s.new", shadow, "skep/s"))
		rc = err_sys(e, "keep the copy of the changes");
	if (rc)
		unlinkat(shadow, "skep/s.new", 0);
	for (size_t i = 0; i < c.n; i++)
		free(c.v[i].path);
	free(c.v);
	buf_done(&c.out);
	return rc;
}

static int damaged(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "the copy of the changes is damaged: collect it again");
}

static int read_list(struct review_copy *c, struct err *e)
{
	struct wire t = {.p = (uint8_t *)c->map + c->map_len - TAIL, .n = TAIL};
	uint64_t off = wire_get_u64(&t), len = wire_get_u64(&t);
	if (memcmp(t.p, MAGIC, 8) || off > c->map_len - TAIL || len != c->map_len - TAIL - off)
		return damaged(e);
	struct wire w = {.p = (uint8_t *)c->map + off, .n = len};
	c->v = xcalloc(len / RECORD_MIN + 1, sizeof *c->v);
	while (w.n && !w.bad) {
		struct copy_entry *en = &c->v[c->n];
		size_t n;
		en->kind = (char)wire_get_u8(&w);
		uint8_t flags = wire_get_u8(&w);
		en->exec = flags & 1, en->torn = flags & 2, en->kept = flags & 4;
		en->off = wire_get_u64(&w);
		en->size = wire_get_u64(&w);
		if (w.bad || w.n < sizeof en->sha || (en->kept && (en->off > off || en->size > off - en->off)))
			return damaged(e);
		memcpy(en->sha, w.p, sizeof en->sha);
		w.p += sizeof en->sha, w.n -= sizeof en->sha;
		const uint8_t *p = wire_get_bytes(&w, &n);
		if (!p)
			return damaged(e);
		en->path = xstrndup((const char *)p, n);
		c->n++;
	}
	return w.bad ? damaged(e) : 0;
}

int review_copy_open(int shadow, struct review_copy *out, struct err *e)
{
	struct stat st;
	auto_fd int fd = openat(shadow, "skep/s", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	*out = (struct review_copy){0};
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "the changes of this sandbox were not copied yet: collect them first");
	if (fd < 0 || fstat(fd, &st))
		return err_sys(e, "open the copy of the changes");
	if ((size_t)st.st_size < TAIL + 8)
		return damaged(e);
	// The file is ours, private and never changed in place: a map of it stays what it is.
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(e, "read the copy of the changes");
	out->map = map;
	out->map_len = (size_t)st.st_size;
	if (!read_list(out, e))
		return 0;
	review_copy_done(out);
	return -1;
}

void review_copy_done(struct review_copy *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	free(c->v);
	if (c->map)
		munmap(c->map, c->map_len);
	*c = (struct review_copy){0};
}

size_t review_copy_lower(const struct review_copy *c, const char *path)
{
	size_t lo = 0, hi = c->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (review_path_cmp(c->v[mid].path, path) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct copy_entry *review_copy_find(const struct review_copy *c, const char *path)
{
	size_t i = review_copy_lower(c, path);
	return i < c->n && !strcmp(c->v[i].path, path) ? &c->v[i] : NULL;
}

const char *review_copy_bytes(const struct review_copy *c, const struct copy_entry *en)
{
	return en->kept ? c->map + en->off : NULL;
}

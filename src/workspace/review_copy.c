// SPDX-License-Identifier: Apache-2.0
// Two files. SHADOW/skep/d holds contents, one behind the other; nothing in it is ever changed in place. SHADOW/skep/s is the
// list: magic, u64 inode and u64 length of d, u8 whether only some contents were asked for, records, and the magic again.
//
// A collect appends the contents that are new and replaces the list as a whole. What the new list does not name any more is
// punched out of d, unless a reader of an older list is still at work: readers hold a shared lock on d, and the collector
// needs an exclusive one to take anything away. When more than half of d is unused all the same, all is copied again.
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
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAGIC "SKEPCPY2"
#define LIST_MAX (2047u << 20)
#define RECORD_MIN (2u + 8 + 8 + 32 + SHADOW_OID + 5 * 8 + 4)
#define KNOWN_MAX 500000u	// marks of files that are not sent again
#define UNUSED_MAX (16u << 20) // of contents that no list names any more
#define PUNCH_LEAST (64u << 10)
#define FREE_LITTLE (32u << 20) // so much is always copied

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
	bool fresh;	// a file of its own takes the place of the old one at the end
	bool alone;	// nobody reads an older list: unused contents may go
	uint64_t start; // where the new contents begin
	struct buf out; // not written yet
	uint64_t at;	// end of the contents, with those in out
	uint64_t sum;	// bytes of all contents that are kept
	const struct collect_spec *spec;
	struct review_copy was;
	const uint32_t *places; // of was.v, as they were sent
	size_t n_places;
	struct copy_entry *v;
	size_t n, cap;
	struct collect_result *r;
	struct err *e;
};

static int check_free(struct collector *c)
{
	struct statvfs st;
	if (c->at - c->start < FREE_LITTLE || fstatvfs(c->fd, &st) || (uint64_t)st.f_bavail * st.f_frsize >= c->spec->keep_free)
		return 0;
	return err_set(c->e, ERR_LIMIT, "the copy of the changes was stopped: %llu MiB of disk are left, and a review leaves %llu MiB free. "
		       "Make room, name the paths that you want, or lower review_free in config.yaml",
		       (unsigned long long)((uint64_t)st.f_bavail * st.f_frsize >> 20), (unsigned long long)(c->spec->keep_free >> 20));
}

static int put_flush(struct collector *c)
{
	if (!c->out.n)
		return 0;
	int rc = check_free(c) || fs_write_all(c->fd, c->out.p, c->out.n, c->e) ? -1 : 0;
	buf_clear(&c->out);
	return rc;
}

static int put(struct collector *c, const void *p, size_t n)
{
	buf_add(&c->out, p, n);
	c->at += n;
	return c->out.n < (1u << 20) ? 0 : put_flush(c);
}

static int put_hole(struct collector *c, uint64_t n)
{
	if (put_flush(c))
		return -1;
	c->at += n;
	return lseek(c->fd, (off_t)c->at, SEEK_SET) < 0 ? err_sys(c->e, "keep a file with holes") : 0;
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

static void hash_zeros(struct sha256 *h, uint64_t n)
{
	static const char zeros[64u << 10];
	for (uint64_t part; n; n -= part) {
		part = n < sizeof zeros ? n : sizeof zeros;
		sha256_add(h, zeros, part);
	}
}

// p NULL: a hole.
static int put_part(struct collector *c, const char *p, size_t n)
{
	return p ? put(c, p, n) : put_hole(c, n);
}

// Bytes past the limits are read and not kept; a sender that knows the limits does not send them.
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
		en->size += n;
		fits = fits && en->size <= c->spec->file_max && en->size <= c->spec->total_max - c->sum;
		if (!fits)
			continue;
		if (p)
			sha256_add(&h, p, n);
		else
			hash_zeros(&h, n);
		if (put_part(c, p, n))
			return -1;
	}
	sha256_end(&h, en->sha);
	en->kept = fits;
	if (!fits) {
		en->kind = 'h';
		memset(en->sha, 0, sizeof en->sha);
	}
	c->sum += fits ? en->size : 0;
	c->r->files++;
	c->r->copied++;
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

static void take_content(struct copy_entry *to, const struct copy_entry *from)
{
	to->kind = 'f';
	to->off = from->off;
	to->size = from->size;
	to->kept = from->kept;
	to->torn = from->torn;
	to->hashed = from->hashed;
	to->mark = from->mark;
	memcpy(to->sha, from->sha, sizeof to->sha);
	memcpy(to->oid, from->oid, sizeof to->oid);
}

static int take_known(struct collector *c, struct copy_entry *en, uint64_t place)
{
	if (place >= c->n_places)
		return err_set(c->e, ERR_INVALID, "the stream of changes names a copy that there is not: %.200s", en->path);
	const struct copy_entry *was = &c->was.v[c->places[place]];
	take_content(en, was);
	if (c->sum > c->spec->total_max || en->size > c->spec->total_max - c->sum) {
		en->kept = false;
		en->kind = 'h';
		c->r->unkept++;
		return 0;
	}
	c->sum += en->size;
	c->r->files++;
	return 0;
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
	out->mark = en->mark;
	switch (en->kind) {
	case 'f':
		return take_file(c, in, out);
	case 'l':
		return take_link(c, out, en->link);
	case '=':
		out->as = xstrdup(en->link);
		return 0;
	case '~':
		return take_known(c, out, en->size);
	case 'h':
	case 'n':
		out->size = en->size;
		c->r->unkept += en->kind == 'h';
		c->r->unasked += en->kind == 'n';
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return review_path_cmp(((const struct copy_entry *)a)->path, ((const struct copy_entry *)b)->path);
}

// Git's own data and what can not be handled may be named twice; what can be handled wins.
static void entry_merge(struct copy_entry *last, struct copy_entry *en)
{
	struct copy_entry gone = *en;
	if (last->kind == 'u') {
		gone = *last;
		*last = *en;
	}
	mem_free_ptr(&gone.path);
	mem_free_ptr(&gone.as);
	en->path = en->as = NULL;
}

// A path twice, or something below what is no directory: no file system holds that.
static int check_list(struct collector *c)
{
	size_t to = 0;
	if (c->n)
		qsort(c->v, c->n, sizeof *c->v, by_path);
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i], *last = to ? &c->v[to - 1] : NULL;
		bool again = last && !strcmp(en->path, last->path);
		if (again && (en->kind == 'u' || last->kind == 'u' || (strchr("gr", en->kind) && strchr("gr", last->kind)))) {
			entry_merge(last, en);
			continue;
		}
		if (again)
			return err_set(c->e, ERR_INVALID, "the stream of changes names %.200s twice", en->path);
		if (last && !strchr("dogur", last->kind) && review_path_below(en->path, last->path))
			return err_set(c->e, ERR_INVALID, "the stream of changes has %.200s below what is no directory",
				       en->path);
		c->r->discarded += strchr("gsur", en->kind) != NULL;
		if (to != i)
			c->v[to] = *en, en->path = en->as = NULL;
		to++;
	}
	c->n = to;
	c->r->entries = to;
	return 0;
}

// Other names of a file get the content of the first.
static int resolve_links(struct collector *c)
{
	const struct review_copy found = {.v = c->v, .n = c->n};
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i];
		if (en->kind != '=')
			continue;
		const struct copy_entry *first = review_copy_find(&found, en->as);
		mem_free_ptr(&en->as);
		en->as = NULL;
		if (!first || !strchr("fh", first->kind)) {
			en->kind = 'u';
			c->r->discarded++;
			continue;
		}
		char kind = first->kind;
		take_content(en, first);
		en->kind = kind;
		c->r->files++;
	}
	return 0;
}

// The object ids of what is new, once for each content.
static int hash_new(struct collector *c)
{
	struct stat st;
	if (fstat(c->fd, &st))
		return err_sys(c->e, "stat the copy of the changes");
	char *map = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, c->fd, 0) : NULL;
	if (map == MAP_FAILED)
		return err_sys(c->e, "read the copy of the changes");
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i];
		if (!en->kept || en->hashed || en->kind == '=')
			continue;
		shadow_hash(map ? map + en->off : "", en->size, en->oid);
		en->hashed = true;
	}
	if (map)
		munmap(map, (size_t)st.st_size);
	return 0;
}

static void put_mark(struct buf *b, const struct delta_mark *m)
{
	wire_u64(b, m->dev);
	wire_u64(b, m->ino);
	wire_u64(b, m->size);
	wire_u64(b, m->mtime_ns);
	wire_u64(b, m->ctime_ns);
}

static int put_list(struct collector *c, int shadow)
{
	struct stat st;
	auto_buf struct buf b = BUF_INIT(LIST_MAX);
	if (fstat(c->fd, &st))
		return err_sys(c->e, "stat the copy of the changes");
	buf_str(&b, MAGIC);
	wire_u64(&b, st.st_ino);
	wire_u64(&b, c->at);
	wire_u8(&b, c->spec->paths != NULL);
	for (size_t i = 0; i < c->n; i++) {
		struct copy_entry *en = &c->v[i];
		wire_u8(&b, (uint8_t)en->kind);
		wire_u8(&b, (uint8_t)(en->exec | en->torn << 1 | en->kept << 2 | en->hashed << 3));
		wire_u64(&b, en->off);
		wire_u64(&b, en->size);
		buf_add(&b, en->sha, sizeof en->sha);
		buf_add(&b, en->oid, sizeof en->oid);
		put_mark(&b, &en->mark);
		wire_bytes(&b, en->path, strlen(en->path));
	}
	buf_str(&b, MAGIC);
	if (b.overflow)
		return err_set(c->e, ERR_LIMIT, "the list of changes is too long; dismiss or remove some inside the sandbox");
	auto_fd int fd = fs_open(shadow, "skep/s.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, c->e);
	if (fd < 0 || fs_write_all(fd, b.p, b.n, c->e))
		return -1;
	return renameat(shadow, "skep/s.new", shadow, "skep/s") ? err_sys(c->e, "keep the copy of the changes") : 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct copy_entry *x = *(struct copy_entry *const *)a, *y = *(struct copy_entry *const *)b;
	return x->off < y->off ? -1 : x->off > y->off;
}

// Frees [from, to) of the contents. False where that can not be done.
static bool punch(int fd, uint64_t from, uint64_t to)
{
	return to < from + PUNCH_LEAST || !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
}

// What no entry names any more.
static void free_unused(struct collector *c)
{
	struct copy_entry **v = xcalloc(c->n + 1, sizeof(struct copy_entry *));
	size_t n = 0;
	uint64_t at = 0;
	bool can = c->alone;
	for (size_t i = 0; can && i < c->n; i++)
		if (c->v[i].kept)
			v[n++] = &c->v[i];
	qsort(v, n, sizeof(struct copy_entry *), by_offset);
	for (size_t i = 0; can && i < n; i++) {
		if (v[i]->off > at)
			can = punch(c->fd, at, v[i]->off);
		at = v[i]->off + v[i]->size > at ? v[i]->off + v[i]->size : at;
	}
	free(v);
}

static int collect(struct collector *c, struct delta_in *in)
{
	struct delta_entry *en = xcalloc(1, sizeof *en);
	int rc = delta_start(in, c->e), more = 1;
	in->holes = true;
	while (!rc && (more = delta_next(in, en, c->e)) > 0)
		rc = take_entry(c, in, en);
	free(en);
	if (rc || more < 0 || put_flush(c))
		return -1;
	if (ftruncate(c->fd, (off_t)c->at))
		return err_sys(c->e, "keep the copy of the changes");
	return check_list(c) || resolve_links(c) || hash_new(c) ? -1 : 0;
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
		break;
	}
	if (strstr(en->path, "/(a path of "))
		return "its path is too long to be handled: give it a shorter one inside";
	return "it can not be read";
}

// Behind what the last list names; what stands there is of a collect that was cut off.
static int open_contents(struct collector *c, int shadow)
{
	struct stat st;
	if (fs_mkdirs(shadow, "skep", 0700, c->e))
		return -1;
	c->fd = fs_open(shadow, c->fresh ? "skep/d.new" : "skep/d", O_RDWR | O_CREAT | O_NOFOLLOW | (c->fresh ? O_TRUNC : 0), 0600, c->e);
	if (c->fd < 0 || fstat(c->fd, &st))
		return c->fd < 0 ? -1 : err_sys(c->e, "open the copy of the changes");
	c->alone = !flock(c->fd, LOCK_EX | LOCK_NB);
	c->start = (uint64_t)st.st_size;
	if (c->alone && c->was.length < c->start) {
		c->start = c->was.length;
		if (ftruncate(c->fd, (off_t)c->start))
			return err_sys(c->e, "open the copy of the changes");
	}
	c->at = c->start;
	return lseek(c->fd, (off_t)c->at, SEEK_SET) < 0 ? err_sys(c->e, "open the copy of the changes") : 0;
}

int review_collect(int shadow, struct delta_in *in, const struct collect_spec *spec, const struct collect_known *known,
		   struct collect_result *out, struct err *e)
{
	struct stat st;
	struct collector c = {.fd = -1, .out = BUF_INIT(4u << 20), .spec = spec, .r = out, .e = e};
	*out = (struct collect_result){0};
	c.was = known->copy;
	c.places = known->places;
	c.n_places = known->n;
	c.fresh = known->wasteful;
	int rc = open_contents(&c, shadow) || collect(&c, in) ? -1 : 0;
	if (!rc && c.fresh && renameat(shadow, "skep/d.new", shadow, "skep/d"))
		rc = err_sys(e, "keep the copy of the changes");
	if (!rc)
		rc = put_list(&c, shadow);
	if (!rc)
		free_unused(&c);
	else if (c.fd >= 0 && c.alone && ftruncate(c.fd, (off_t)c.start))
		rc = -1; // what is behind the list goes with the next collect
	unlinkat(shadow, "skep/s.new", 0);
	unlinkat(shadow, "skep/d.new", 0);
	if (c.fd >= 0 && !fstat(c.fd, &st))
		out->disk = (uint64_t)st.st_blocks * 512;
	for (size_t i = 0; i < c.n; i++) {
		free(c.v[i].path);
		free(c.v[i].as);
	}
	free(c.v);
	close_fd(&c.fd);
	buf_done(&c.out);
	return rc;
}

// --- what is there from before ---

// Where holes can not be punched, or are too small for it, what is not used any more adds up.
static bool copy_is_wasteful(const struct review_copy *c)
{
	struct stat st;
	uint64_t used = UNUSED_MAX;
	for (size_t i = 0; i < c->n; i++)
		used += c->v[i].kept ? 2 * c->v[i].size : 0;
	return c->lock < 0 || fstat(c->lock, &st) || (uint64_t)st.st_blocks * 512 > used;
}

void collect_known_open(int shadow, struct collect_known *k)
{
	struct err none;
	*k = (struct collect_known){0};
	if (review_copy_open(shadow, &k->copy, &none))
		return;
	if (copy_is_wasteful(&k->copy)) { // all is copied again into a file that has nothing else
		review_copy_done(&k->copy);
		k->wasteful = true;
		return;
	}
	k->places = xcalloc(k->copy.n + 1, sizeof *k->places);
	k->marks = xcalloc(k->copy.n + 1, sizeof *k->marks);
	for (size_t i = 0; i < k->copy.n && k->n < KNOWN_MAX; i++) {
		const struct copy_entry *en = &k->copy.v[i];
		if (en->kind != 'f' || !en->kept || en->torn || !en->mark.ino)
			continue;
		k->places[k->n] = (uint32_t)i;
		k->marks[k->n++] = en->mark;
	}
	review_copy_unlock(&k->copy); // its contents are not read
}

void collect_known_done(struct collect_known *k)
{
	free(k->places);
	free(k->marks);
	review_copy_done(&k->copy);
	*k = (struct collect_known){0};
}

// --- reading ---

static int damaged(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "the copy of the changes is damaged: collect it again");
}

static void get_raw(struct wire *w, void *out, size_t n)
{
	if (w->bad || w->n < n) {
		w->bad = true;
		return;
	}
	memcpy(out, w->p, n);
	w->p += n, w->n -= n;
}

static void get_entry(struct review_copy *c, struct wire *w)
{
	struct copy_entry en = {.kind = (char)wire_get_u8(w)};
	size_t n;
	uint8_t flags = wire_get_u8(w);
	en.exec = flags & 1, en.torn = flags & 2, en.kept = flags & 4, en.hashed = flags & 8;
	en.off = wire_get_u64(w);
	en.size = wire_get_u64(w);
	get_raw(w, en.sha, sizeof en.sha);
	get_raw(w, en.oid, sizeof en.oid);
	en.mark.dev = wire_get_u64(w);
	en.mark.ino = wire_get_u64(w);
	en.mark.size = wire_get_u64(w);
	en.mark.mtime_ns = wire_get_u64(w);
	en.mark.ctime_ns = wire_get_u64(w);
	const uint8_t *p = wire_get_bytes(w, &n);
	w->bad |= !p || (en.kept && (en.off > c->length || en.size > c->length - en.off));
	if (w->bad)
		return;
	en.path = xstrndup((const char *)p, n);
	c->v[c->n++] = en;
}

static int read_list(struct review_copy *c, int shadow, uint64_t *out_ino, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LIST_MAX);
	if (fs_read(shadow, "skep/s", &b, e))
		return e->sys == ENOENT ? err_set(e, ERR_NOT_FOUND, "the changes of this sandbox were not copied yet: collect them first") : -1;
	if (b.n < 16 + 17 || memcmp(b.p, MAGIC, 8) || memcmp(b.p + b.n - 8, MAGIC, 8))
		return damaged(e);
	struct wire w = {.p = (const uint8_t *)b.p + 8, .n = b.n - 16};
	*out_ino = wire_get_u64(&w);
	c->length = wire_get_u64(&w);
	c->scoped = wire_get_u8(&w);
	c->v = xcalloc(w.n / RECORD_MIN + 1, sizeof *c->v);
	while (w.n && !w.bad)
		get_entry(c, &w);
	return w.bad ? damaged(e) : 0;
}

int review_copy_open(int shadow, struct review_copy *out, struct err *e)
{
	struct stat st;
	uint64_t ino = 0;
	*out = (struct review_copy){.lock = -1};
	auto_fd int fd = openat(shadow, "skep/d", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_SH))
		return err_sys(e, "lock the copy of the changes");
	int rc = read_list(out, shadow, &ino, e);
	if (!rc && (fd < 0 || fstat(fd, &st) || st.st_ino != ino || (uint64_t)st.st_size < out->length))
		rc = damaged(e);
	// Contents are never changed in place: a map of them stays what it is.
	void *map = rc || !out->length ? NULL : mmap(NULL, (size_t)out->length, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		rc = err_sys(e, "read the copy of the changes");
	else
		out->map = map;
	out->map_len = out->map ? (size_t)out->length : 0;
	out->lock = take_fd(&fd);
	if (rc)
		review_copy_done(out);
	return rc;
}

void review_copy_unlock(struct review_copy *c)
{
	if (c->map)
		munmap(c->map, c->map_len);
	c->map = NULL;
	close_fd(&c->lock);
}

void review_copy_done(struct review_copy *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	free(c->v);
	review_copy_unlock(c);
	*c = (struct review_copy){.lock = -1};
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
	if (!en->kept)
		return NULL;
	return en->size ? c->map + en->off : "";
}

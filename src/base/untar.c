// SPDX-License-Identifier: Apache-2.0
// Entries may come in any order. The directories on the way to the newest one are held open, one descriptor per level; every name is
// made relative to the last of them, so there is no path that the kernel would resolve for us.
#include "base/tar.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar_int.h"
#include "base/walk.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAX_MAX (64u << 10) // bytes of an extended header
#define CHUNK (128u << 10)
#define CLOSED_MAX 10000 // directories that their owner may not change

// A directory on the way. What its own entry says is put on when it is left: it may be read-only, and what is made in it moves its time.
struct level {
	int fd;
	size_t n_path; // how much of path names it
	bool named;    // it had an entry
	mode_t mode;   // to leave it with
	struct timespec mtime;
};

struct entry {
	char *path, *target; // owned; of an extended header, then of the header
	uint64_t size;
	bool has_size, sparse;
	mode_t mode;
	struct timespec mtime;
	char type;
};

struct reader {
	int fd, top; // top: of levels; 0 = the target itself, borrowed
	uint8_t begun[2]; // looked at first
	size_t n_begun;
	struct level levels[WALK_DEPTH + 1];
	char path[WALK_PATH + 1]; // of the newest level
	char *chunk;
	struct closed {
		char *path;
		mode_t mode;
		size_t turn;
	} *closed; // directories that get their modes last: more may come for them
	size_t n_closed;
	struct err *e;
};

static void entry_done(struct entry *en)
{
	free(en->path);
	free(en->target);
	*en = (struct entry){0};
}

static int refuse(struct reader *r, const struct entry *en, const char *why)
{
	return err_set(r->e, ERR_INVALID, "refused %.150s: %s", en->path, why);
}

static int failed(struct reader *r, const struct entry *en, const char *what)
{
	err_sys(r->e, "%s", what);
	return err_wrap(r->e, "%.150s", en->path);
}

// --- bytes ---

// How many there were: less than n at the end.
static long some(struct reader *r, void *out, size_t n)
{
	char *p = out;
	size_t done = 0;
	for (; done < n && r->n_begun; r->n_begun--)
		p[done++] = (char)r->begun[2 - r->n_begun];
	while (done < n) {
		ssize_t got = read(r->fd, p + done, n - done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(r->e, "read the archive");
		if (!got)
			break;
		done += (size_t)got;
	}
	return (long)done;
}

static int all(struct reader *r, void *out, size_t n)
{
	long got = some(r, out, n);
	if (got < 0)
		return -1;
	return (size_t)got == n ? 0 : err_set(r->e, ERR_INVALID, "the archive ends early");
}

static size_t padding(uint64_t size)
{
	return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static int skip(struct reader *r, uint64_t n)
{
	while (n) {
		size_t part = n < CHUNK ? (size_t)n : CHUNK;
		if (all(r, r->chunk, part))
			return -1;
		n -= part;
	}
	return 0;
}

// --- headers ---

// Octal, or GNU's binary form for what is larger.
static int number(struct reader *r, const char *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	if ((unsigned char)p[0] & 0x80) {
		for (size_t i = 0; i < n; i++) {
			uint64_t byte = (unsigned char)p[i] & (i ? 0xff : 0x7f);
			if (v >> 55)
				return err_set(r->e, ERR_INVALID, "a number in the archive is too large");
			v = v << 8 | byte;
		}
		*out = v;
		return 0;
	}
	while (n && *p == ' ')
		p++, n--;
	for (; n && *p >= '0' && *p <= '7'; p++, n--)
		v = v << 3 | (uint64_t)(*p - '0');
	if (n && *p && *p != ' ')
		return err_set(r->e, ERR_INVALID, "a number in the archive is malformed");
	*out = v;
	return 0;
}

static bool sum_is_right(const struct tar_header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	unsigned sum = 0, want = 0;
	const char *s = h->sum;
	for (size_t i = 0; i < sizeof *h; i++)
		sum += i >= offsetof(struct tar_header, sum) && i < offsetof(struct tar_header, type) ? ' ' : p[i];
	while (*s == ' ' && s < h->sum + sizeof h->sum)
		s++;
	for (; s < h->sum + sizeof h->sum && *s >= '0' && *s <= '7'; s++)
		want = want << 3 | (unsigned)(*s - '0');
	return sum == want;
}

static char *text(const char *p, size_t n)
{
	return xstrndup(p, strnlen(p, n));
}

static int set_text(struct reader *r, char **out, struct str value)
{
	if (!value.n || value.n > WALK_PATH || memchr(value.p, 0, value.n))
		return err_set(r->e, ERR_INVALID, "a name in the archive is empty, longer than %d bytes, or holds a zero byte", WALK_PATH);
	free(*out);
	*out = xstrndup(value.p, value.n);
	return 0;
}

// One "LENGTH KEY=VALUE\n" of an extended header.
static int pax_record(struct reader *r, struct entry *en, struct str key, struct str value)
{
	uint64_t seconds;
	if (str_is(key, "path"))
		return set_text(r, &en->path, value);
	if (str_is(key, "linkpath"))
		return set_text(r, &en->target, value);
	if (str_is(key, "size")) {
		en->has_size = true;
		return str_to_u64(value, 0, INT64_MAX, &en->size) ? err_set(r->e, ERR_INVALID, "a size in the archive is malformed") : 0;
	}
	if (str_is(key, "mtime")) {
		struct str whole = value, part;
		if (str_next(&whole, '.', &part) && !str_to_u64(part, 0, INT64_MAX, &seconds))
			en->mtime.tv_sec = (time_t)seconds;
		return 0; // before 1970, or nonsense: as if it were not there
	}
	en->sparse |= key.n >= 10 && !memcmp(key.p, "GNU.sparse", 10);
	return 0;
}

static int pax_header(struct reader *r, struct entry *en, uint64_t size)
{
	if (size > PAX_MAX)
		return err_set(r->e, ERR_LIMIT, "an extended header of the archive is longer than %u bytes", PAX_MAX);
	auto_free char *body = xcalloc(1, (size_t)size + 1);
	if (all(r, body, (size_t)size) || skip(r, padding(size)))
		return -1;
	for (struct str rest = {body, (size_t)size}; rest.n;) {
		uint64_t n;
		struct str line = rest, length, key;
		if (!str_next(&line, ' ', &length) || str_to_u64(length, length.n + 3, rest.n, &n) || rest.p[n - 1] != '\n')
			return err_set(r->e, ERR_INVALID, "an extended header of the archive is malformed");
		struct str value = {length.p + length.n + 1, (size_t)n - length.n - 2};
		if (!memchr(value.p, '=', value.n) || !str_next(&value, '=', &key))
			return err_set(r->e, ERR_INVALID, "an extended header of the archive is malformed");
		value.p = value.p ? value.p : "";
		if (pax_record(r, en, key, value))
			return -1;
		rest = (struct str){rest.p + n, rest.n - (size_t)n};
	}
	return 0;
}

// GNU: the next entry's name, or where its link leads.
static int long_name(struct reader *r, char **out, uint64_t size)
{
	if (!size || size > WALK_PATH + 1)
		return err_set(r->e, ERR_LIMIT, "a name in the archive is longer than %d bytes", WALK_PATH);
	auto_free char *body = xcalloc(1, (size_t)size + 1);
	if (all(r, body, (size_t)size) || skip(r, padding(size)))
		return -1;
	return set_text(r, out, str_of(body));
}

static int fill_in(struct reader *r, const struct tar_header *h, struct entry *en, uint64_t size)
{
	uint64_t mode, mtime;
	if (number(r, h->mode, sizeof h->mode, &mode) || number(r, h->mtime, sizeof h->mtime, &mtime))
		return -1;
	auto_free char *name = text(h->name, sizeof h->name), *prefix = text(h->prefix, sizeof h->prefix);
	bool ustar = !memcmp(h->magic, "ustar", 6) && *prefix; // GNU's own form keeps other things there
	if (!en->path)
		en->path = ustar ? xasprintf("%s/%s", prefix, name) : xstrdup(name);
	if (!en->target)
		en->target = text(h->link, sizeof h->link);
	en->size = en->has_size ? en->size : size;
	en->mode = (mode_t)(mode & 07777);
	if (!en->mtime.tv_sec && mtime <= INT64_MAX)
		en->mtime.tv_sec = (time_t)mtime;
	en->type = h->type;
	return 0;
}

// 1 = an entry, 0 = the end.
static int next_entry(struct reader *r, struct entry *en)
{
	static const char empty[TAR_BLOCK];
	for (;;) {
		struct tar_header h;
		uint64_t size;
		struct entry global = {0};
		int rc = 0;
		if (all(r, &h, sizeof h))
			return -1;
		if (!memcmp(&h, empty, sizeof h))
			return 0;
		if (!sum_is_right(&h))
			return err_set(r->e, ERR_INVALID, "not a tar archive, or a damaged one: a checksum is wrong");
		if (number(r, h.size, sizeof h.size, &size))
			return -1;
		if (h.type == 'x')
			rc = pax_header(r, en, size);
		else if (h.type == 'L')
			rc = long_name(r, &en->path, size);
		else if (h.type == 'K')
			rc = long_name(r, &en->target, size);
		else if (h.type == 'g')
			rc = pax_header(r, &global, size);
		else
			return fill_in(r, &h, en, size) ? -1 : 1;
		if (!rc && (global.path || global.target || global.has_size))
			rc = err_set(r->e, ERR_INVALID, "the archive has a name or a size for all of its entries");
		entry_done(&global);
		if (rc)
			return -1;
	}
}

// --- directories ---

static int close_later(struct reader *r, mode_t mode)
{
	if (r->n_closed == CLOSED_MAX)
		return err_set(r->e, ERR_LIMIT, "%.150s: more than %d directories that their owner may not change", r->path, CLOSED_MAX);
	r->closed = xrealloc(r->closed, (r->n_closed + 1) * sizeof *r->closed);
	r->closed[r->n_closed] = (struct closed){xstrdup(r->path), mode, r->n_closed};
	r->n_closed++;
	return 0;
}

static int leave(struct reader *r)
{
	struct level *l = &r->levels[r->top--];
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, l->mtime};
	int rc = l->named && (fchmod(l->fd, l->mode | 0700) || futimens(l->fd, times)) ? err_sys(r->e, "finish %s", r->path) : 0;
	if (!rc && l->named && (l->mode & 0700) != 0700)
		rc = close_later(r, l->mode);
	close_fd(&l->fd);
	r->path[r->levels[r->top].n_path] = 0;
	return rc;
}

// One more on the way: made if it is not there.
static int enter(struct reader *r, const struct entry *en, struct str name)
{
	struct level *l = &r->levels[r->top];
	auto_free char *one = xstrndup(name.p, name.n);
	if (r->top == WALK_DEPTH)
		return refuse(r, en, "directories are nested too deep");
	if (mkdirat(l->fd, one, 0777) && errno != EEXIST)
		return failed(r, en, "make directory");
	int fd = openat(l->fd, one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return refuse(r, en, "something on its way is a link or a file");
	if (fd < 0)
		return failed(r, en, "open directory");
	size_t at = l->n_path;
	if (at)
		r->path[at++] = '/';
	memcpy(r->path + at, one, name.n + 1);
	r->levels[++r->top] = (struct level){.fd = fd, .n_path = at + name.n};
	return 0;
}

// Without empty parts and ".", in its own place: it becomes no longer. "" is the target itself.
static int clean_path(struct reader *r, struct entry *en)
{
	struct str rest = str_of(en->path), part;
	char *to = en->path;
	if (rest.n > WALK_PATH)
		return refuse(r, en, "its name is too long");
	if (en->path[0] == '/')
		return refuse(r, en, "its name is absolute");
	for (struct str look = rest; str_next(&look, '/', &part);)
		if (str_is(part, ".."))
			return refuse(r, en, "its name leads out with ..");
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (to != en->path)
			*to++ = '/';
		memmove(to, part.p, part.n);
		to += part.n;
	}
	*to = 0;
	return 0;
}

static bool is_below(const struct reader *r, const char *path, size_t parent)
{
	size_t n = r->levels[r->top].n_path;
	return n <= parent && !memcmp(r->path, path, n) && (!n || n == parent || path[n] == '/');
}

// Stands in the entry's directory, and gives its last name; "" for the target itself.
static int place(struct reader *r, struct entry *en, const char **out_name)
{
	if (clean_path(r, en))
		return -1;
	const char *slash = strrchr(en->path, '/');
	size_t parent = slash ? (size_t)(slash - en->path) : 0;
	while (!is_below(r, en->path, parent))
		if (leave(r))
			return -1;
	size_t have = r->levels[r->top].n_path, from = have && have < parent ? have + 1 : have;
	struct str rest = {en->path + from, parent - from}, part;
	while (rest.n && str_next(&rest, '/', &part))
		if (enter(r, en, part))
			return -1;
	*out_name = slash ? slash + 1 : en->path;
	return 0;
}

// --- entries ---

static int take_dir(struct reader *r, const struct entry *en, const char *name)
{
	if (!*name)
		return 0; // the target is whose it is
	if (enter(r, en, str_of(name)))
		return -1;
	struct level *l = &r->levels[r->top];
	l->named = true;
	l->mode = en->mode & 0777;
	l->mtime = en->mtime;
	// until it is left we must get in
	return fchmod(l->fd, l->mode | 0700) ? err_sys(r->e, "change mode of %s", r->path) : 0;
}

static int clear_way(struct reader *r, const struct entry *en, const char *name)
{
	if (!unlinkat(r->levels[r->top].fd, name, 0) || errno == ENOENT)
		return 0;
	if (errno == EISDIR || errno == EPERM)
		return refuse(r, en, "a directory is there");
	return failed(r, en, "replace");
}

static int copy(struct reader *r, int fd, uint64_t left)
{
	while (left) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;
		if (all(r, r->chunk, n) || fs_write_all(fd, r->chunk, n, r->e))
			return -1;
		left -= n;
	}
	return 0;
}

static int take_file(struct reader *r, const struct entry *en, const char *name)
{
	int dir = r->levels[r->top].fd;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, en->mtime};
	if (en->mode & 06000)
		return refuse(r, en, "it is setuid or setgid");
	if (clear_way(r, en, name))
		return -1;
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(r, en, "make");
	int rc = copy(r, fd, en->size);
	if (!rc && (fchmod(fd, en->mode & 0777) || futimens(fd, times)))
		rc = err_sys(r->e, "finish");
	if (!rc)
		return skip(r, padding(en->size));
	unlinkat(dir, name, 0); // half a file is none
	return err_wrap(r->e, "%.150s", en->path);
}

static int take_link(struct reader *r, const struct entry *en, const char *name)
{
	int dir = r->levels[r->top].fd;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, en->mtime};
	if (!*en->target)
		return refuse(r, en, "a link to nothing");
	if (clear_way(r, en, name))
		return -1;
	if (!symlinkat(en->target, dir, name) && !utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return 0;
	return failed(r, en, "make link");
}

// The directory of a name below the target, on a way without links; its last part in *out_name, borrowed from path.
static int open_parent(const struct reader *r, const char *path, const char **out_name)
{
	auto_fd int at = dup(r->levels[0].fd);
	struct str rest = str_of(path), part, next = {NULL, 0};
	bool more = str_next(&rest, '/', &part);
	for (; more && at >= 0; part = next) {
		more = str_next(&rest, '/', &next);
		if (str_is(part, "..") || (!part.n && part.p == path))
			return -1;
		if (!more)
			break;
		if (!part.n || str_is(part, "."))
			continue;
		auto_free char *one = xstrndup(part.p, part.n);
		int below = openat(at, one, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close_fd(&at);
		at = below;
	}
	*out_name = part.p;
	return at < 0 || !part.n || str_is(part, ".") ? -1 : take_fd(&at);
}

static int take_hard_link(struct reader *r, const struct entry *en, const char *name)
{
	const char *last;
	struct stat st, here;
	int to = r->levels[r->top].fd;
	auto_fd int from = open_parent(r, en->target, &last);
	if (from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return refuse(r, en, "a hard link to what is no regular file below the target");
	if (!fstatat(to, name, &here, AT_SYMLINK_NOFOLLOW) && here.st_dev == st.st_dev && here.st_ino == st.st_ino)
		return 0; // it is that file already
	if (clear_way(r, en, name))
		return -1;
	if (!linkat(from, last, to, name, 0))
		return 0;
	return failed(r, en, "make hard link");
}

static int take_entry(struct reader *r, struct entry *en)
{
	const char *name;
	bool dir = en->type == '5' || (strchr("07", en->type ? en->type : '0') && *en->path && en->path[strlen(en->path) - 1] == '/');
	if (!*en->path)
		return err_set(r->e, ERR_INVALID, "an entry of the archive has no name");
	if (strchr("346", en->type ? en->type : '0'))
		return refuse(r, en, "devices and FIFOs are not taken");
	if (en->type == 'S' || en->sparse)
		return refuse(r, en, "sparse files are not taken");
	if (en->type && !strchr("01257", en->type))
		return refuse(r, en, "it is of no kind that is known");
	if (place(r, en, &name))
		return -1;
	if (!*name && !dir)
		return refuse(r, en, "it would replace the directory itself");
	if (dir)
		return take_dir(r, en, name) ? -1 : skip(r, en->size + padding(en->size));
	switch (en->type) {
	case '1':
		return take_hard_link(r, en, name) ? -1 : skip(r, en->size + padding(en->size));
	case '2':
		return take_link(r, en, name) ? -1 : skip(r, en->size + padding(en->size));
	default:
		return take_file(r, en, name);
	}
}

static int take_all(struct reader *r)
{
	long got = some(r, r->begun, 2);
	if (got < 2)
		return got < 0 ? -1 : err_set(r->e, ERR_INVALID, "the archive is empty");
	if (r->begun[0] == 0x1f && r->begun[1] == 0x8b)
		return err_set(r->e, ERR_INVALID, "the archive is compressed with gzip: send it unpacked (gzip -dc)");
	r->n_begun = 2;
	for (;;) {
		struct entry en = {0};
		int rc = next_entry(r, &en);
		if (rc > 0 && take_entry(r, &en))
			rc = -1;
		entry_done(&en);
		if (rc <= 0)
			return rc;
	}
}

// The deepest first, for behind a closed one there is no way in; of the same one the last counts.
static int by_depth(const void *a, const void *b)
{
	const struct closed *x = a, *y = b;
	size_t n = strlen(x->path), m = strlen(y->path);
	return n != m ? (n < m) - (n > m) : (x->turn > y->turn) - (x->turn < y->turn);
}

static int close_all(struct reader *r)
{
	if (r->n_closed)
		qsort(r->closed, r->n_closed, sizeof *r->closed, by_depth);
	for (size_t i = 0; i < r->n_closed; i++) {
		const struct closed *c = &r->closed[i];
		const char *last;
		auto_fd int at = open_parent(r, c->path, &last);
		auto_fd int fd = at < 0 ? -1 : openat(at, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fchmod(fd, c->mode))
			return err_sys(r->e, "change mode of %.150s", c->path);
	}
	return 0;
}

// What lies behind the end is read, so that who sends it is not cut off.
static int drain(struct reader *r)
{
	long n;
	do
		n = some(r, r->chunk, CHUNK);
	while (n == CHUNK);
	return n < 0 ? -1 : 0;
}

int tar_read(int in_fd, int dirfd, struct err *e)
{
	struct reader *r = xcalloc(1, sizeof *r);
	*r = (struct reader){.fd = in_fd, .chunk = xcalloc(1, CHUNK), .e = e};
	r->levels[0].fd = dirfd;
	int rc = take_all(r);
	while (!rc && r->top)
		rc = leave(r);
	for (; r->top; r->top--)
		close(r->levels[r->top].fd);
	if (!rc)
		rc = close_all(r) || drain(r) ? -1 : 0;
	while (r->n_closed)
		free(r->closed[--r->n_closed].path);
	free(r->closed);
	free(r->chunk);
	free(r);
	return rc;
}

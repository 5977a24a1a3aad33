// SPDX-License-Identifier: Apache-2.0
// An archive as a row of entries: headers, extended headers, GNU's long names. What they say is bounded and well formed after
// this; whether it is done is for untar.c to judge.
#include "base/tar_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/walk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAX_MAX (64u << 10) // bytes of an extended header

void tar_entry_done(struct tar_entry *en)
{
	free(en->path);
	free(en->target);
	*en = (struct tar_entry){0};
}

// --- bytes ---

// How many there were: less than n at the end.
static long some(struct tar_in *in, void *out, size_t n)
{
	char *p = out;
	size_t done = 0;
	for (; done < n && in->n_begun; in->n_begun--)
		p[done++] = (char)in->begun[2 - in->n_begun];
	while (done < n) {
		ssize_t got = read(in->fd, p + done, n - done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(in->e, "read the archive");
		if (!got)
			break;
		done += (size_t)got;
	}
	return (long)done;
}

int tar_in_all(struct tar_in *in, void *out, size_t n)
{
	long got = some(in, out, n);
	if (got < 0)
		return -1;
	return (size_t)got == n ? 0 : err_set(in->e, ERR_INVALID, "the archive ends early");
}

size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

int tar_in_skip(struct tar_in *in, uint64_t n)
{
	while (n) {
		size_t part = n < TAR_CHUNK ? (size_t)n : TAR_CHUNK;
		if (tar_in_all(in, in->chunk, part))
			return -1;
		n -= part;
	}
	return 0;
}

int tar_in_begin(struct tar_in *in)
{
	long got = some(in, in->begun, 2);
	if (got < 2)
		return got < 0 ? -1 : err_set(in->e, ERR_INVALID, "the archive is empty");
	if (in->begun[0] == 0x1f && in->begun[1] == 0x8b)
		return err_set(in->e, ERR_INVALID, "the archive is compressed with gzip: send it unpacked (gzip -dc)");
	in->n_begun = 2;
	return 0;
}

int tar_in_drain(struct tar_in *in)
{
	long n;
	do
		n = some(in, in->chunk, TAR_CHUNK);
	while (n == TAR_CHUNK);
	return n < 0 ? -1 : 0;
}

// --- headers ---

// Octal, or GNU's binary form for what is larger.
static int number(struct tar_in *in, const char *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	if ((unsigned char)p[0] & 0x80) {
		for (size_t i = 0; i < n; i++) {
			uint64_t byte = (unsigned char)p[i] & (i ? 0xff : 0x7f);
			if (v >> 55)
				return err_set(in->e, ERR_INVALID, "a number in the archive is too large");
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
		return err_set(in->e, ERR_INVALID, "a number in the archive is malformed");
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

static int set_text(struct tar_in *in, char **out, struct str value)
{
	if (!value.n || value.n > WALK_PATH || memchr(value.p, 0, value.n))
		return err_set(in->e, ERR_INVALID, "a name in the archive is empty, longer than %d bytes, or holds a zero byte", WALK_PATH);
	free(*out);
	*out = xstrndup(value.p, value.n);
	return 0;
}

// One "LENGTH KEY=VALUE\n" of an extended header.
static int pax_record(struct tar_in *in, struct tar_entry *en, struct str key, struct str value)
{
	uint64_t seconds;
	if (str_is(key, "path"))
		return set_text(in, &en->path, value);
	if (str_is(key, "linkpath"))
		return set_text(in, &en->target, value);
	if (str_is(key, "size")) {
		en->has_size = true;
		return str_to_u64(value, 0, INT64_MAX, &en->size) ? err_set(in->e, ERR_INVALID, "a size in the archive is malformed") : 0;
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

static int pax_header(struct tar_in *in, struct tar_entry *en, uint64_t size)
{
	if (size > PAX_MAX)
		return err_set(in->e, ERR_LIMIT, "an extended header of the archive is longer than %u bytes", PAX_MAX);
	auto_free char *body = xcalloc(1, (size_t)size + 1);
	if (tar_in_all(in, body, (size_t)size) || tar_in_skip(in, tar_padding(size)))
		return -1;
	for (struct str rest = {body, (size_t)size}; rest.n;) {
		uint64_t n;
		struct str line = rest, length, key;
		if (!str_next(&line, ' ', &length) || str_to_u64(length, length.n + 3, rest.n, &n) || rest.p[n - 1] != '\n')
			return err_set(in->e, ERR_INVALID, "an extended header of the archive is malformed");
		struct str value = {length.p + length.n + 1, (size_t)n - length.n - 2};
		if (!memchr(value.p, '=', value.n) || !str_next(&value, '=', &key))
			return err_set(in->e, ERR_INVALID, "an extended header of the archive is malformed");
		value.p = value.p ? value.p : "";
		if (pax_record(in, en, key, value))
			return -1;
		rest = (struct str){rest.p + n, rest.n - (size_t)n};
	}
	return 0;
}

// GNU: the next entry's name, or where its link leads.
static int long_name(struct tar_in *in, char **out, uint64_t size)
{
	if (!size || size > WALK_PATH + 1)
		return err_set(in->e, ERR_LIMIT, "a name in the archive is longer than %d bytes", WALK_PATH);
	auto_free char *body = xcalloc(1, (size_t)size + 1);
	if (tar_in_all(in, body, (size_t)size) || tar_in_skip(in, tar_padding(size)))
		return -1;
	return set_text(in, out, str_of(body));
}

static int fill_in(struct tar_in *in, const struct tar_header *h, struct tar_entry *en, uint64_t size)
{
	uint64_t mode, mtime;
	if (number(in, h->mode, sizeof h->mode, &mode) || number(in, h->mtime, sizeof h->mtime, &mtime))
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

int tar_in_next(struct tar_in *in, struct tar_entry *en)
{
	static const char empty[TAR_BLOCK];
	for (;;) {
		struct tar_header h;
		uint64_t size;
		struct tar_entry global = {0};
		int rc = 0;
		if (tar_in_all(in, &h, sizeof h))
			return -1;
		if (!memcmp(&h, empty, sizeof h))
			return 0;
		if (!sum_is_right(&h))
			return err_set(in->e, ERR_INVALID, "not a tar archive, or a damaged one: a checksum is wrong");
		if (number(in, h.size, sizeof h.size, &size))
			return -1;
		if (h.type == 'x')
			rc = pax_header(in, en, size);
		else if (h.type == 'L')
			rc = long_name(in, &en->path, size);
		else if (h.type == 'K')
			rc = long_name(in, &en->target, size);
		else if (h.type == 'g')
			rc = pax_header(in, &global, size);
		else
			return fill_in(in, &h, en, size) ? -1 : 1;
		if (!rc && (global.path || global.target || global.has_size))
			rc = err_set(in->e, ERR_INVALID, "the archive has a name or a size for all of its entries");
		tar_entry_done(&global);
		if (rc)
			return -1;
	}
}

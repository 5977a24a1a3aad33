// SPDX-License-Identifier: Apache-2.0
// The writer: what does not fit a header goes into an extended one (pax) before it. The reader is in tar_in.c and untar.c.
#include "base/tar.h"

#include "base/mem.h"
#include "base/tar_int.h"
#include "base/walk.h"
#include <string.h>

static const char zeroes[2 * TAR_BLOCK];

static void put_octal(char *out, size_t n, uint64_t v)
{
	out[--n] = 0;
	while (n) {
		out[--n] = (char)('0' + (v & 7));
		v >>= 3;
	}
}

static void put_header(struct buf *out, char type, const char *name, size_t n_name, const struct walk_entry *en, uint64_t size)
{
	struct tar_header h = {0};
	unsigned sum = 0;
	memcpy(h.name, name, n_name < sizeof h.name ? n_name : sizeof h.name);
	put_octal(h.mode, sizeof h.mode, en->mode);
	put_octal(h.uid, sizeof h.uid, 0);
	put_octal(h.gid, sizeof h.gid, 0);
	put_octal(h.size, sizeof h.size, size > TAR_OCTAL_MAX ? 0 : size); // else its extended header has it
	put_octal(h.mtime, sizeof h.mtime, en->mtime.tv_sec < 0 || (uint64_t)en->mtime.tv_sec > TAR_OCTAL_MAX ? 0 : (uint64_t)en->mtime.tv_sec);
	h.type = type;
	if (type == '2')
		memcpy(h.link, en->target, en->n_target < sizeof h.link ? en->n_target : sizeof h.link);
	memcpy(h.magic, "ustar", 6);
	memcpy(h.version, "00", 2);
	memset(h.sum, ' ', sizeof h.sum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += ((const unsigned char *)&h)[i];
	put_octal(h.sum, 7, sum);
	buf_add(out, &h, sizeof h);
}

// "LENGTH KEY=VALUE\n", where the length counts itself.
static void put_record(struct buf *out, const char *key, const char *value, size_t n)
{
	size_t rest = strlen(key) + n + 3, total = rest + 1;
	for (size_t digits = 1, most = 10;; digits++, most *= 10) {
		total = rest + digits;
		if (total < most)
			break;
	}
	buf_fmt(out, "%zu %s=", total, key);
	buf_add(out, value, n);
	buf_byte(out, '\n');
}

static void put_entry(struct buf *out, const struct walk_entry *en)
{
	auto_buf struct buf name = BUF_INIT(WALK_PATH + 2), pax = BUF_INIT(4 * WALK_PATH), number = BUF_INIT(32);
	struct tar_header h;
	buf_add(&name, en->path, en->n_path);
	if (en->type == 'd')
		buf_byte(&name, '/');
	if (name.n > sizeof h.name)
		put_record(&pax, "path", name.p, name.n);
	if (en->n_target > sizeof h.link)
		put_record(&pax, "linkpath", en->target, en->n_target);
	if (en->size > TAR_OCTAL_MAX) {
		buf_fmt(&number, "%llu", (unsigned long long)en->size);
		put_record(&pax, "size", number.p, number.n);
	}
	if (pax.n) {
		put_header(out, 'x', "PaxHeader", 9, en, pax.n);
		buf_add(out, pax.p, pax.n);
		buf_add(out, zeroes, (TAR_BLOCK - pax.n % TAR_BLOCK) % TAR_BLOCK);
	}
	put_header(out, en->type == 'd' ? '5' : en->type == 'l' ? '2' : '0', name.p, name.n, en, en->size);
}

int tar_write(int out_fd, int dirfd, const char *name, const char *as, struct err *e)
{
	static const struct walk_form form = {.entry = put_entry, .end = zeroes, .n_end = sizeof zeroes, .block = TAR_BLOCK};
	return walk_write(out_fd, dirfd, name, as, &form, e);
}

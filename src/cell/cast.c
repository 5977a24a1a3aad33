// SPDX-License-Identifier: Apache-2.0
// Terminal sessions as asciicast v2: a header line, then [seconds, "o"|"r", text]. Text is UTF-8: a sequence cut by a
// read waits for its rest; what is not UTF-8 becomes U+FFFD. A recording that reaches its size limit ends there.
#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAST_MAX (64ULL << 20)

struct cast {
	int fd;
	uint64_t start_us, bytes;
	char rest[4];
	size_t n_rest;
};

static void put(struct cast *k, struct buf *line)
{
	struct err e;
	if (k->fd < 0 || line->overflow)
		return;
	k->bytes += line->n;
	if (k->bytes > CAST_MAX || fs_write_all(k->fd, line->p, line->n, &e))
		close_fd(&k->fd); // a recording never holds up the work
}

static void event(struct cast *k, char code, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(1 << 20);
	uint64_t us = clock_us() - k->start_us;
	struct jsonw w = {.b = &b};
	buf_fmt(&b, "[%llu.%06llu,\"%c\",", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000), code);
	jw_str(&w, p, n);
	buf_str(&b, "]\n");
	put(k, &b);
}

struct cast *cast_open(int dir, const char *exec_id, uint32_t cols, uint32_t rows, struct err *e)
{
	auto_free char *name = xasprintf("%s.cast", exec_id);
	int fd = fs_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return NULL;
	struct cast *k = xcalloc(1, sizeof *k);
	*k = (struct cast){.fd = fd, .start_us = clock_us()};
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "{\"version\":2,\"width\":%u,\"height\":%u,\"timestamp\":%llu}\n", cols ? cols : 80, rows ? rows : 24,
		(unsigned long long)(clock_unix_ms() / 1000));
	put(k, &b);
	return k;
}

static void add_clean(struct buf *out, const char *p, size_t n)
{
	while (n) {
		size_t good = 1;
		while (good <= 4 && good <= n && !str_is_utf8(p, good))
			good++;
		if (good <= 4 && good <= n) {
			buf_add(out, p, good);
			p += good, n -= good;
		} else {
			buf_str(out, "\xef\xbf\xbd");
			p++, n--;
		}
	}
}

void cast_output(struct cast *k, const char *p, size_t n)
{
	auto_buf struct buf raw = BUF_INIT(FRAME_MAX + 16), clean = BUF_INIT(4 * (FRAME_MAX + 16));
	buf_add(&raw, k->rest, k->n_rest);
	buf_add(&raw, p, n);
	size_t whole = str_utf8_whole(raw.p, raw.n);
	k->n_rest = raw.n - whole;
	memcpy(k->rest, raw.p + whole, k->n_rest);
	if (str_is_utf8(raw.p, whole)) {
		event(k, 'o', raw.p, whole);
		return;
	}
	add_clean(&clean, raw.p, whole);
	event(k, 'o', buf_cstr(&clean), clean.n);
}

void cast_resize(struct cast *k, uint32_t cols, uint32_t rows)
{
	char size[32];
	if (!fmt_to(size, sizeof size, "%ux%u", cols, rows))
		event(k, 'r', size, strlen(size));
}

void cast_close(struct cast *k)
{
	if (!k)
		return;
	close_fd(&k->fd);
	free(k);
}

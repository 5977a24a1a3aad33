// SPDX-License-Identifier: Apache-2.0
#include "cli/out.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/treename.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Characters that change how others are shown, or are not shown themselves.
static bool is_hidden(uint32_t c)
{
	if (c == 0xfe0f) // half of all emoji; alone it says nothing
		return false;
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0xfff9 && c <= 0xfffb) || treename_hidden(c);
}

static size_t sequence_len(unsigned char c)
{
	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static uint32_t decode(const unsigned char *p, size_t n)
{
	static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = p[0] & mask[n];
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

static void escaped(struct buf *b, uint32_t c)
{
	if (c == '\n')
		buf_str(b, "\\n");
	else if (c == '\t')
		buf_str(b, "\\t");
	else if (c < 0x100)
		buf_fmt(b, "\\x%02x", c);
	else
		buf_fmt(b, "\\u{%x}", c);
}

void out_text_n(struct buf *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		const unsigned char *p = (const unsigned char *)s + i;
		size_t len = sequence_len(*p);
		if (len > n - i || !str_is_utf8(s + i, len)) {
			buf_fmt(b, "\\x%02x", *p);
			i++;
			continue;
		}
		uint32_t c = decode(p, len);
		if (is_hidden(c))
			escaped(b, c);
		else
			buf_add(b, p, len);
		i += len;
	}
}

void out_text(struct buf *b, const char *s)
{
	out_text_n(b, s, strlen(s));
}

void out_size(struct buf *b, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	uint64_t v = bytes, tenths = 0;
	size_t u = 0;
	for (; v >= 1024 && u + 1 < countof(units); u++) {
		tenths = (v % 1024) * 10 / 1024;
		v /= 1024;
	}
	if (u && v < 100 && tenths)
		buf_fmt(b, "%llu.%llu %s", (unsigned long long)v, (unsigned long long)tenths, units[u]);
	else
		buf_fmt(b, "%llu %s", (unsigned long long)v, units[u]);
}

void out_cpus(struct buf *b, uint64_t milli)
{
	if (!milli) {
		buf_str(b, "cpus not limited");
		return;
	}
	buf_fmt(b, "cpus %llu.%03llu", (unsigned long long)(milli / 1000), (unsigned long long)(milli % 1000));
	while (b->p[b->n - 1] == '0')
		b->p[--b->n] = 0;
	if (b->p[b->n - 1] == '.')
		b->p[--b->n] = 0;
}

void out_age(struct buf *b, uint64_t ms)
{
	uint64_t s = ms / 1000;
	if (s < 100)
		buf_fmt(b, "%llus", (unsigned long long)s);
	else if (s < 100 * 60)
		buf_fmt(b, "%llum", (unsigned long long)(s / 60));
	else if (s < 48 * 3600)
		buf_fmt(b, "%lluh", (unsigned long long)(s / 3600));
	else
		buf_fmt(b, "%llud", (unsigned long long)(s / 86400));
}

// n digits at s, or -1. Leading zeros are the rule here.
static int64_t digits(const char *s, int n)
{
	int64_t v = 0;
	for (int i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + s[i] - '0';
	}
	return v;
}

// Days from 1970-01-01 in the Gregorian calendar; years counted from March, so leap days come last.
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
	y -= m <= 2;
	int64_t era = y / 400, yoe = y - era * 400;
	int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

int out_iso_ms(const char *s, uint64_t *out)
{
	if (strlen(s) < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':')
		return -1;
	int64_t y = digits(s, 4), mo = digits(s + 5, 2), d = digits(s + 8, 2), h = digits(s + 11, 2);
	int64_t mi = digits(s + 14, 2), sec = digits(s + 17, 2);
	int64_t ms = s[19] == '.' ? digits(s + 20, 3) : 0;
	if (y < 1970 || mo < 1 || mo > 12 || d < 1 || h < 0 || mi < 0 || sec < 0 || ms < 0)
		return -1;
	*out = (uint64_t)((days_of(y, mo, d) * 86400 + h * 3600 + mi * 60 + sec) * 1000 + ms);
	return 0;
}

void table_add(struct table *t, const char *cell)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	out_text(&b, cell);
	if (!(t->n_cells & (t->n_cells - 1))) // a power of two: double
		t->cells = xrealloc(t->cells, (t->n_cells ? t->n_cells * 2 : 1) * sizeof *t->cells);
	t->cells[t->n_cells++] = buf_take(&b);
}

void table_add_u64(struct table *t, uint64_t v)
{
	auto_free char *s = xasprintf("%llu", (unsigned long long)v);
	table_add(t, s);
}

static size_t shown_width(const char *s)
{
	size_t n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

#define GONE ((size_t)-1)
#define CUT_LEAST 12 // of the last column, when it is cut

static size_t total(const size_t *width, size_t cols)
{
	size_t sum = 0;
	for (size_t c = 0; c < cols; c++)
		sum += width[c] == GONE ? 0 : width[c] + (c < cols - 1 ? 2 : 0);
	return sum;
}

// Leaves out what is least needed, then cuts the last column: a line that wraps is no row any more.
static void narrow(const struct table *t, size_t *width)
{
	size_t cols = (size_t)t->n_cols, *last = &width[cols - 1];
	for (const char *s = t->spare; s && *s && total(width, cols) > t->room; s++)
		width[*s - '0'] = GONE;
	size_t sum = total(width, cols), over = sum > t->room ? sum - t->room : 0;
	if (over)
		*last = *last > over + CUT_LEAST ? *last - over : *last < CUT_LEAST ? *last : CUT_LEAST;
}

// The end of it: of paths that is what tells them apart.
static void add_cut(struct buf *out, const char *cell, size_t width)
{
	size_t w = shown_width(cell);
	if (w <= width) {
		buf_str(out, cell);
		return;
	}
	for (; w >= width; w--)
		do
			cell++;
		while ((*cell & 0xc0) == 0x80);
	buf_fmt(out, "\xe2\x80\xa6%s", cell);
}

void table_print(struct table *t, struct buf *out)
{
	size_t cols = (size_t)t->n_cols;
	size_t *width = xcalloc(cols, sizeof *width);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = shown_width(t->cells[i]);
		if (w > width[i % cols])
			width[i % cols] = w;
	}
	if (t->room)
		narrow(t, width);
	for (size_t i = 0; i < t->n_cells; i++) {
		bool last = i % cols == cols - 1, gone = width[i % cols] == GONE;
		if (!gone)
			add_cut(out, t->cells[i], width[i % cols]);
		for (size_t w = shown_width(t->cells[i]); !gone && !last && w < width[i % cols] + 2; w++)
			buf_byte(out, ' ');
		if (last)
			buf_byte(out, '\n');
		free(t->cells[i]);
	}
	free(t->cells);
	free(width);
	*t = (struct table){.n_cols = t->n_cols};
}

void out_stderr(struct buf *b)
{
	struct err ignored;
	if (fs_write_all(STDERR_FILENO, b->p, b->n, &ignored))
		return;
}

int out_flush(struct buf *b)
{
	struct err e;
	if (!fs_write_all(STDOUT_FILENO, b->p, b->n, &e))
		return 0;
	auto_buf struct buf line = BUF_INIT(1024);
	buf_fmt(&line, "skep: standard output: %s\n", strerror(e.sys));
	out_stderr(&line);
	return 1;
}

// Only strings have other characters than ASCII, or the one control character JSON need not escape, so the whole text can
// be gone through at once.
static void json_ascii(struct buf *b, const struct buf *json)
{
	const unsigned char *p = (const unsigned char *)json->p, *end = p + json->n;
	for (size_t len; p < end; p += len) {
		len = sequence_len(*p);
		uint32_t c = decode(p, len);
		if (c < 0x7f)
			buf_byte(b, (char)c);
		else if (c < 0x10000)
			buf_fmt(b, "\\u%04x", c);
		else
			buf_fmt(b, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
	}
}

int out_json(const json_t *j)
{
	auto_buf struct buf b = BUF_INIT(256u << 20), ascii = BUF_INIT(256u << 20);
	json_print(&b, j, 2);
	buf_byte(&b, '\n');
	if (!isatty(STDOUT_FILENO))
		return out_flush(&b);
	json_ascii(&ascii, &b);
	return out_flush(&ascii);
}

int out_json_line(struct buf *line)
{
	auto_buf struct buf ascii = BUF_INIT(256u << 20);
	buf_byte(line, '\n');
	if (!isatty(STDOUT_FILENO))
		return out_flush(line);
	json_ascii(&ascii, line);
	return out_flush(&ascii);
}

void out_json_raw(struct buf *b, const char *p, size_t n)
{
	struct err ignored;
	if (isatty(STDOUT_FILENO)) {
		auto_json json_t *j = json_read(p, n, &ignored);
		auto_buf struct buf line = BUF_INIT(b->max);
		buf_add(&line, p, n);
		if (j)
			json_ascii(b, &line);
		else
			out_text_n(b, p, n);
	} else {
		buf_add(b, p, n);
	}
	buf_byte(b, '\n');
}

int out_exit_of(enum err_kind kind)
{
	static const int codes[] = {
		[ERR_NONE] = 0,	       [ERR_INVALID] = 2, [ERR_NOT_FOUND] = 3, [ERR_CONFLICT] = 4,
		[ERR_DENIED] = 5,      [ERR_LIMIT] = 6,	  [ERR_TIMEOUT] = 7,   [ERR_UNAVAILABLE] = 8,
		[ERR_UNSUPPORTED] = 9, [ERR_SYSTEM] = 1,  [ERR_BUG] = 1,
	};
	static_assert(countof(codes) == ERR_KINDS, "an exit status per kind");
	return kind < ERR_KINDS ? codes[kind] : 1;
}

static void error_line(const struct call *c, const struct err *e, const char *more)
{
	auto_buf struct buf b = BUF_INIT(8192);
	buf_fmt(&b, "skep: %s: ", c->cmd->name);
	out_text(&b, e->msg);
	buf_str(&b, more);
	buf_byte(&b, '\n');
	out_stderr(&b);
}

int out_fail(const struct call *c, const struct err *e)
{
	error_line(c, e, "");
	return c->cmd->tail >= 0 ? 125 : out_exit_of(e->kind);
}

int out_usage(const struct call *c, const struct err *e)
{
	auto_free char *more = xasprintf(" (see skep %s --help)", c->cmd->name);
	error_line(c, e, more);
	return 2;
}

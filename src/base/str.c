// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NEAR_MAX 40 // longest word that is compared letter by letter

struct str str_of(const char *s)
{
	return (struct str){s, strlen(s)};
}

bool str_is(struct str s, const char *lit)
{
	return s.n == strlen(lit) && !memcmp(s.p, lit, s.n);
}

bool str_has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);
	return n >= m && !strcmp(s + n - m, suffix);
}

bool str_next(struct str *s, char sep, struct str *out_part)
{
	if (!s->p)
		return false;
	const char *at = memchr(s->p, sep, s->n);
	*out_part = (struct str){s->p, at ? (size_t)(at - s->p) : s->n};
	*s = at ? (struct str){at + 1, s->n - out_part->n - 1} : (struct str){NULL, 0};
	return true;
}

// Letters to add, drop, change or swap with their neighbour to make b of a. Rows of the usual table, three at a time.
static size_t slips(const char *a, const char *b)
{
	size_t row[3][NEAR_MAX + 1], n = strlen(a), m = strlen(b);
	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
			best = last[j] + 1 < best ? last[j] + 1 : best;
			best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[n % 3][m];
}

const char *str_nearest(const char *word, char *const *list)
{
	const char *found = NULL;
	size_t n = strlen(word), least = 1 + n / 4; // more and it is another word
	if (n < 2 || n > NEAR_MAX)
		return NULL;
	for (; list && *list; list++) {
		size_t d = strlen(*list) <= NEAR_MAX ? slips(word, *list) : NEAR_MAX;
		if (d > least || (found && d == least))
			continue;
		found = *list;
		least = d;
	}
	return found;
}

int str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;
	if (!s.n || (s.n > 1 && s.p[0] == '0'))
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
			return -1;
	}
	if (v < min || v > max)
		return -1;
	*out = v;
	return 0;
}

// "1.5" -> 1500 and the rest of the text; at most three decimals.
static int milli_prefix(const char *s, uint64_t *out, const char **rest)
{
	size_t whole = strspn(s, "0123456789");
	uint64_t v, frac = 0, scale = 100;
	if (str_to_u64((struct str){s, whole}, 0, UINT64_MAX / 1000 - 1, &v))
		return -1;
	s += whole;
	if (*s == '.') {
		s++;
		if (!isdigit((unsigned char)*s))
			return -1;
		for (; isdigit((unsigned char)*s); s++, scale /= 10)
			if (!scale)
				return -1;
			else
				frac += (uint64_t)(*s - '0') * scale;
	}
	*out = v * 1000 + frac;
	*rest = s;
	return 0;
}

int str_to_milli(const char *s, uint64_t *out)
{
	const char *rest;
	uint64_t v;
	if (milli_prefix(s, &v, &rest) || *rest)
		return -1;
	*out = v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int scaled(const char *s, const struct unit *units, uint64_t *out)
{
	const char *rest;
	uint64_t milli;
	if (milli_prefix(s, &milli, &rest))
		return -1;
	for (; units->name; units++)
		if (!strcasecmp(rest, units->name)) {
			unsigned __int128 v = (unsigned __int128)milli * units->factor / 1000;
			if (v > INT64_MAX)
				return -1;
			*out = (uint64_t)v;
			return 0;
		}
	return -1;
}

int str_to_size(const char *s, uint64_t *out)
{
	static const struct unit units[] = {
		{"", 1},	   {"k", 1ULL << 10},  {"m", 1ULL << 20},  {"g", 1ULL << 30},
		{"t", 1ULL << 40}, {"kb", 1ULL << 10}, {"mb", 1ULL << 20}, {"gb", 1ULL << 30},
		{"tb", 1ULL << 40}, {"kib", 1ULL << 10}, {"mib", 1ULL << 20}, {"gib", 1ULL << 30},
		{"tib", 1ULL << 40}, {NULL, 0},
	};
	return scaled(s, units, out);
}

int str_to_duration_ms(const char *s, uint64_t *out)
{
	static const struct unit units[] = {
		{"", 1000},    {"ms", 1},	{"s", 1000},	   {"m", 60000},
		{"h", 3600000}, {"d", 86400000}, {NULL, 0},
	};
	return scaled(s, units, out);
}

void str_hex(char *out, const void *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	for (const uint8_t *from = p; n; n--, from++) {
		*out++ = digits[*from >> 4];
		*out++ = digits[*from & 15];
	}
	*out = 0;
}

int fmt_to(char *dst, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(dst, size, fmt, ap);
	va_end(ap);
	return n >= 0 && (size_t)n < size ? 0 : -1;
}

// Length of the sequence at p: 0 = malformed, more than n = cut off at the end.
static size_t utf8_len(const unsigned char *p, size_t n)
{
	static const struct {
		unsigned char lo, hi, second_lo, second_hi;
		size_t len;
	} rows[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};
	if (*p < 0x80)
		return 1;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		if (*p < rows[r].lo || *p > rows[r].hi)
			continue;
		for (size_t i = 1; i < rows[r].len && i < n; i++) {
			unsigned char lo = i == 1 ? rows[r].second_lo : 0x80;
			unsigned char hi = i == 1 ? rows[r].second_hi : 0xbf;
			if (p[i] < lo || p[i] > hi)
				return 0;
		}
		return rows[r].len;
	}
	return 0;
}

bool str_is_utf8(const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len((const unsigned char *)p + i, n - i);
		if (!len || len > n - i)
			return false;
		i += len;
	}
	return true;
}

size_t str_utf8_whole(const char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		size_t len = utf8_len((const unsigned char *)p + n - back, back);
		if (len > back)
			return n - back;
		if (len)
			break;
	}
	return n;
}

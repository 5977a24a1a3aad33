// SPDX-License-Identifier: Apache-2.0
#include "model/glob.h"

#include "base/str.h"
#include <stdint.h>
#include <string.h>

// One [...] at g, which has its end. *next: behind it.
static bool in_class(const char *g, unsigned char c, const char **next)
{
	bool negated = g[1] == '!' || g[1] == '^', hit = false;
	const char *p = g + 1 + negated;
	do {
		unsigned char from = (unsigned char)*p, to = from;
		if (p[1] == '-' && p[2] != ']') {
			to = (unsigned char)p[2];
			p += 2;
		}
		hit |= c >= from && c <= to;
		p++;
	} while (*p != ']');
	*next = p + 1;
	return hit != negated;
}

// The ']' of a class, NULL when '[' is only itself.
static const char *class_end(const char *g, const char *end)
{
	const char *p = g + 1;
	p += p < end && (*p == '!' || *p == '^');
	p += p < end; // the first one may be ']' itself
	while (p < end && *p != ']')
		p++;
	return p < end ? p : NULL;
}

// What stands at g takes c; *next: behind it. A range never runs past the class's end.
static bool one_fits(const char *g, const char *end, char c, const char **next)
{
	if (*g == '[' && class_end(g, end))
		return in_class(g, (unsigned char)c, next);
	*next = g + 1;
	return *g == '?' || *g == c;
}

// Only the last '*' is ever taken back: what an earlier one could do, it can too.
static bool part_fits(struct str glob, struct str s)
{
	const char *g = glob.p, *end = glob.p + glob.n, *star = NULL, *next;
	size_t i = 0, from = 0;
	while (i < s.n) {
		if (g < end && *g == '*') {
			star = ++g;
			from = i;
		} else if (g < end && one_fits(g, end, s.p[i], &next)) {
			g = next;
			i++;
		} else if (star) {
			g = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (g < end && *g == '*')
		g++;
	return g == end;
}

static bool is_any_depth(struct str part)
{
	return str_is(part, "**");
}

static int split(const char *glob, struct str parts[GLOB_PARTS])
{
	struct str rest = str_of(glob), part;
	int n = 0;
	while (n < GLOB_PARTS && str_next(&rest, '/', &part))
		parts[n++] = part;
	return n;
}

// '**' may stand for nothing: where it is reached, what follows is reached as well. Not at the end: "a/**" is what lies
// below a, not a.
static uint64_t spread(const struct str *parts, int n, uint64_t at)
{
	for (int i = 0; i < n - 1; i++)
		if (at >> i & 1 && is_any_depth(parts[i]))
			at |= (uint64_t)1 << (i + 1);
	return at;
}

// Bit i of `at`: the first i parts of the glob are used up.
static uint64_t step(const struct str *parts, int n, uint64_t at, struct str part)
{
	uint64_t next = 0;
	for (int i = 0; i < n; i++) {
		if (!(at >> i & 1))
			continue;
		uint64_t here = (uint64_t)1 << i;
		if (is_any_depth(parts[i]))
			next |= i == n - 1 ? here | here << 1 : here;
		else if (part_fits(parts[i], part))
			next |= here << 1;
	}
	return spread(parts, n, next);
}

static enum glob_fit verdict(int n, uint64_t at)
{
	uint64_t whole = (uint64_t)1 << n;
	return at & whole ? GLOB_FITS : at ? GLOB_ABOVE : GLOB_NO;
}

enum glob_fit glob_fit(const char *glob, const char *path)
{
	struct str parts[GLOB_PARTS], rest = str_of(path), part;
	int n = split(glob, parts);
	uint64_t at = spread(parts, n, 1);
	while (*path && at && str_next(&rest, '/', &part))
		at = step(parts, n, at, part);
	return verdict(n, at);
}

bool glob_is_valid(const char *glob)
{
	struct str rest = str_of(glob), part;
	int n = 0;
	while (str_next(&rest, '/', &part))
		if (!part.n || str_is(part, ".") || str_is(part, "..") || ++n > GLOB_PARTS)
			return false;
	return n;
}

bool glob_is_literal(const char *glob)
{
	return !strpbrk(glob, "*?[");
}

static bool covers(const char *glob, const char *path)
{
	struct str parts[GLOB_PARTS], rest = str_of(path), part;
	int n = split(glob, parts);
	uint64_t at = spread(parts, n, 1);
	while (*path && at && str_next(&rest, '/', &part)) {
		at = step(parts, n, at, part);
		if (verdict(n, at) == GLOB_FITS)
			return true;
	}
	return false;
}

bool glob_covers(char *const *globs, const char *path)
{
	for (; globs && *globs; globs++)
		if (covers(*globs, path))
			return true;
	return false;
}

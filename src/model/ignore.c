// SPDX-License-Identifier: Apache-2.0
#include "model/ignore.h"

#include "base/mem.h"
#include <fnmatch.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 63 // of one pattern: a set of them is a bit mask

struct ignore_rule {
	char **parts;
	int n;
	bool taken_out, dirs_only, by_name; // by_name: fits in every directory below
};

// Spaces at the end do not count, but for one behind a backslash.
static size_t line_length(const char *line, size_t n)
{
	if (n && line[n - 1] == '\r')
		n--;
	while (n && line[n - 1] == ' ' && !(n > 1 && line[n - 2] == '\\'))
		n--;
	return n;
}

static bool rule_split(struct ignore_rule *r, char *pattern)
{
	char *save = NULL;
	r->parts = xcalloc(PARTS_MAX, sizeof *r->parts);
	for (char *part = strtok_r(pattern, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		if (r->n == PARTS_MAX)
			return false;
		r->parts[r->n++] = xstrdup(part);
	}
	return r->n > 0;
}

static void rule_done(struct ignore_rule *r)
{
	for (int i = 0; i < r->n; i++)
		free(r->parts[i]);
	free(r->parts);
}

static void rule_add(struct ignore *g, const char *line, size_t n)
{
	struct ignore_rule r = {0};
	n = line_length(line, n);
	if (!n || *line == '#' || memchr(line, 0, n))
		return;
	if (*line == '!') {
		r.taken_out = true;
		line++;
		n--;
	}
	if (n && line[n - 1] == '/') {
		r.dirs_only = true;
		n--;
	}
	auto_free char *pattern = xstrndup(line, n);
	r.by_name = !strchr(pattern, '/');
	if (!n || !rule_split(&r, pattern)) {
		rule_done(&r);
		return;
	}
	if (!(g->n & (g->n - 1)))
		g->rules = xrealloc(g->rules, (g->n ? g->n * 2 : 1) * sizeof *g->rules);
	g->rules[g->n++] = r;
}

void ignore_parse(struct ignore *out, const char *text, size_t n)
{
	const char *end = text + n;
	*out = (struct ignore){0};
	if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	while (text < end && out->n < IGNORE_RULES) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((stop ? stop : end) - text);
		rule_add(out, text, len);
		text += len + 1;
	}
}

void ignore_done(struct ignore *g)
{
	for (size_t i = 0; i < g->n; i++)
		rule_done(&g->rules[i]);
	free(g->rules);
	*g = (struct ignore){0};
}

// Bit i of a set: the first i parts of the pattern are used up. '**' may stand for nothing; at the end it does not, "a/**"
// is what lies below a.
static uint64_t set_spread(const struct ignore_rule *r, uint64_t at)
{
	for (int i = 0; i < r->n - 1; i++)
		if (at >> i & 1 && !strcmp(r->parts[i], "**"))
			at |= (uint64_t)1 << (i + 1);
	return at;
}

static uint64_t set_step(const struct ignore_rule *r, uint64_t at, const char *name)
{
	uint64_t next = 0;
	for (int i = 0; i < r->n; i++) {
		uint64_t here = (uint64_t)1 << i;
		if (!(at & here))
			continue;
		if (!strcmp(r->parts[i], "**"))
			next |= i == r->n - 1 ? here | here << 1 : here;
		else if (!fnmatch(r->parts[i], name, 0))
			next |= here << 1;
	}
	return set_spread(r, next);
}

static bool rule_fits(const struct ignore_rule *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (r->by_name)
		return !fnmatch(r->parts[0], slash ? slash + 1 : path, 0);
	auto_free char *copy = xstrdup(path);
	char *save = NULL;
	uint64_t at = set_spread(r, 1);
	for (char *part = strtok_r(copy, "/", &save); part && at; part = strtok_r(NULL, "/", &save))
		at = set_step(r, at, part);
	return at >> r->n & 1;
}

enum ignore_fit ignore_fit(const struct ignore *g, const char *path, bool is_dir)
{
	for (size_t i = g->n; i--;) {
		const struct ignore_rule *r = &g->rules[i];
		if ((r->dirs_only && !is_dir) || !rule_fits(r, path))
			continue;
		return r->taken_out ? IGNORE_NO : IGNORE_YES;
	}
	return IGNORE_SILENT;
}

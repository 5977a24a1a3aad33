// SPDX-License-Identifier: Apache-2.0
#include "model/jsonc.h"

#include <string.h>

struct jsonc {
	const char *p;
	size_t n;
	size_t last; // behind the last "*/": where none follows, "/*" starts no comment, and nobody has to look for its end
};

// Behind the string that starts at i.
static size_t string_end(const struct jsonc *j, size_t i)
{
	for (i++; i < j->n && j->p[i] != '"'; i++)
		i += j->p[i] == '\\';
	return i < j->n ? i + 1 : j->n;
}

// Behind the comment that starts at i; i itself when there is none. One that never ends is left for the reader to refuse.
static size_t comment_end(const struct jsonc *j, size_t i)
{
	const char *p = j->p;
	if (i + 1 >= j->n || p[i] != '/')
		return i;
	size_t k = i + 2;
	if (p[i + 1] == '/') {
		while (k < j->n && p[k] != '\n')
			k++;
		return k;
	}
	if (p[i + 1] != '*' || i + 4 > j->last)
		return i;
	while (p[k] != '*' || p[k + 1] != '/')
		k++;
	return k + 2;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The next byte that is neither blank nor comment, 0 at the end.
static char next_mark(const struct jsonc *j, size_t i)
{
	while (i < j->n) {
		size_t end = comment_end(j, i);
		if (end == i && !is_space(j->p[i]))
			return j->p[i];
		i = end > i ? end : i + 1;
	}
	return 0;
}

void jsonc_strip(const char *p, size_t n, struct buf *out)
{
	struct jsonc j = {p, n, 0};
	char before = 0; // a comma after nothing is no trailing one
	for (size_t i = n; i > 1 && !j.last; i--)
		j.last = p[i - 2] == '*' && p[i - 1] == '/' ? i : 0;
	for (size_t i = 0, end; i < n; i = end) {
		end = comment_end(&j, i);
		for (size_t k = i; k < end; k++)
			buf_byte(out, p[k] == '\n' ? '\n' : ' ');
		if (end > i)
			continue;
		end = p[i] == '"' ? string_end(&j, i) : i + 1;
		char follows = p[i] == ',' ? next_mark(&j, i + 1) : 0;
		if ((follows == '}' || follows == ']') && before && !strchr(",[{:", before))
			buf_byte(out, ' ');
		else
			buf_add(out, p + i, end - i);
		if (!is_space(p[i]))
			before = p[i];
	}
}

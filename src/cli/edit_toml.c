// SPDX-License-Identifier: Apache-2.0
// Line by line, with an eye on strings that span several. Tables written in another form are refused, not guessed at.
#include "base/mem.h"
#include "base/str.h"
#include "cli/edit.h"
#include <string.h>

#define FILE_MAX (4u << 20)

struct line {
	size_t at, end; // end: behind its newline
	struct str text; // without blanks around it
	bool inside; // it begins in a string of several lines
};

static struct str trimmed(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t'))
		p++, n--;
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r' || p[n - 1] == '\n'))
		n--;
	return (struct str){p, n};
}

static bool toggles(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i + 2 < s.n; i++)
		if (!memcmp(s.p + i, "\"\"\"", 3) || !memcmp(s.p + i, "'''", 3)) {
			n++;
			i += 2;
		}
	return n % 2;
}

static bool next_line(const struct buf *t, struct line *l)
{
	bool inside = l->inside != (l->end && toggles(l->text));
	if (l->end >= t->n)
		return false;
	const char *nl = memchr(t->p + l->end, '\n', t->n - l->end);
	l->at = l->end;
	l->end = nl ? (size_t)(nl - t->p) + 1 : t->n;
	l->text = trimmed(t->p + l->at, l->end - l->at);
	l->inside = inside;
	return true;
}

static bool is_header(const struct line *l)
{
	return !l->inside && l->text.n && l->text.p[0] == '[';
}

// The name of a table's header without blanks and quotes: [ a."b" ] is a.b.
static char *header_name(const struct line *l)
{
	auto_buf struct buf b = BUF_INIT(4096);
	const char *end = memchr(l->text.p, ']', l->text.n);
	for (const char *p = l->text.p + 1; p < (end ? end : l->text.p + l->text.n); p++)
		if (!strchr(" \t\"'", *p))
			buf_byte(&b, *p);
	return buf_take(&b);
}

static bool is_below(const char *name, const char *table)
{
	size_t n = strlen(table);
	return !strncmp(name, table, n) && (!name[n] || name[n] == '.');
}

static bool is_key(struct str s, const char *name)
{
	size_t n = strlen(name);
	return s.n > n && !memcmp(s.p, name, n) && strchr(" \t=.", s.p[n]);
}

// The same table in another form than ours: inline, or dotted.
static bool has_other_form(const struct buf *t, const char *table)
{
	struct line l = {0};
	const char *dot = strchr(table, '.');
	auto_free char *top = xstrndup(table, (size_t)(dot - table)), *in = xstrdup("");
	while (next_line(t, &l)) {
		if (is_header(&l)) {
			char *name = header_name(&l);
			mem_free_ptr(&in);
			in = name;
			continue;
		}
		if (!l.inside && ((!*in && is_key(l.text, top)) || (!strcmp(in, top) && is_key(l.text, dot + 1))))
			return true;
	}
	return false;
}

static bool find_table(const struct buf *t, const char *table, struct line *head)
{
	*head = (struct line){0};
	while (next_line(t, head)) {
		auto_free char *name = is_header(head) ? header_name(head) : NULL;
		if (name && !strcmp(name, table))
			return true;
	}
	return false;
}

static void splice(struct buf *text, size_t from, size_t to, const char *put)
{
	struct buf out = BUF_INIT(FILE_MAX);
	buf_add(&out, text->p, from);
	buf_str(&out, put);
	buf_add(&out, text->p + to, text->n - to);
	buf_done(text);
	*text = out;
}

// Behind a value that may be a list over several lines.
static size_t value_end(const struct buf *t, struct line *l)
{
	int depth = 0;
	do
		for (size_t i = 0; i < l->text.n; i++)
			depth += l->text.p[i] == '[' ? 1 : l->text.p[i] == ']' ? -1 : 0;
	while (depth > 0 && next_line(t, l));
	return l->end;
}

static enum edit set_key(struct buf *text, const char *table, const struct toml_key *k)
{
	struct line l;
	auto_free char *want = xasprintf("%s = %s\n", k->name, k->value);
	find_table(text, table, &l);
	size_t behind = l.end;
	while (next_line(text, &l) && !is_header(&l)) {
		if (l.inside || !is_key(l.text, k->name))
			continue;
		size_t at = l.at, end = value_end(text, &l);
		struct str now = trimmed(text->p + at, end - at), then = trimmed(want, strlen(want));
		if (now.n == then.n && !memcmp(now.p, then.p, now.n))
			return EDIT_SAME;
		splice(text, at, end, want);
		return EDIT_DONE;
	}
	splice(text, behind, behind, want);
	return EDIT_DONE;
}

enum edit toml_set(struct buf *text, const char *table, const struct toml_key *keys, struct err *e)
{
	struct line l;
	enum edit rc = EDIT_SAME;
	if (has_other_form(text, table)) {
		err_set(e, ERR_CONFLICT, "%s is written in another form there", table);
		return EDIT_FAILED;
	}
	if (find_table(text, table, &l)) {
		if (text->p[text->n - 1] != '\n')
			buf_byte(text, '\n');
		for (; keys->name; keys++)
			rc = set_key(text, table, keys) == EDIT_DONE ? EDIT_DONE : rc;
		return rc;
	}
	if (text->n)
		buf_str(text, text->p[text->n - 1] == '\n' ? "\n" : "\n\n");
	buf_fmt(text, "[%s]\n", table);
	for (; keys->name; keys++)
		buf_fmt(text, "%s = %s\n", keys->name, keys->value);
	return EDIT_DONE;
}

enum edit toml_remove(struct buf *text, const char *table, struct err *e)
{
	struct line l = {0};
	enum edit rc = EDIT_SAME;
	if (has_other_form(text, table)) {
		err_set(e, ERR_CONFLICT, "%s is written in another form there", table);
		return EDIT_FAILED;
	}
	struct buf out = BUF_INIT(FILE_MAX);
	bool ours = false;
	while (next_line(text, &l)) {
		auto_free char *name = is_header(&l) ? header_name(&l) : NULL;
		ours = name ? is_below(name, table) : ours;
		rc = ours ? EDIT_DONE : rc;
		if (!ours)
			buf_add(&out, text->p + l.at, l.end - l.at);
	}
	while (rc == EDIT_DONE && out.n > 1 && out.p[out.n - 1] == '\n' && out.p[out.n - 2] == '\n')
		out.p[--out.n] = 0; // the empty line that stood before it
	buf_done(text);
	*text = out;
	return rc;
}

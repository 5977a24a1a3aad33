// SPDX-License-Identifier: Apache-2.0
// A member put into, or taken out of, a JSON file that somebody wrote by hand: comments, order and white space stay.
#include "base/json.h"
#include "base/mem.h"
#include "cli/edit.h"
#include "model/jsonc.h"
#include <string.h>

#define FILE_MAX (4u << 20)

// The text, and the same with comments and trailing commas blanked: positions are the same in both.
struct doc {
	const struct buf *text;
	struct buf bare;
};

struct member {
	size_t key, value, end; // where it begins, where its value does, behind it
};

struct object {
	size_t open, close;
	struct member first, last, found;
	bool has_first, has_found;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(const struct doc *d, size_t i)
{
	while (i < d->bare.n && is_space(d->bare.p[i]))
		i++;
	return i;
}

static size_t skip_string(const struct doc *d, size_t i)
{
	for (i++; d->bare.p[i] != '"'; i++)
		i += d->bare.p[i] == '\\';
	return i + 1;
}

// The text was read before: it is whole.
static size_t skip_value(const struct doc *d, size_t i)
{
	int depth = 0;
	do {
		char c = d->bare.p[i];
		if (c == '"') {
			i = skip_string(d, i);
			continue;
		}
		depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
		i++;
	} while (depth || !strchr(",}] \t\r\n", d->bare.p[i]));
	return i;
}

static bool is_key(const struct doc *d, size_t from, size_t to, const char *name)
{
	struct err e;
	auto_buf struct buf list = BUF_INIT(to - from + 2);
	buf_byte(&list, '[');
	buf_add(&list, d->bare.p + from, to - from);
	buf_byte(&list, ']');
	auto_json json_t *j = json_read(list.p, list.n, &e);
	return j && !strcmp(json_string_value(json_array_get(j, 0)), name);
}

static struct object look(const struct doc *d, size_t open, const char *name)
{
	struct object o = {.open = open};
	size_t i = skip_space(d, open + 1);
	while (d->bare.p[i] != '}') {
		struct member m = {.key = i};
		size_t key_end = skip_string(d, i);
		m.value = skip_space(d, skip_space(d, key_end) + 1);
		m.end = skip_value(d, m.value);
		if (!o.has_first)
			o.first = m;
		o.has_first = true;
		o.last = m;
		if (!o.has_found && is_key(d, i, key_end, name)) {
			o.found = m;
			o.has_found = true;
		}
		i = skip_space(d, m.end);
		if (d->bare.p[i] == ',')
			i = skip_space(d, i + 1);
	}
	o.close = i;
	return o;
}

static int doc_read(struct doc *d, struct err *e)
{
	d->bare = BUF_INIT(FILE_MAX);
	jsonc_strip(d->text->p, d->text->n, &d->bare);
	if (d->bare.overflow || d->bare.n != d->text->n)
		return err_set(e, ERR_LIMIT, "it is too long");
	auto_json json_t *j = json_read(d->bare.p, d->bare.n, e);
	if (!j)
		return -1;
	return json_is_object(j) ? 0 : err_set(e, ERR_INVALID, "it is no JSON object");
}

// --- what is put in ---

static size_t line_start(const struct doc *d, size_t i)
{
	while (i && d->text->p[i - 1] != '\n')
		i--;
	return i;
}

static char *indent_at(const struct doc *d, size_t i)
{
	size_t from = line_start(d, i), n = strspn(d->text->p + from, " \t");
	return xstrndup(d->text->p + from, n < i - from ? n : i - from);
}

static void splice(struct buf *text, size_t from, size_t to, const struct buf *put)
{
	struct buf out = BUF_INIT(FILE_MAX);
	buf_add(&out, text->p, from);
	buf_add(&out, put->p, put->n);
	buf_add(&out, text->p + to, text->n - to);
	buf_done(text);
	*text = out;
}

static void put_member(struct buf *b, const char *const *path, const char *value, const char *indent, const char *unit)
{
	buf_fmt(b, "\"%s\": ", *path);
	if (!path[1]) {
		buf_str(b, value);
		return;
	}
	auto_free char *deeper = xasprintf("%s%s", indent, unit);
	buf_fmt(b, "{\n%s", deeper);
	put_member(b, path + 1, value, deeper, unit);
	buf_fmt(b, "\n%s}", indent);
}

// A comma stands behind the last member already.
static bool has_comma(const struct doc *d, const struct object *o)
{
	const char *p = d->text->p;
	for (size_t i = o->last.end; i < o->close; i++) {
		if (p[i] == ',')
			return true;
		if (p[i] == '/' && p[i + 1] == '/')
			while (i < o->close && p[i] != '\n')
				i++;
		else if (p[i] == '/' && p[i + 1] == '*')
			while (i < o->close && (p[i] != '*' || p[i + 1] != '/'))
				i++;
	}
	return false;
}

static void insert(struct buf *text, const struct doc *d, const struct object *o, const char *const *path, const char *value)
{
	auto_buf struct buf put = BUF_INIT(FILE_MAX);
	auto_free char *outer = indent_at(d, o->open), *unit = NULL, *indent = NULL;
	bool own_line = o->has_first && line_start(d, o->first.key) > o->open;
	indent = own_line ? indent_at(d, o->first.key) : xasprintf("%s%s", outer, strchr(outer, '\t') ? "\t" : "  ");
	if (o->has_first && !path[1] && line_start(d, o->close) <= o->open && !has_comma(d, o)) { // all of it on one line
		buf_str(&put, ", ");
		put_member(&put, path, value, "", "");
		splice(text, o->last.end, o->last.end, &put);
		return;
	}
	size_t n = strlen(outer);
	unit = xstrdup(strlen(indent) > n && !strncmp(indent, outer, n) ? indent + n : "  ");
	size_t at = o->has_first ? o->last.end : o->open + 1;
	buf_fmt(&put, "%s\n%s", o->has_first && !has_comma(d, o) ? "," : "", indent);
	if (o->has_first && has_comma(d, o))
		at = (size_t)(strchr(d->text->p + at, ',') - d->text->p) + 1;
	put_member(&put, path, value, indent, unit);
	if (line_start(d, o->close) <= (o->has_first ? o->last.end : o->open)) // it closes on the same line
		buf_fmt(&put, "\n%s", outer);
	splice(text, at, at, &put);
}

static bool same(const struct doc *d, const struct member *m, const char *value)
{
	struct err e;
	auto_buf struct buf a = BUF_INIT(FILE_MAX), b = BUF_INIT(FILE_MAX), one = BUF_INIT(FILE_MAX), other = BUF_INIT(FILE_MAX);
	buf_byte(&a, '[');
	buf_add(&a, d->bare.p + m->value, m->end - m->value);
	buf_byte(&a, ']');
	buf_fmt(&b, "[%s]", value);
	auto_json json_t *x = json_read(a.p, a.n, &e), *y = json_read(b.p, b.n, &e);
	if (!x || !y)
		return false;
	json_print(&one, x, 0);
	json_print(&other, y, 0);
	return !strcmp(buf_cstr(&one), buf_cstr(&other));
}

// Where path leads as far as it goes. True: to a member; else *o is the object in which **path is missing.
static bool follow(const struct doc *d, const char *const **path, struct object *o)
{
	*o = look(d, skip_space(d, 0), **path);
	while (o->has_found && (*path)[1] && d->bare.p[o->found.value] == '{') {
		++*path;
		*o = look(d, o->found.value, **path);
	}
	return o->has_found;
}

enum edit jsonc_set(struct buf *text, const char *const *path, const char *value, struct err *e)
{
	struct doc d = {.text = text};
	struct object o;
	enum edit rc = EDIT_DONE;
	if (!text->n)
		buf_str(text, "{\n}\n");
	if (doc_read(&d, e)) {
		buf_done(&d.bare);
		return EDIT_FAILED;
	}
	bool found = follow(&d, &path, &o);
	if (found && path[1]) {
		err_set(e, ERR_CONFLICT, "\"%s\" is no object there", *path);
		rc = EDIT_FAILED;
	} else if (found && same(&d, &o.found, value)) {
		rc = EDIT_SAME;
	} else if (found) {
		auto_buf struct buf put = BUF_INIT(FILE_MAX);
		buf_str(&put, value);
		splice(text, o.found.value, o.found.end, &put);
	} else {
		insert(text, &d, &o, path, value);
	}
	buf_done(&d.bare);
	if (rc == EDIT_DONE) { // nobody gets a broken file from us
		d = (struct doc){.text = text};
		rc = doc_read(&d, e) ? EDIT_FAILED : EDIT_DONE;
		buf_done(&d.bare);
	}
	return rc;
}

static size_t comma_before(const struct doc *d, size_t i)
{
	while (i && d->bare.p[i] != ',')
		i--;
	return i;
}

enum edit jsonc_remove(struct buf *text, const char *const *path, struct err *e)
{
	struct doc d = {.text = text};
	struct object o;
	static const struct buf none;
	if (!text->n)
		return EDIT_SAME;
	if (doc_read(&d, e)) {
		buf_done(&d.bare);
		return EDIT_FAILED;
	}
	bool found = follow(&d, &path, &o) && !path[1];
	if (found) {
		size_t from = o.found.key, to = o.found.end, next = skip_space(&d, to);
		bool last = o.found.end == o.last.end, first = o.found.key == o.first.key;
		to = d.bare.p[next] == ',' ? next + 1 : to;
		if (line_start(&d, from) == from - strspn(text->p + line_start(&d, from), " \t"))
			from = line_start(&d, from);
		if (from == line_start(&d, from) && to < text->n && text->p[to] == '\n')
			to++;
		splice(text, from, to, &none);
		if (last && !first) {
			size_t comma = comma_before(&d, o.found.key);
			splice(text, comma, comma + 1, &none);
		}
	}
	buf_done(&d.bare);
	return found ? EDIT_DONE : EDIT_SAME;
}

bool jsonc_has(const struct buf *text, const char *const *path)
{
	struct doc d = {.text = text};
	struct err e;
	struct object o;
	bool found = text->n && !doc_read(&d, &e) && follow(&d, &path, &o) && !path[1];
	buf_done(&d.bare);
	return found;
}

bool jsonc_is_empty(const struct buf *text)
{
	for (size_t i = 0; i < text->n; i++)
		if (text->p[i] == '/') // somebody's comment
			return false;
	struct err e;
	auto_buf struct buf bare = BUF_INIT(FILE_MAX);
	jsonc_strip(text->p, text->n, &bare);
	auto_json json_t *j = json_read(buf_cstr(&bare), bare.n, &e);
	const json_t *v = json_first(j, JSON_OBJECT);
	return json_is_object(j) && (!v || (!json_next(v) && json_is_object(v) && !json_object_size(v)));
}

// SPDX-License-Identifier: Apache-2.0
// The tree is one block, sized by a count before it is read, so nothing in it ever moves: first the values in the
// order of the text (what a list or an object holds begins right behind it), then the strings, which are never longer
// decoded than they were with their quotes. There is no recursion for the input to drive: as long as a list or an
// object is open, its `next` is the distance back to the one that holds it.
#include "base/json_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (128u << 20) // keeps every distance in 32 bits
#define FEW_KEYS 24	       // up to here each with each is faster than sorting

struct reader {
	const char *start, *p, *end;
	json_t *v;    // next free value
	char *s;      // next free byte for strings
	json_t *box;  // innermost list or object that is open
	json_t *last; // newest value in it, or NULL
	unsigned depth;
	struct err *e;
};

static int bad(const struct reader *r, const char *why)
{
	return err_set(r->e, ERR_INVALID, "not JSON: %s at byte %zu", r->p < r->end ? why : "the text ends too early",
		       (size_t)(r->p - r->start));
}

static int peek(const struct reader *r)
{
	return r->p < r->end ? (unsigned char)*r->p : -1;
}

// The next byte that is not blank, not yet taken; -1 at the end.
static int skip(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
		r->p++;
	return peek(r);
}

static void put_utf8(struct reader *r, uint32_t c)
{
	static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
	unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	*r->s++ = (char)(lead[more] | c >> 6 * more);
	while (more--)
		*r->s++ = (char)(0x80 | (c >> 6 * more & 0x3f));
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "uXXXX" at p: its number, or -1.
static int32_t code_unit(struct reader *r)
{
	int32_t c = 0;
	if (r->end - r->p < 5 || *r->p != 'u')
		return -1;
	for (int i = 1; i <= 4; i++) {
		int v = hex(r->p[i]);
		if (v < 0)
			return -1;
		c = c << 4 | v;
	}
	r->p += 5;
	return c;
}

static int read_unicode(struct reader *r)
{
	int32_t c = code_unit(r), low;
	if (c <= 0)
		return bad(r, c ? "not an escape" : "a string with \\u0000");
	if (c >= 0xd800 && c <= 0xdfff) {
		if (c > 0xdbff || peek(r) != '\\')
			return bad(r, "half a surrogate pair");
		r->p++;
		low = code_unit(r);
		if (low < 0xdc00 || low > 0xdfff)
			return bad(r, "half a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	put_utf8(r, (uint32_t)c);
	return 0;
}

static int read_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	r->p++;
	int c = peek(r);
	if (c == 'u')
		return read_unicode(r);
	const char *at = c > 0 ? strchr(from, c) : NULL;
	if (!at)
		return bad(r, "not an escape");
	*r->s++ = to[at - from];
	r->p++;
	return 0;
}

static int read_string(struct reader *r, const char **out)
{
	*out = r->s;
	r->p++;
	while (peek(r) != '"') {
		if (peek(r) < 0x20)
			return bad(r, "a control character in a string");
		if (*r->p != '\\')
			*r->s++ = *r->p++;
		else if (read_escape(r))
			return -1;
	}
	r->p++;
	*r->s++ = 0;
	return 0;
}

static bool digits(struct reader *r)
{
	const char *from = r->p;
	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return r->p > from;
}

static int take_whole(struct reader *r, json_t *v, const char *from)
{
	bool minus = *from == '-', over = false;
	int64_t n = 0;
	for (const char *p = from + minus; p < r->p && !over; p++) {
		int d = minus ? '0' - *p : *p - '0';
		over = __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, d, &n);
	}
	v->type = JSON_INTEGER;
	v->whole = n;
	return over ? bad(r, "a number too large") : 0;
}

static int take_real(struct reader *r, json_t *v, const char *from)
{
	// a C string for strtod, in room that later strings may have
	size_t n = (size_t)(r->p - from);
	memcpy(r->s, from, n);
	r->s[n] = 0;
	v->type = JSON_REAL;
	v->real = strtod(r->s, NULL); // none of our programs sets a locale
	return isinf(v->real) ? bad(r, "a number too large") : 0;
}

static int read_number(struct reader *r, json_t *v)
{
	const char *from = r->p;
	if (peek(r) == '-')
		r->p++;
	if (peek(r) == '0')
		r->p++;
	else if (!digits(r))
		return bad(r, "not a value");
	bool point = peek(r) == '.';
	if (point) {
		r->p++;
		if (!digits(r))
			return bad(r, "a number without its digits");
	}
	bool power = peek(r) == 'e' || peek(r) == 'E';
	if (power) {
		r->p++;
		if (peek(r) == '+' || peek(r) == '-')
			r->p++;
		if (!digits(r))
			return bad(r, "a number without its digits");
	}
	return point || power ? take_real(r, v, from) : take_whole(r, v, from);
}

static int read_word(struct reader *r, json_t *v, const char *word, enum json_type type)
{
	size_t n = strlen(word);
	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n))
		return bad(r, "not a value");
	r->p += n;
	v->type = type;
	return 0;
}

static int open_box(struct reader *r, json_t *v, enum json_type type)
{
	if (r->depth == JSON_DEPTH)
		return bad(r, "too many levels");
	r->p++;
	v->type = type;
	v->next = r->depth++ ? (uint32_t)(v - r->box) : 0;
	r->box = v;
	r->last = NULL;
	return 0;
}

// A list or an object is only opened.
static int read_value(struct reader *r, json_t *v)
{
	switch (skip(r)) {
	case '{':
		return open_box(r, v, JSON_OBJECT);
	case '[':
		return open_box(r, v, JSON_ARRAY);
	case '"':
		v->type = JSON_STRING;
		return read_string(r, &v->text);
	case 't':
		return read_word(r, v, "true", JSON_TRUE);
	case 'f':
		return read_word(r, v, "false", JSON_FALSE);
	case 'n':
		return read_word(r, v, "null", JSON_NULL);
	default:
		return read_number(r, v);
	}
}

// Makes v the newest of what is open, and reads its key if that is an object.
static int join(struct reader *r, json_t *v)
{
	if (!r->depth)
		return 0;
	if (r->last)
		r->last->next = (uint32_t)(v - r->last);
	r->last = v;
	r->box->n++;
	if (r->box->type == JSON_ARRAY)
		return 0;
	if (skip(r) != '"')
		return bad(r, "a key is missing");
	if (read_string(r, &v->key))
		return -1;
	if (skip(r) != ':')
		return bad(r, "':' is missing");
	r->p++;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Sorted, so that a hostile object of a hundred thousand keys costs no more than its size.
static bool has_twice_sorted(const json_t *o)
{
	auto_free const char **keys = xcalloc(o->n, sizeof *keys);
	size_t n = 0;
	for (const json_t *v = json_first(o, JSON_OBJECT); v; v = json_next(v))
		keys[n++] = v->key;
	qsort(keys, n, sizeof *keys, by_text);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(keys[i - 1], keys[i]))
			return true;
	return false;
}

static bool has_twice(const json_t *o)
{
	if (o->n > FEW_KEYS)
		return has_twice_sorted(o);
	for (const json_t *v = json_first(o, JSON_OBJECT); v; v = json_next(v))
		for (const json_t *w = json_next(v); w; w = json_next(w))
			if (!strcmp(v->key, w->key))
				return true;
	return false;
}

static bool at_close(struct reader *r)
{
	return skip(r) == (r->box->type == JSON_OBJECT ? '}' : ']');
}

static int close_box(struct reader *r)
{
	json_t *box = r->box;
	if (box->type == JSON_OBJECT && has_twice(box))
		return bad(r, "a key given twice");
	r->p++;
	r->depth--;
	r->box = box - box->next;
	r->last = box;
	box->next = 0;
	return 0;
}

static int read_tree(struct reader *r)
{
	do {
		json_t *v = r->v++;
		if (join(r, v) || read_value(r, v))
			return -1;
		bool opened = v->type >= JSON_ARRAY;
		while (r->depth && at_close(r)) {
			if (close_box(r))
				return -1;
			opened = false;
		}
		if (opened || !r->depth)
			continue;
		if (peek(r) != ',')
			return bad(r, "',' or a closing bracket is missing");
		r->p++;
	} while (r->depth);
	return skip(r) < 0 ? 0 : bad(r, "something behind the value");
}

// No more values than this: each but the first stands behind a bracket or a comma.
static size_t most_values(const char *p, size_t n)
{
	size_t most = 1;
	for (size_t i = 0; i < n; i++)
		most += p[i] == ',' || p[i] == '[' || p[i] == '{';
	return most;
}

static bool is_ascii(const char *p, size_t n)
{
	char all = 0;
	for (size_t i = 0; i < n; i++)
		all |= p[i];
	return !(all & 0x80);
}

json_t *json_read(const char *p, size_t n, struct err *e)
{
	struct reader r = {.start = p, .p = p, .end = p + n, .e = e};
	if (n > MAX_BYTES) {
		err_set(e, ERR_INVALID, "not JSON: longer than %u bytes", MAX_BYTES);
		return NULL;
	}
	if (skip(&r) != '{' && skip(&r) != '[') {
		bad(&r, "neither an object nor a list");
		return NULL;
	}
	if (!is_ascii(p, n) && !str_is_utf8(p, n)) { // of the whole: outside of strings the grammar has only ASCII
		err_set(e, ERR_INVALID, "not JSON: not UTF-8");
		return NULL;
	}
	size_t most = most_values(p, n);
	auto_json json_t *root = xcalloc(1, most * sizeof *root + n + 1);
	r.v = root;
	r.s = (char *)(root + most);
	return read_tree(&r) ? NULL : take(&root);
}

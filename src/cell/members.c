// SPDX-License-Identifier: Apache-2.0
// A reader that keeps nothing: it only finds out whether the text is what it should be. Strict as RFC 8259.
#include "cell/members.h"

#include "base/mem.h"
#include <string.h>

#define DEPTH 8

struct text {
	const char *p, *end;
};

static bool take_byte(struct text *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool skip_escape(struct text *t)
{
	if (t->p == t->end)
		return false;
	char c = *t->p++;
	if (c != 'u')
		return c && strchr("\"\\/bfnrt", c);
	for (int i = 0; i < 4; i++, t->p++)
		if (t->p == t->end || !is_hex(*t->p))
			return false;
	return true;
}

static bool skip_string(struct text *t)
{
	if (!take_byte(t, '"'))
		return false;
	while (t->p < t->end) {
		unsigned char c = (unsigned char)*t->p++;
		if (c == '"')
			return true;
		if (c < 0x20 || (c == '\\' && !skip_escape(t)))
			return false;
	}
	return false;
}

static size_t skip_digits(struct text *t)
{
	const char *from = t->p;
	while (t->p < t->end && *t->p >= '0' && *t->p <= '9')
		t->p++;
	return (size_t)(t->p - from);
}

static bool skip_number(struct text *t)
{
	take_byte(t, '-');
	if (!take_byte(t, '0') && !skip_digits(t))
		return false;
	if (take_byte(t, '.') && !skip_digits(t))
		return false;
	if (!take_byte(t, 'e') && !take_byte(t, 'E'))
		return true;
	if (!take_byte(t, '+'))
		take_byte(t, '-');
	return skip_digits(t) > 0;
}

static bool skip_word(struct text *t)
{
	static const char *const words[] = {"true", "false", "null"};
	for (size_t i = 0; i < countof(words); i++) {
		size_t n = strlen(words[i]);
		if ((size_t)(t->end - t->p) >= n && !memcmp(t->p, words[i], n)) {
			t->p += n;
			return true;
		}
	}
	return false;
}

static bool skip_list(struct text *t, char close, int depth);

static bool skip_value(struct text *t, int depth)
{
	if (t->p == t->end || depth > DEPTH)
		return false;
	switch (*t->p) {
	case '"':
		return skip_string(t);
	case '{':
	case '[': {
		char close = *t->p++ == '{' ? '}' : ']';
		return take_byte(t, close) || (skip_list(t, close, depth + 1) && take_byte(t, close));
	}
	default:
		return skip_word(t) || skip_number(t);
	}
}

// What the journal itself says of every event.
static bool is_taken(const char *name, size_t n)
{
	static const char *const taken[] = {"\"seq\"", "\"time\"", "\"prev\"", "\"type\"", "\"by\""};
	if (memchr(name, '\\', n))
		return true; // a name in disguise
	for (size_t i = 0; i < countof(taken); i++)
		if (n == strlen(taken[i]) && !memcmp(name, taken[i], n))
			return true;
	return false;
}

// Values, or with '}' members, up to what closes them.
static bool skip_list(struct text *t, char close, int depth)
{
	do {
		const char *name = t->p;
		if (close == '}' &&
		    (!skip_string(t) || (!depth && is_taken(name, (size_t)(t->p - name))) || !take_byte(t, ':')))
			return false;
		if (!skip_value(t, depth))
			return false;
	} while (take_byte(t, ','));
	return true;
}

bool members_are_fit(const char *p, size_t n)
{
	struct text t = {p, p + n};
	return !n || (skip_list(&t, '}', 0) && t.p == t.end);
}

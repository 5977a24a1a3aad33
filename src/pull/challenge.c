// SPDX-License-Identifier: Apache-2.0
// A list of challenges and a list of parameters are both separated by commas. A word followed by "=" is a parameter of
// the scheme before it, any other word begins a new scheme.
#include "pull/challenge.h"

#include "base/mem.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VALUE_MAX 4096

enum challenge_scheme { SCHEME_OTHER, SCHEME_BASIC, SCHEME_BEARER };

void pull_challenge_done(struct pull_challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct pull_challenge){0};
}

static bool challenge_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static const char *challenge_space(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

// Behind the value, which is a quoted string or a word; NULL: malformed. Printable ASCII only.
static const char *challenge_value(const char *p, char out[VALUE_MAX])
{
	size_t n = 0;
	bool quoted = *p == '"';
	p += quoted;
	while (*p && n + 1 < VALUE_MAX) {
		if (quoted ? *p == '"' : !challenge_char(*p))
			break;
		if (quoted && *p == '\\' && p[1])
			p++;
		if (*p < 0x20 || *p > 0x7e)
			return NULL;
		out[n++] = *p++;
	}
	out[n] = 0;
	if (quoted)
		return *p == '"' ? p + 1 : NULL;
	return n ? p : NULL;
}

static void challenge_keep(struct pull_challenge *c, const char *name, size_t n, const char *value)
{
	const struct {
		const char *name;
		char **to;
	} known[] = {{"realm", &c->realm}, {"service", &c->service}, {"scope", &c->scope}};
	for (size_t i = 0; i < countof(known); i++)
		if (strlen(known[i].name) == n && !strncasecmp(name, known[i].name, n) && !*known[i].to)
			*known[i].to = xstrdup(value);
}

static enum challenge_scheme challenge_scheme_of(const char *word, size_t n)
{
	if (n == 5 && !strncasecmp(word, "basic", n))
		return SCHEME_BASIC;
	if (n == 6 && !strncasecmp(word, "bearer", n))
		return SCHEME_BEARER;
	return SCHEME_OTHER;
}

void pull_challenge_add(struct pull_challenge *c, const char *value)
{
	enum challenge_scheme scheme = SCHEME_OTHER;
	char text[VALUE_MAX];
	const char *p = value;
	for (;;) {
		while (*p == ',' || *p == ' ' || *p == '\t')
			p++;
		const char *word = p;
		while (challenge_char(*p))
			p++;
		size_t n = (size_t)(p - word);
		if (!n)
			return;
		const char *behind = challenge_space(p);
		if (*behind != '=') {
			scheme = challenge_scheme_of(word, n);
			c->basic |= scheme == SCHEME_BASIC;
			c->bearer |= scheme == SCHEME_BEARER;
			continue;
		}
		p = challenge_value(challenge_space(behind + 1), text);
		if (!p)
			return;
		if (scheme == SCHEME_BEARER)
			challenge_keep(c, word, n, text);
	}
}

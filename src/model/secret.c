// SPDX-License-Identifier: Apache-2.0
// Secrets as a policy names them, and their values on the way to the gate.
#include "model/policy_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KEY_TEXT 64
#define PLACEHOLDER_MIN 16 // shorter ones could stand in a request by chance
#define PLACEHOLDER_MAX 128

static const char *const as_names[] = {"header", "bearer", "basic", "query", "git", "file", "ssh", "set"};
static_assert(countof(as_names) == SECRET_AS, "a name per place");

// Headers that say where a request goes or where it ends: a value there would not be a credential.
static const char *const not_headers[] = {
	"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive",
};

const char *secret_as_name(enum secret_as as)
{
	return as < SECRET_AS ? as_names[as] : "?";
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_made_of(const char *s, const char *beside_alnum, size_t min, size_t max)
{
	size_t n = 0;
	while (s[n] && n <= max && (is_alnum(s[n]) || strchr(beside_alnum, s[n])))
		n++;
	return !s[n] && n >= min && n <= max;
}

bool secret_name_is(const char *s)
{
	return is_made_of(s, "_", 1, KEY_TEXT) && !(s[0] >= '0' && s[0] <= '9');
}

static bool is_header(const char *s)
{
	for (size_t i = 0; i < countof(not_headers); i++)
		if (!strcasecmp(s, not_headers[i]))
			return false;
	return is_made_of(s, "!#$%&'*+-.^_`|~", 1, KEY_TEXT);
}

static bool key_fits(enum secret_as as, const char *key)
{
	if (as == SECRET_HEADER || as == SECRET_SET)
		return key && is_header(key);
	if (as == SECRET_QUERY)
		return key && is_made_of(key, "-._~", 1, KEY_TEXT);
	return as < SECRET_AS && !key;
}

int secret_as_parse(const char *s, enum secret_as *out, char **out_key, struct err *e)
{
	const char *colon = strchr(s, ':');
	struct str name = {s, colon ? (size_t)(colon - s) : strlen(s)};
	for (int as = 0; as < SECRET_AS; as++) {
		if (!str_is(name, as_names[as]))
			continue;
		if (!key_fits(as, colon ? colon + 1 : NULL))
			return err_set(e, ERR_INVALID,
				       "header, set and query take a name, as header:X-Api-Key; the others none");
		*out = as;
		*out_key = colon ? xstrdup(colon + 1) : NULL;
		return 0;
	}
	return err_set(e, ERR_INVALID, "a secret goes as header:NAME, set:NAME, bearer, basic, query:NAME, git, file or ssh");
}

void secret_ref_done(struct secret_ref *s)
{
	free(s->name);
	free(s->key);
	free(s->placeholder);
	*s = (struct secret_ref){0};
}

bool secret_ref_is_plain(const struct secret_ref *s)
{
	return str_has_prefix(s->placeholder, PLACEHOLDER_PLAIN);
}

static int check_ref(const struct policy *p, const struct secret_ref *s, struct err *e)
{
	if (p->n_secrets >= POLICY_SECRETS)
		return err_set(e, ERR_LIMIT, "a policy has at most %d secrets", POLICY_SECRETS);
	if (!s->name || !secret_name_is(s->name) || !s->host.s[0] || !key_fits(s->as, s->key) || (s->wildcard && s->as != SECRET_SET))
		return err_set(e, ERR_INVALID, "malformed secret in a policy");
	if (!s->placeholder || !is_made_of(s->placeholder, "_", PLACEHOLDER_MIN, PLACEHOLDER_MAX))
		return err_set(e, ERR_INVALID, "malformed placeholder of secret %s", s->name);
	return 0;
}

int policy_add_secret(struct policy *p, struct secret_ref *s, struct err *e)
{
	if (check_ref(p, s, e)) {
		secret_ref_done(s);
		return -1;
	}
	p->secrets = xrealloc(p->secrets, (p->n_secrets + 1) * sizeof *p->secrets);
	p->secrets[p->n_secrets++] = *s;
	*s = (struct secret_ref){0};
	return 0;
}

void secrets_write(struct buf *b, const struct secret_value *v, size_t n, const char *ca_key)
{
	wire_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		wire_str(b, v[i].name);
		wire_str(b, v[i].placeholder);
		wire_bytes(b, v[i].value, v[i].n);
	}
	wire_str(b, ca_key);
}

static int value_read(struct wire *w, struct secret_value *v, struct err *e)
{
	const uint8_t *p;
	v->name = wire_get_str(w);
	v->placeholder = wire_get_str(w);
	p = wire_get_bytes(w, &v->n);
	if (!p || !v->name || !secret_name_is(v->name) || !v->placeholder ||
	    !is_made_of(v->placeholder, "_", PLACEHOLDER_MIN, PLACEHOLDER_MAX))
		return err_set(e, ERR_INVALID, "malformed secrets");
	v->value = xcalloc(1, v->n + 1);
	memcpy(v->value, p, v->n);
	return 0;
}

int secrets_read(const void *p, size_t size, struct secrets *out, struct err *e)
{
	struct wire w = {p, size, false};
	struct secrets s = {0};
	uint32_t n = wire_get_u32(&w);
	*out = s;
	if (n > POLICY_SECRETS)
		return err_set(e, ERR_LIMIT, "more than %d secrets", POLICY_SECRETS);
	s.v = xcalloc(n + 1, sizeof *s.v);
	for (; s.n < n; s.n++)
		if (value_read(&w, &s.v[s.n], e)) {
			s.n++;
			secrets_done(&s);
			return -1;
		}
	s.ca_key = wire_get_str(&w);
	if (!s.ca_key || w.bad || w.n) {
		secrets_done(&s);
		return err_set(e, ERR_INVALID, "malformed secrets");
	}
	*out = s;
	return 0;
}

void secrets_done(struct secrets *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct secret_value *v = &s->v[i];
		if (v->value)
			explicit_bzero(v->value, v->n);
		free(v->value);
		free(v->name);
		free(v->placeholder);
	}
	if (s->ca_key)
		explicit_bzero(s->ca_key, strlen(s->ca_key));
	free(s->ca_key);
	free(s->v);
	*s = (struct secrets){0};
}

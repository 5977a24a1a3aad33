// SPDX-License-Identifier: Apache-2.0
#include "model/access.h"

#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <string.h>

static const char *const scopes[] = {
	[SCOPE_OPEN] = "open",	     [SCOPE_READ] = "read",   [SCOPE_RUN] = "run",
	[SCOPE_REVIEW] = "review", [SCOPE_ADMIN] = "admin", [SCOPE_LOCAL] = "local",
};
static_assert(countof(scopes) == SCOPES, "a name per scope");

const char *scope_name(enum scope s)
{
	return s < SCOPES ? scopes[s] : "none";
}

int scope_of_name(const char *name)
{
	for (int i = SCOPE_READ; i <= SCOPE_ADMIN; i++)
		if (!strcmp(scopes[i], name))
			return i;
	return -1;
}

int on_parse(const char *text, enum on_kind *out, const char **out_value, struct err *e)
{
	static const char label[] = "label=";
	if (!strcmp(text, "all")) {
		*out = ON_ALL;
		*out_value = "";
		return 0;
	}
	if (str_has_prefix(text, label)) {
		const char *kv = text + strlen(label), *eq = strchr(kv, '=');
		if (!eq || eq == kv || strlen(kv) > 200)
			return err_set(e, ERR_INVALID, "a label is label=KEY=VALUE, at most 200 bytes");
		*out = ON_LABEL;
		*out_value = kv;
		return 0;
	}
	if (!*text || strlen(text) > 40)
		return err_set(e, ERR_INVALID, "\"%.40s\" is none of all, label=K=V and a sandbox", text);
	*out = ON_SANDBOX;
	*out_value = text;
	return 0;
}

const char *token_digits(const char *text)
{
	static const char *const prefixes[] = {"skep_", "e2b_", "sk_e2b_"};
	for (size_t i = 0; i < countof(prefixes); i++)
		if (str_has_prefix(text, prefixes[i])) {
			const char *d = text + strlen(prefixes[i]);
			return strlen(d) == TOKEN_DIGITS && strspn(d, "0123456789abcdef") == TOKEN_DIGITS ? d : NULL;
		}
	return NULL;
}

void token_of_sandbox(const char *id, const unsigned char proof[16], char out[TOKEN_SIZE])
{
	assert(strlen(id) == 16);
	memcpy(out, "skep_", 5);
	str_hex(out + 5, id, 16);
	str_hex(out + 5 + 32, proof, 16);
}

static int nibble(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

bool token_sandbox(const char *digits, char out_id[17])
{
	for (int i = 0; i < 16; i++)
		out_id[i] = (char)(nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]));
	out_id[16] = 0;
	return strlen(out_id) == 16 && id_is(out_id);
}

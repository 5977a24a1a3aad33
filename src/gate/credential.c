// SPDX-License-Identifier: Apache-2.0
#include "gate/credential.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

#define KEY_MAX 64 // longer ones are no names that a service would know

static bool has_one_of(const char *name, const char *const *parts)
{
	for (; *parts; parts++)
		if (strcasestr(name, *parts))
			return true;
	return false;
}

bool credential_is_field(const char *name)
{
	static const char *const parts[] = {"authorization", "token",  "api-key",    "api_key",	 "apikey", "access-key",
					    "x-auth",	     "secret", "credential", "password", NULL};
	static const char *const state[] = {"continuation", "page", "cursor", "csrf", "xsrf", NULL}; // where one was, not who one is
	return has_one_of(name, parts) && !has_one_of(name, state);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

// As a server reads it; a bad escape stands for itself.
static void decode(struct str key, char out[KEY_MAX + 1])
{
	size_t n = 0;
	for (size_t i = 0; i < key.n && n < KEY_MAX; i++) {
		bool escape = key.p[i] == '%' && i + 2 < key.n && digit(key.p[i + 1]) >= 0 && digit(key.p[i + 2]) >= 0;
		out[n++] = escape ? (char)(digit(key.p[i + 1]) << 4 | digit(key.p[i + 2])) : key.p[i];
		i += escape ? 2 : 0;
	}
	out[n] = 0;
}

bool credential_key_is(struct str key, const char *name)
{
	char plain[KEY_MAX + 1];
	decode(key, plain);
	return !strcmp(plain, name);
}

bool credential_is_query(struct str key)
{
	static const char *const names[] = {"access_token", "accesstoken", "private_token", "job_token", "auth_token",    "authtoken",
					    "oauth_token",  "api_key",	   "api-key",	    "apikey",	 "client_secret", "password",
					    "token",	    "api_token",   "apitoken",	    "access-token", "bearer_token", "x-api-key"};
	char plain[KEY_MAX + 1];
	decode(key, plain);
	for (size_t i = 0; i < countof(names); i++)
		if (!strcasecmp(plain, names[i]))
			return true;
	return false;
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/repo_url.h"

#include "base/mem.h"
#include "base/str.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const schemes[] = {"https", "http", "ssh", "git", "file"};

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "not a repository URL: %s; use https://, ssh://, git://, file:// or host:path",
		       why);
}

static const char *known_scheme(struct str s)
{
	for (size_t i = 0; i < countof(schemes); i++)
		if (s.n == strlen(schemes[i]) && !strncasecmp(s.p, schemes[i], s.n))
			return schemes[i];
	return NULL;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

// NULL when it hides a byte that ends a line: what reads credentials reads lines.
static char *decode(const char *p, size_t n)
{
	auto_free char *out = xcalloc(n + 1, 1);
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '%' && i + 2 < n && hex(p[i + 1]) >= 0 && hex(p[i + 2]) >= 0) {
			out[k++] = (char)(hex(p[i + 1]) * 16 + hex(p[i + 2]));
			i += 2;
		} else {
			out[k++] = p[i];
		}
		if ((unsigned char)out[k - 1] < 32)
			return NULL;
	}
	return take(&out);
}

static bool is_host(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr(".-_:[]", s[i]))
			return false;
	return n && s[0] != '-' && n < 256; // a leading dash would be an option of ssh
}

static int take_userinfo(struct repo_url *u, const char *p, size_t n, struct err *e)
{
	const char *colon = memchr(p, ':', n);
	size_t user = colon ? (size_t)(colon - p) : n;
	u->user = decode(p, user);
	u->password = colon ? decode(colon + 1, n - user - 1) : NULL;
	if (!u->user || (colon && !u->password) || u->user[0] == '-')
		return refuse(e, "its user name or password has characters that none can have");
	return 0;
}

static void lower(char *s)
{
	for (; *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

static int take_host(struct repo_url *u, const char *p, size_t n, struct err *e)
{
	const char *close = n && p[0] == '[' ? memchr(p, ']', n) : NULL;
	const char *from = close ? close : p, *colon = memchr(from, ':', n - (size_t)(from - p));
	size_t host = colon ? (size_t)(colon - p) : n;
	uint64_t port;
	if (!is_host(p, host))
		return refuse(e, "it names no host");
	if (colon && n > host + 1 && str_to_u64((struct str){colon + 1, n - host - 1}, 1, 65535, &port))
		return refuse(e, "its port is not a number");
	u->host = xstrndup(p, host);
	lower(u->host);
	u->place = xasprintf("%s://%.*s", u->scheme, (int)n, p);
	return 0;
}

// scheme://[user[:password]@]host[:port]/path
static int parse_url(struct repo_url *u, const char *text, const char *rest, struct err *e)
{
	u->scheme = known_scheme((struct str){text, (size_t)(rest - text)});
	if (!u->scheme)
		return refuse(e, "its scheme is none of those");
	const char *auth = rest + 3, *path = auth + strcspn(auth, "/?#");
	if (!strcmp(u->scheme, "file")) {
		if (path != auth || path[0] != '/')
			return refuse(e, "a file URL has three slashes and an absolute path");
		u->host = xstrdup("");
		u->place = xstrdup("file://");
		u->clean = xasprintf("file://%s", path);
		return 0;
	}
	const char *at = memrchr(auth, '@', (size_t)(path - auth)), *host = at ? at + 1 : auth;
	if ((at && take_userinfo(u, auth, (size_t)(at - auth), e)) || take_host(u, host, (size_t)(path - host), e))
		return -1;
	if (path[0] != '/' || !path[1])
		return refuse(e, "it has no path");
	bool login = u->user && !strcmp(u->scheme, "ssh");
	u->clean = xasprintf("%s://%s%s%.*s%s", u->scheme, login ? u->user : "", login ? "@" : "", (int)(path - host),
			     host, path);
	return 0;
}

// [user@]host:path
static int parse_scp(struct repo_url *u, const char *text, const char *colon, struct err *e)
{
	const char *at = memchr(text, '@', (size_t)(colon - text)), *host = at ? at + 1 : text;
	u->scheme = "ssh";
	if ((at && take_userinfo(u, text, (size_t)(at - text), e)) || take_host(u, host, (size_t)(colon - host), e))
		return -1;
	if (!colon[1] || colon[1] == ':')
		return refuse(e, "transport helpers (\"ext::\") are not used");
	u->clean = xstrdup(text);
	return 0;
}

static int parse(struct repo_url *u, const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= 32 || *p == 127)
			return refuse(e, "it has spaces or control characters");
	if (!*text || *text == '-' || strlen(text) > 2000)
		return refuse(e, "it is empty, too long or an option");
	if (*text == '/') {
		u->scheme = "file";
		u->host = xstrdup("");
		u->place = xstrdup("file://");
		u->clean = xasprintf("file://%s", text);
		return 0;
	}
	if (colon && !strncmp(colon, "://", 3))
		return parse_url(u, text, colon, e);
	if (colon && !memchr(text, '/', (size_t)(colon - text)))
		return parse_scp(u, text, colon, e);
	return refuse(e, "it has no scheme and no host");
}

int repo_url_parse(const char *text, struct repo_url *out, struct err *e)
{
	struct repo_url u = {0};
	if (parse(&u, text, e)) {
		repo_url_done(&u);
		return -1;
	}
	*out = u;
	return 0;
}

void repo_url_done(struct repo_url *u)
{
	if (u->password)
		explicit_bzero(u->password, strlen(u->password));
	free(u->clean);
	free(u->host);
	free(u->place);
	free(u->user);
	free(u->password);
	*u = (struct repo_url){0};
}

// Where the path of a URL begins, behind its host.
static char *path_of(char *url)
{
	char *scheme = strstr(url, "://"), *colon = strchr(url, ':');
	if (scheme)
		return strchr(scheme + 3, '/') ? strchr(scheme + 3, '/') : url + strlen(url);
	return colon ? colon + 1 : url;
}

char *repo_url_join(const char *parent, const char *url)
{
	if (!str_has_prefix(url, "./") && !str_has_prefix(url, "../"))
		return xstrdup(url);
	auto_free char *base = xstrdup(parent);
	char *path = path_of(base);
	for (size_t n = strlen(path); n && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	while (str_has_prefix(url, "./") || str_has_prefix(url, "../")) {
		bool up = url[1] == '.';
		char *cut = strrchr(path, '/');
		if (up && !*path)
			return xstrdup(""); // above the host
		if (up)
			*(cut ? cut : path) = 0;
		url += up ? 3 : 2;
	}
	return xasprintf(str_has_suffix(base, ":") ? "%s%s" : "%s/%s", base, url);
}

void repo_url_key(const char *clean, char out[33])
{
	char full[SHA256_HEX];
	sha256_hex(clean, strlen(clean), full);
	memcpy(out, full, 32);
	out[32] = 0;
}

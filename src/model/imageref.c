// SPDX-License-Identifier: Apache-2.0
#include "model/imageref.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HUB "docker.io"
#define HUB_SERVER "registry-1.docker.io"
#define DIGEST_PREFIX "sha256:"
#define TAG_MAX 128
#define REPOSITORY_MAX 255

static const char *const hub_names[] = {HUB, "index.docker.io", HUB_SERVER, "registry.hub.docker.com"};

static bool host_is_hub(const char *host)
{
	for (size_t i = 0; i < countof(hub_names); i++)
		if (!strcmp(host, hub_names[i]))
			return true;
	return false;
}

bool image_digest_is(const char *s)
{
	size_t n = strlen(DIGEST_PREFIX);
	return str_has_prefix(s, DIGEST_PREFIX) && strlen(s + n) == 64 && strspn(s + n, "0123456789abcdef") == 64;
}

static bool port_is(const char *s)
{
	uint64_t port;
	return !str_to_u64(str_of(s), 1, 65535, &port);
}

// host, host:port or [v6]:port. Nothing that could end the host part of a URL gets through.
static bool registry_host_is(const char *s)
{
	size_t n = strlen(s);
	if (!n || n > 255)
		return false;
	if (*s == '[') {
		size_t inside = strspn(s + 1, "0123456789abcdef:.");
		const char *end = s + 1 + inside;
		return inside >= 2 && *end == ']' && (!end[1] || (end[1] == ':' && port_is(end + 2)));
	}
	size_t host = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");
	if (!host || *s == '.' || *s == '-' || s[host - 1] == '-' || strstr(s, ".."))
		return false;
	return !s[host] || (s[host] == ':' && port_is(s + host + 1));
}

// Lower-case words, joined by one of . _ __ or any number of dashes.
static bool repository_component_is(struct str c)
{
	size_t i = 0;
	while (i < c.n) {
		size_t word = i;
		while (i < c.n && (islower((unsigned char)c.p[i]) || isdigit((unsigned char)c.p[i])))
			i++;
		if (i == word)
			return false;
		if (i == c.n)
			return true;
		size_t from = i;
		while (i < c.n && c.p[i] == c.p[from] && strchr("._-", c.p[i]))
			i++;
		size_t joint = i - from;
		if (!joint || (c.p[from] == '.' && joint > 1) || (c.p[from] == '_' && joint > 2))
			return false;
	}
	return false;
}

static bool repository_is(const char *s)
{
	struct str rest = str_of(s), part;
	if (!*s || strlen(s) > REPOSITORY_MAX || str_has_suffix(s, "/"))
		return false;
	while (str_next(&rest, '/', &part))
		if (!repository_component_is(part))
			return false;
	return true;
}

static bool tag_is(const char *s)
{
	size_t n = strlen(s);
	if (!n || n > TAG_MAX || *s == '.' || *s == '-')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("_.-", *s))
			return false;
	return true;
}

void image_ref_done(struct image_ref *r)
{
	free(r->registry);
	free(r->repository);
	free(r->tag);
	free(r->digest);
	*r = (struct image_ref){0};
}

static bool names_registry(const char *first)
{
	return strpbrk(first, ".:[") || !strcasecmp(first, "localhost");
}

// Splits what stands before @ and the tag into registry and repository.
static void image_ref_split(const char *name, struct image_ref *r)
{
	const char *slash = strchr(name, '/');
	auto_free char *first = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;
	if (first && names_registry(first)) {
		r->registry = xstrdup(first);
		r->repository = xstrdup(slash + 1);
		for (char *c = r->registry; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	} else {
		r->registry = xstrdup(HUB);
		r->repository = xstrdup(name);
	}
	if (!host_is_hub(r->registry))
		return;
	char *library = strchr(r->repository, '/') ? xstrdup(r->repository) : xasprintf("library/%s", r->repository);
	free(r->registry);
	free(r->repository);
	r->registry = xstrdup(HUB);
	r->repository = library;
}

static int image_ref_read(const char *text, struct image_ref *r, struct err *e)
{
	static const char form[] = "write it as NAME, NAME:TAG, HOST[:PORT]/NAME:TAG or NAME@sha256:DIGEST";
	const char *at = strchr(text, '@');
	auto_free char *name = at ? xstrndup(text, (size_t)(at - text)) : xstrdup(text);
	char *slash = strrchr(name, '/'), *colon = strchr(slash ? slash : name, ':');
	if (strstr(text, "://"))
		return err_set(e, ERR_INVALID, "an image's reference is no URL: leave out what stands before \"://\" and that itself");
	if (at && !image_digest_is(at + 1))
		return err_set(e, ERR_INVALID, "what follows @ must be sha256: and 64 of 0-9 a-f");
	r->digest = at ? xstrdup(at + 1) : NULL;
	if (colon) {
		*colon = 0;
		r->tag = xstrdup(colon + 1);
	} else if (!at) {
		r->tag = xstrdup("latest");
	}
	image_ref_split(name, r);
	if (r->tag && !tag_is(r->tag))
		return err_set(e, ERR_INVALID, "the tag of an image is 1 to 128 of a-z A-Z 0-9 _ . -, and begins with none of . -");
	if (!registry_host_is(r->registry))
		return err_set(e, ERR_INVALID, "malformed name of a registry: %s", form);
	if (!repository_is(r->repository))
		return err_set(e, ERR_INVALID, "malformed name of an image (lower case only): %s", form);
	return 0;
}

int image_ref_parse(const char *text, struct image_ref *out, struct err *e)
{
	struct image_ref r = {0};
	if (!*text || strlen(text) > IMAGE_REF_MAX)
		return err_set(e, ERR_INVALID, "the name of an image has 1 to %d characters", IMAGE_REF_MAX);
	if (image_ref_read(text, &r, e)) {
		image_ref_done(&r);
		return -1;
	}
	*out = r;
	return 0;
}

char *image_ref_text(const struct image_ref *r)
{
	auto_buf struct buf b = BUF_INIT(4 * IMAGE_REF_MAX);
	buf_fmt(&b, "%s/%s", r->registry, r->repository);
	if (r->tag)
		buf_fmt(&b, ":%s", r->tag);
	if (r->digest)
		buf_fmt(&b, "@%s", r->digest);
	return buf_take(&b);
}

// --- where a registry is ---

bool image_host_is_local(const char *host)
{
	size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	struct str name = {host, n};
	if (str_is(name, "localhost") || str_is(name, "[::1]"))
		return true;
	return str_has_prefix(host, "127.") && strspn(host, "0123456789.") == n;
}

static char *host_without_443(const char *host)
{
	size_t n = strlen(host);
	return str_has_suffix(host, ":443") ? xstrndup(host, n - 4) : xstrdup(host);
}

bool image_host_same(const char *a, const char *b)
{
	auto_free char *x = host_without_443(a), *y = host_without_443(b);
	return !strcasecmp(x, y) || (host_is_hub(x) && host_is_hub(y));
}

static const char *mirror_url(const char *line)
{
	const char *equals = strchr(line, '=');
	return equals ? equals + 1 : "";
}

// Points behind "http://" or "https://"; NULL: neither.
static const char *url_rest(const char *url, bool *https)
{
	*https = str_has_prefix(url, "https://");
	if (*https)
		return url + strlen("https://");
	return str_has_prefix(url, "http://") ? url + strlen("http://") : NULL;
}

int image_mirror_check(const char *line, struct err *e)
{
	bool https;
	const char *url = mirror_url(line), *rest = url_rest(url, &https);
	size_t n = strcspn(line, "="), host = rest ? strcspn(rest, "/") : 0;
	auto_free char *from = xstrndup(line, n), *to = rest ? xstrndup(rest, host) : NULL;
	const char *path = rest && rest[host] ? rest + host + 1 : "";
	auto_free char *prefix = str_has_suffix(path, "/") ? xstrndup(path, strlen(path) - 1) : xstrdup(path);
	if ((strcmp(from, "*") && !registry_host_is(from)) || !to || !registry_host_is(to) || (*prefix && !repository_is(prefix)))
		return err_set(e, ERR_INVALID, "a mirror is HOST=URL, such as docker.io=https://mirror.example.org or *=http://localhost:5000/all");
	return 0;
}

static const char *mirror_find(const struct image_ref *r, char *const *mirrors)
{
	const char *any = NULL;
	for (; mirrors && *mirrors; mirrors++) {
		auto_free char *host = xstrndup(*mirrors, strcspn(*mirrors, "="));
		if (image_host_same(host, r->registry))
			return mirror_url(*mirrors);
		if (!strcmp(host, "*"))
			any = mirror_url(*mirrors);
	}
	return image_host_is_local(r->registry) ? NULL : any;
}

static void endpoint_of_mirror(const char *url, struct image_endpoint *out)
{
	bool https;
	const char *rest = url_rest(url, &https);
	size_t n = strcspn(rest, "/");
	const char *path = rest[n] ? rest + n + 1 : "";
	bool open = *path && !str_has_suffix(path, "/");
	*out = (struct image_endpoint){
		.host = xstrndup(rest, n),
		.prefix = xasprintf("%s%s", path, open ? "/" : ""),
		.https = https,
		.http = !https,
	};
}

void image_endpoint_of(const struct image_ref *r, char *const *mirrors, char *const *insecure, struct image_endpoint *out)
{
	const char *mirror = mirror_find(r, mirrors);
	if (mirror) {
		endpoint_of_mirror(mirror, out);
		return;
	}
	bool http = image_host_is_local(r->registry);
	for (; insecure && *insecure; insecure++)
		http |= !strcasecmp(*insecure, r->registry);
	*out = (struct image_endpoint){
		.host = xstrdup(strcmp(r->registry, HUB) ? r->registry : HUB_SERVER),
		.prefix = xstrdup(""),
		.https = true,
		.http = http,
	};
}

void image_endpoint_done(struct image_endpoint *p)
{
	free(p->host);
	free(p->prefix);
	*p = (struct image_endpoint){0};
}

// SPDX-License-Identifier: Apache-2.0
// The list itself: URLs to places, what is settled, what is asked and what was answered.
#include "workspace/registries_int.h"

#include "base/mem.h"
#include "model/name.h"
#include <assert.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 256
#define GO_PROXY (1u << REGISTRY_TOOLS)
#define GO_SUMS (2u << REGISTRY_TOOLS)

static const char *const names[] = {"npm", "pip", "uv", "cargo", "go", "maven", "apt", "yarn", "gem", "composer", "nuget", "conda", "gradle"};
static_assert(countof(names) == REGISTRY_TOOLS, "a name per tool");

const char *registry_tool_name(enum registry_tool t)
{
	return t < REGISTRY_TOOLS ? names[t] : "?";
}

void registries_done(struct registries *r)
{
	strv_free(r->list);
	strv_free(r->env);
	strv_free(r->indexes);
	*r = (struct registries){0};
}

bool registries_settled(const struct registries *r, enum registry_tool t)
{
	return r->settled & 1u << t;
}

struct str str_trim(struct str s)
{
	while (s.n && strchr(" \t\r\n", s.p[0]))
		s = (struct str){s.p + 1, s.n - 1};
	while (s.n && strchr(" \t\r\n", s.p[s.n - 1]))
		s.n--;
	return s;
}

struct url {
	struct str scheme, authority, host, rest; // host: with its port
};

static bool is_url_end(char c)
{
	return (unsigned char)c <= ' ' || strchr("<>\"'(),|", c);
}

static bool url_split(struct str s, struct url *out)
{
	size_t n = 0, i = 0;
	while (n < s.n && !is_url_end(s.p[n]))
		n++;
	const char *sep = memmem(s.p, n, "://", 3);
	if (!sep || memchr(s.p, '\\', n)) // some read a '\' as a '/', which makes another host
		return false;
	const char *start = sep;
	while (start > s.p && start[-1] != '+') // sparse+https, mirror+http
		start--;
	out->scheme = (struct str){start, (size_t)(sep - start)};
	struct str rest = {sep + 3, n - (size_t)(sep + 3 - s.p)};
	while (i < rest.n && !strchr("/?#", rest.p[i]))
		i++;
	out->authority = out->host = (struct str){rest.p, i};
	out->rest = (struct str){rest.p + i, rest.n - i};
	for (size_t k = i; k > 0; k--)
		if (rest.p[k - 1] == '@') {
			out->host = (struct str){rest.p + k, i - k};
			break;
		}
	return str_is(out->scheme, "https") || str_is(out->scheme, "http") || str_is(out->scheme, "ssh");
}

static void add_place(struct registries *r, enum registry_tool t, const struct host_name *h, uint16_t port)
{
	auto_free char *entry =
		port ? xasprintf("%s:%u\t%s", h->s, port, names[t]) : xasprintf("%s\t%s", h->s, names[t]);
	size_t n = strv_len(r->list);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(r->list[i], entry))
			return;
	if (n < LIST_MAX)
		strv_add(&r->list, entry);
}

static bool add_url(struct registries *r, enum registry_tool t, struct str s, struct url *out)
{
	struct host_name h;
	uint16_t port;
	struct err e;
	if (!url_split(s, out) || host_port_parse(out->host.p, out->host.n, &h, &port, &e))
		return false;
	add_place(r, t, &h, port ? port : str_is(out->scheme, "ssh") ? 22 : 0);
	return true;
}

// The first word for a variable stands.
static void add_env(struct registries *r, const char *variable, const char *value)
{
	size_t n = strlen(variable);
	for (size_t i = 0; r->env && r->env[i]; i++)
		if (!strncmp(r->env[i], variable, n) && r->env[i][n] == '=')
			return;
	auto_free char *pair = xasprintf("%s=%s", variable, value);
	strv_add(&r->env, pair);
}

void registry_more(struct registries *r, enum registry_tool t, struct str url)
{
	struct url u;
	add_url(r, t, url, &u);
}

void registry_main(struct registries *r, enum registry_tool t, struct str url, const char *variable)
{
	struct url u;
	if (registries_settled(r, t) || !url.n)
		return;
	r->settled |= 1u << t; // also when it is not one we can allow: the default is not used then
	if (!add_url(r, t, url, &u) || !variable)
		return;
	auto_free char *clean = xasprintf("%.*s://%.*s%.*s", (int)u.scheme.n, u.scheme.p, (int)u.host.n, u.host.p,
					  (int)u.rest.n, u.rest.p);
	add_env(r, variable, clean);
}

void registry_index(struct registries *r, struct str url)
{
	struct url u;
	if (!add_url(r, REGISTRY_CARGO, url, &u) || !str_is(u.scheme, "https") || url.p == u.scheme.p)
		return; // only sparse+https: others are git repositories
	bool slash = u.rest.n && u.rest.p[u.rest.n - 1] == '/';
	auto_free char *clean =
		xasprintf("https://%.*s%.*s%s", (int)u.host.n, u.host.p, (int)u.rest.n, u.rest.p, slash ? "" : "/");
	for (size_t i = 0; r->indexes && r->indexes[i]; i++)
		if (!strcmp(r->indexes[i], clean))
			return;
	strv_add(&r->indexes, clean);
}

static void settle_go(struct registries *r, unsigned bit)
{
	r->settled |= bit;
	if ((r->settled & GO_PROXY) && (r->settled & GO_SUMS))
		r->settled |= 1u << REGISTRY_GO;
}

void registry_host(struct registries *r, enum registry_tool t, struct str host_port)
{
	struct host_name h;
	uint16_t port;
	struct err e;
	if (!host_port_parse(host_port.p, host_port.n, &h, &port, &e))
		add_place(r, t, &h, port);
}

// A list with ',' or '|', where "direct" and "off" are words.
void registry_go_proxy(struct registries *r, struct str value, bool private)
{
	struct url u;
	bool credentials = false;
	if ((r->settled & GO_PROXY) || !value.n)
		return;
	for (size_t i = 0, from = 0; i <= value.n; i++)
		if (i == value.n || value.p[i] == ',' || value.p[i] == '|') {
			if (add_url(r, REGISTRY_GO, str_trim((struct str){value.p + from, i - from}), &u))
				credentials |= u.host.n != u.authority.n;
			from = i + 1;
		}
	auto_free char *text = xstrndup(value.p, value.n);
	if (private && !credentials)
		add_env(r, "GOPROXY", text);
	settle_go(r, GO_PROXY);
}

// NAME, KEY, "KEY URL" or off; the name is the part of a key before its '+'.
void registry_go_sums(struct registries *r, struct str value, bool private)
{
	struct str name = value, rest = value;
	if ((r->settled & GO_SUMS) || !value.n)
		return;
	str_next(&rest, ' ', &name);
	if (rest.p) {
		registry_more(r, REGISTRY_GO, str_trim(rest));
	} else if (!str_is(name, "off")) {
		str_next(&(struct str){name.p, name.n}, '+', &name);
		registry_host(r, REGISTRY_GO, name);
	}
	auto_free char *text = xstrndup(value.p, value.n);
	if (private)
		add_env(r, "GOSUMDB", text);
	settle_go(r, GO_SUMS);
}

// Every word that is a URL; in a help text only the one told as the default.
static void answer_urls(struct registries *r, enum registry_tool t, struct str s)
{
	size_t before = strv_len(r->list);
	const char *help = memmem(s.p, s.n, "default", 7);
	const char *at = help ? memmem(help, s.n - (size_t)(help - s.p), "http", 4) : NULL;
	if (help) {
		if (at)
			registry_more(r, t, (struct str){at, s.n - (size_t)(at - s.p)});
	} else {
		for (size_t i = 0; i < s.n; i++)
			if (!i || is_url_end(s.p[i - 1]))
				registry_more(r, t, (struct str){s.p + i, s.n - i});
	}
	if (strv_len(r->list) > before)
		r->settled |= 1u << t;
}

static void answer_go(struct registries *r, struct str s)
{
	struct str line;
	if (str_next(&s, '\n', &line))
		registry_go_proxy(r, str_trim(line), false);
	if (str_next(&s, '\n', &line))
		registry_go_sums(r, str_trim(line), false);
}

// Bundler reads the index of a host from the host "index." below it, where there is one.
static void add_gem_indexes(struct registries *r)
{
	size_t n = strv_len(r->list);
	for (size_t i = 0; i < n; i++) {
		struct str host = str_of(r->list[i]), rest = host;
		if (!str_next(&rest, '\t', &host) || !str_is(rest, names[REGISTRY_GEM]) || str_has_prefix(host.p, "index."))
			continue;
		auto_free char *index = xasprintf("index.%.*s", (int)host.n, host.p);
		registry_host(r, REGISTRY_GEM, str_of(index));
	}
}

void registries_answer(struct registries *r, enum registry_tool t, const char *output, size_t n)
{
	size_t before = strv_len(r->list);
	if (!n || n > REGISTRIES_ANSWER || registries_settled(r, t))
		return;
	if (t == REGISTRY_GO) {
		answer_go(r, (struct str){output, n});
		return;
	}
	if (t != REGISTRY_MAVEN) {
		answer_urls(r, t, (struct str){output, n});
		if (t == REGISTRY_GEM)
			add_gem_indexes(r);
		return;
	}
	registry_xml(r, output, n);
	if (strv_len(r->list) > before)
		r->settled |= 1u << t;
}

// `env -C /`: found on the caller's PATH, and no file of the current directory has a say.
static void ask(struct registry_question **q, size_t *n, enum registry_tool t, const char *const *words)
{
	static const char *const prefix[] = {"/usr/bin/env", "-C", "/"};
	char **argv = NULL;
	for (size_t i = 0; i < countof(prefix); i++)
		strv_add(&argv, prefix[i]);
	for (; *words; words++)
		strv_add(&argv, *words);
	*q = xrealloc(*q, (*n + 1) * sizeof **q);
	(*q)[(*n)++] = (struct registry_question){t, argv};
}
#define ASK(q, n, t, ...) ask(q, n, t, (const char *const[]){__VA_ARGS__, NULL})

// pip knows its index and the host that the index's files lie on.
static const char pip_says[] = "from pip._internal.models.index import PyPI as i\n"
			       "print(i.simple_url, 'https://' + i.file_storage_domain)";
static const char zip_says[] = "import sys, zipfile\n"
			       "print(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]).read(100000).decode())";
#define SUPER_POM "org/apache/maven/model/pom-4.0.0.xml"

static char *first_match(const char *dir, const char *below)
{
	auto_free char *pattern = xasprintf("%s/%s/maven-model-builder-*.jar", dir, below);
	glob_t found = {0};
	char *path = glob(pattern, GLOB_NOSORT, NULL, &found) ? NULL : xstrdup(found.gl_pathv[0]);
	globfree(&found);
	return path;
}

// Maven's defaults lie in its super POM, inside a jar.
static void ask_maven(struct registry_question **q, size_t *n, const char *home, const char *root)
{
	static const char *const places[] = {"usr/share/maven/lib", "opt/maven/lib", "usr/local/maven/lib"};
	auto_free char *jar = first_match(home, ".sdkman/candidates/maven/current/lib");
	bool own = jar || !strcmp(root, "/");
	for (size_t i = 0; i < countof(places) && !jar; i++)
		jar = first_match(root, places[i]);
	if (!jar)
		return;
	ASK(q, n, REGISTRY_MAVEN, "python3", "-c", zip_says, jar, SUPER_POM);
	if (!own) // somebody else's archive is only for a reader that can not be overrun
		return;
	ASK(q, n, REGISTRY_MAVEN, "unzip", "-p", jar, SUPER_POM);
	ASK(q, n, REGISTRY_MAVEN, "bsdtar", "-xOf", jar, SUPER_POM);
}

struct registry_question *registries_questions(const struct registries *r, const char *home, const char *root,
					       size_t *out_n)
{
	struct registry_question *q = NULL;
	*out_n = 0;
	if (!registries_settled(r, REGISTRY_NPM))
		ASK(&q, out_n, REGISTRY_NPM, "npm", "config", "get", "registry");
	if (!registries_settled(r, REGISTRY_PIP)) {
		ASK(&q, out_n, REGISTRY_PIP, "python3", "-c", pip_says);
		ASK(&q, out_n, REGISTRY_PIP, "pip", "download", "--help");
	}
	if (!registries_settled(r, REGISTRY_UV))
		ASK(&q, out_n, REGISTRY_UV, "uv", "pip", "install", "--help");
	if (!registries_settled(r, REGISTRY_GO))
		ASK(&q, out_n, REGISTRY_GO, "go", "env", "GOPROXY", "GOSUMDB");
	if (!registries_settled(r, REGISTRY_MAVEN))
		ask_maven(&q, out_n, home, root);
	if (!registries_settled(r, REGISTRY_YARN))
		ASK(&q, out_n, REGISTRY_YARN, "COREPACK_ENABLE_NETWORK=0", "yarn", "config", "get", "registry");
	if (!registries_settled(r, REGISTRY_GEM))
		ASK(&q, out_n, REGISTRY_GEM, "gem", "sources", "--list");
	if (!registries_settled(r, REGISTRY_COMPOSER))
		ASK(&q, out_n, REGISTRY_COMPOSER, "COMPOSER_ALLOW_SUPERUSER=1", "composer", "--no-interaction", "--no-plugins", "config", "--global", "repositories");
	if (!registries_settled(r, REGISTRY_NUGET))
		ASK(&q, out_n, REGISTRY_NUGET, "DOTNET_NOLOGO=1", "DOTNET_CLI_TELEMETRY_OPTOUT=1", "dotnet", "nuget", "list", "source", "--format", "short");
	if (!registries_settled(r, REGISTRY_CONDA))
		ASK(&q, out_n, REGISTRY_CONDA, "sh", "-c", "conda config --show channel_alias default_channels | grep -o 'http[^ ]*'");
	return q;
}

void registry_questions_free(struct registry_question *q, size_t n)
{
	for (size_t i = 0; i < n; i++)
		strv_free(q[i].argv);
	free(q);
}

// SPDX-License-Identifier: Apache-2.0
#include "workspace/caches.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/source.h"
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (256u << 10) // of a configuration file

// What is asked in this order: variables, then a line of a file, then the usual place.
struct cache {
	const char *vars[3];	  // the directory itself
	const char *files[2], *key; // below the caller's home; key = VALUE, or <key>VALUE</key>
	const char *base;	  // a variable for what `usual` is below, instead of the home: XDG_CACHE_HOME …
	const char *usual;	  // below the home
	const char *usual_in_base;
	const char *part;	  // below the directory found; "" = itself
	const char *inside;	  // below HOME
};

static const struct cache caches[] = {
	{.vars = {"npm_config_cache", "NPM_CONFIG_CACHE"}, .files = {".npmrc"}, .key = "cache", .usual = ".npm", .part = "/_cacache", .inside = ".npm/_cacache"},
	{.vars = {"PIP_CACHE_DIR"}, .files = {".config/pip/pip.conf", ".pip/pip.conf"}, .key = "cache-dir", .base = "XDG_CACHE_HOME", .usual = ".cache/pip",
	 .usual_in_base = "pip", .part = "", .inside = ".cache/pip"},
	{.vars = {"UV_CACHE_DIR"}, .files = {".config/uv/uv.toml"}, .key = "cache-dir", .base = "XDG_CACHE_HOME", .usual = ".cache/uv", .usual_in_base = "uv",
	 .part = "", .inside = ".cache/uv"},
	{.base = "CARGO_HOME", .usual = ".cargo/registry", .usual_in_base = "registry", .part = "", .inside = ".cargo/registry"},
	// Downloads only: cache/vcs beside them holds clones with the addresses they came from.
	{.vars = {"GOMODCACHE"}, .files = {".config/go/env"}, .key = "GOMODCACHE", .base = "GOPATH", .usual = "go/pkg/mod", .usual_in_base = "pkg/mod",
	 .part = "/cache/download", .inside = "go/pkg/mod/cache/download"},
	{.vars = {"GOCACHE"}, .files = {".config/go/env"}, .key = "GOCACHE", .base = "XDG_CACHE_HOME", .usual = ".cache/go-build", .usual_in_base = "go-build",
	 .part = "", .inside = ".cache/go-build"},
	{.files = {".m2/settings.xml"}, .key = "localRepository", .usual = ".m2/repository", .part = "", .inside = ".m2/repository"},
};
static_assert(countof(caches) <= CACHES_MAX, "room for all of them");

static const char *value_of(char *const *env, const char *name)
{
	size_t n = strlen(name);
	for (; env && *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=' && (*env)[n + 1])
			return *env + n + 1;
	return NULL;
}

static struct str trimmed(struct str s)
{
	while (s.n && strchr(" \t\r\"'", s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n && strchr(" \t\r\"'", s.p[s.n - 1]))
		s.n--;
	return s;
}

// The last line that says so counts.
static struct str line_value(const char *text, const char *key)
{
	struct str rest = str_of(text), line, found = {0};
	while (str_next(&rest, '\n', &line)) {
		struct str name, value = line;
		if (str_next(&value, '=', &name) && value.p && str_is(trimmed(name), key))
			found = trimmed(value);
	}
	return found;
}

static struct str element_value(const char *text, const char *key)
{
	auto_free char *open = xasprintf("<%s>", key);
	const char *at = strstr(text, open), *end = at ? strchr(at + strlen(open), '<') : NULL;
	return end ? trimmed((struct str){at + strlen(open), (size_t)(end - at) - strlen(open)}) : (struct str){0};
}

// "~", "$HOME" and "${user.home}" in front are the home.
static char *expand(const char *home, struct str v)
{
	static const char *const starts[] = {"~", "${HOME}", "$HOME", "${user.home}"};
	for (size_t i = 0; i < countof(starts); i++) {
		size_t n = strlen(starts[i]);
		if (v.n >= n && !memcmp(v.p, starts[i], n) && (v.n == n || v.p[n] == '/'))
			return xasprintf("%s%.*s", home, (int)(v.n - n), v.p + n);
	}
	return v.n && v.p[0] == '/' ? xstrndup(v.p, v.n) : NULL;
}

static char *from_file(const char *home, const char *file, const char *key)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	auto_free char *path = xasprintf("%s/%s", home, file);
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fs_read_fd(fd, &b, &e) || !b.n || memchr(b.p, 0, b.n))
		return NULL;
	return expand(home, str_has_suffix(file, ".xml") ? element_value(b.p, key) : line_value(b.p, key));
}

// Owned; NULL = nowhere.
static char *place_of(const struct cache *c, const char *home, char *const *env)
{
	const char *v = NULL;
	for (size_t i = 0; i < countof(c->vars) && c->vars[i] && !v; i++)
		v = value_of(env, c->vars[i]);
	if (v)
		return expand(home, str_of(v));
	for (size_t i = 0; i < countof(c->files) && c->files[i]; i++) {
		char *found = from_file(home, c->files[i], c->key);
		if (found)
			return found;
	}
	v = c->base ? value_of(env, c->base) : NULL;
	auto_free char *base = v ? xstrndup(v, strcspn(v, ":")) : NULL; // GOPATH is a list; new things go to its first
	if (base)
		return base[0] == '/' ? xasprintf("%s/%s", base, c->usual_in_base) : NULL;
	return xasprintf("%s/%s", home, c->usual);
}

// Ours: what belongs to somebody else could have been put there for us.
static bool is_own_dir(const char *path)
{
	struct stat st;
	return path_is_clean(path) && !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

uint32_t caches_find(const char *home, char *const *env, const char *inside, struct cell_mount mounts[CACHES_MAX])
{
	uint32_t n = 0;
	for (size_t i = 0; i < countof(caches); i++) {
		auto_free char *place = place_of(&caches[i], home, env), *src = place ? xasprintf("%s%s", place, caches[i].part) : NULL;
		auto_free char *real = src ? realpath(src, NULL) : NULL;
		if (real && is_own_dir(real))
			mounts[n++] = (struct cell_mount){.src = take(&real), .dst = xasprintf("%s/%s", inside, caches[i].inside), .cache = true};
	}
	return n;
}

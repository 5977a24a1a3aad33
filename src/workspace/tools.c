// SPDX-License-Identifier: Apache-2.0
// The table is narrow on purpose: .local/share as a whole holds keyrings, so only known tools below it are named.
#include "workspace/tools.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/toolvars.h"
#include "workspace/source.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCAN_ENTRIES 5000
#define SCAN_DEPTH 2
#define MASKS_MAX 128	// a root with more secrets than that is not shown at all
#define CACHE_MAX 64

// `with`: comes along when that other root is shown, as its links point there.
static const struct {
	const char *dir, *with;
} roots[] = {
	{".cargo", NULL},
	{".rustup", ".cargo"},
	{".nvm", NULL},
	{".pyenv", NULL},
	{".rbenv", NULL},
	{".volta", NULL},
	{".bun", NULL},
	{".deno", NULL},
	{".asdf", NULL},
	{"bin", NULL},
	{".local/bin", NULL},
	{".local/lib", ".local/bin"},
	{".local/share/mise", ".local/bin"},
	{".local/share/uv", ".local/bin"},
	{".local/share/pipx", ".local/bin"},
	{".local/share/pnpm", ".local/bin"},
	{".local/share/claude", ".local/bin"},
	{".local/share/fnm", ".local/bin"},
	{".npm-global", NULL},
	{".npm-packages", NULL},
	{"go/bin", NULL},
	{"miniconda3", NULL},
	{"anaconda3", NULL},
	{".sdkman", NULL},
	{".ghcup", NULL},
	{".juliaup", NULL},
	{".opencode", NULL},
	{".codex/bin", NULL},
};

static const char *const secret_names[] = {
	"credentials", "credentials.toml", ".netrc", ".npmrc", ".pypirc", "auth.json", "*token*", "id_rsa*",
	"id_ed25519*", "*.pem", "*.key", ".git-credentials", ".credentials.json",
};

bool tools_is_secret(const char *name)
{
	for (size_t i = 0; i < countof(secret_names); i++)
		if (!fnmatch(secret_names[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

static void add_mount(struct tools *t, const char *src, const char *dst)
{
	t->mounts = xrealloc(t->mounts, (t->n_mounts + 1) * sizeof *t->mounts);
	t->mounts[t->n_mounts++] = (struct cell_mount){.src = xstrdup(src), .dst = xstrdup(dst)};
}

static void cut_mounts(struct tools *t, uint32_t n)
{
	while (t->n_mounts > n) {
		struct cell_mount *m = &t->mounts[--t->n_mounts];
		free(m->src);
		free(m->dst);
	}
}

void tools_done(struct tools *t)
{
	cut_mounts(t, 0);
	free(t->mounts);
	*t = (struct tools){0};
}

static bool on_path(const char *path, const char *dir)
{
	struct str rest = str_of(path), part;
	while (str_next(&rest, ':', &part)) {
		auto_free char *entry = xstrndup(part.p, part.n);
		if (path_is_below(entry, dir))
			return true;
	}
	return false;
}

static bool is_real_dir(const char *path)
{
	struct stat st;
	return !lstat(path, &st) && S_ISDIR(st.st_mode);
}

// A certificate bundle is public: hiding every *.pem would break TLS of the tools themselves.
static bool is_public_pem(const char *name)
{
	return !strcmp(name, "cacert.pem") || !strcmp(name, "cert.pem") || !strcmp(name, "ca-bundle.pem");
}

// Adds a mask for each secret below dir. False when there is too much to look at or to hide.
static bool hide_secrets(struct tools *t, const char *dir, int depth, int *budget, uint32_t limit)
{
	DIR *d = opendir(dir);
	if (!d)
		return errno == EACCES || errno == ENOENT; // what we can not read the cell can not either
	bool ok = true;
	struct dirent *ent;
	while (ok && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		if (--*budget < 0)
			break; // the bound of the search, not a failure: deeper trees hold packages
		auto_free char *path = xasprintf("%s/%s", dir, ent->d_name);
		struct stat st;
		if (lstat(path, &st))
			continue;
		if (S_ISDIR(st.st_mode) && depth > 1)
			ok = hide_secrets(t, path, depth - 1, budget, limit);
		else if (S_ISREG(st.st_mode) && tools_is_secret(ent->d_name) && !is_public_pem(ent->d_name)) {
			add_mount(t, "", path);
			ok = t->n_mounts < limit;
		}
	}
	closedir(d);
	return ok;
}

static void add_root(struct tools *t, const char *dir)
{
	uint32_t before = t->n_mounts;
	int budget = SCAN_ENTRIES;
	add_mount(t, dir, dir);
	if (!hide_secrets(t, dir, SCAN_DEPTH, &budget, MASKS_MAX)) {
		log_line(LOG_WARN, "tools below %s are not shown in sandboxes: too many files there look like credentials", dir);
		cut_mounts(t, before);
	}
}

void tools_scan(const char *home, const char *path, struct tools *out)
{
	bool shown[countof(roots)] = {false};
	*out = (struct tools){0};
	for (size_t i = 0; path && i < countof(roots); i++) {
		auto_free char *dir = xasprintf("%s/%s", home, roots[i].dir);
		bool want = on_path(path, dir);
		for (size_t k = 0; roots[i].with && k < i; k++)
			want |= shown[k] && !strcmp(roots[k].dir, roots[i].with);
		shown[i] = want && is_real_dir(dir);
		if (shown[i])
			add_root(out, dir);
	}
}

struct tools_cache {
	char *home;
	int n;
	struct {
		char *path;
		struct tools tools;
	} entry[CACHE_MAX];
};

struct tools_cache *tools_cache_new(const char *home)
{
	struct tools_cache *c = xcalloc(1, sizeof *c);
	c->home = xstrdup(home);
	return c;
}

static void cache_clear(struct tools_cache *c)
{
	while (c->n) {
		c->n--;
		free(c->entry[c->n].path);
		tools_done(&c->entry[c->n].tools);
	}
}

void tools_cache_free(struct tools_cache *c)
{
	if (!c)
		return;
	cache_clear(c);
	free(c->home);
	free(c);
}

const struct tools *tools_get(struct tools_cache *c, const char *path)
{
	const char *key = path ? path : "";
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->entry[i].path, key))
			return &c->entry[i].tools;
	if (c->n == CACHE_MAX)
		cache_clear(c);
	c->entry[c->n].path = xstrdup(key);
	tools_scan(c->home, key, &c->entry[c->n].tools);
	return &c->entry[c->n++].tools;
}

static const char *const system_roots[] = {"/usr", "/bin", "/sbin", "/opt"};

static bool seen_inside(const char *dir, const struct tools *t, const char *base)
{
	for (size_t i = 0; i < countof(system_roots); i++)
		if (path_is_below(dir, system_roots[i]))
			return true;
	for (uint32_t i = 0; t && i < t->n_mounts; i++)
		if (t->mounts[i].src[0] && path_is_below(dir, t->mounts[i].dst))
			return true;
	return base && path_is_below(dir, base);
}

static char *tool_place(const char *name, const char *home, char *const *caller)
{
	const char *usual = tool_variable_place(name);
	size_t n = strlen(name);
	for (; caller && *caller; caller++)
		if (!strncmp(*caller, name, n) && (*caller)[n] == '=')
			return xstrdup(*caller + n + 1);
	return usual ? xasprintf("%s/%s", home, usual) : NULL;
}

char **tools_env(const char *home, const struct tools *t, const char *base, char *const *caller)
{
	char **out = xcalloc(1, sizeof *out);
	for (const char *const *name = tool_variables; *name; name++) {
		auto_free char *dir = tool_place(*name, home, caller);
		bool shown = dir && path_is_clean(dir) && seen_inside(dir, t, base) && is_real_dir(dir);
		auto_free char *kv = shown ? xasprintf("%s=%s", *name, dir) : NULL;
		if (kv)
			strv_add(&out, kv);
	}
	return out;
}

static bool has_part(const char *joined, const char *dir)
{
	struct str rest = str_of(joined), part;
	while (str_next(&rest, ':', &part))
		if (str_is(part, dir))
			return true;
	return false;
}

static void add_part(struct buf *b, const char *dir)
{
	if (has_part(buf_cstr(b), dir))
		return;
	if (b->n)
		buf_byte(b, ':');
	buf_str(b, dir);
}

char *tools_path(const char *path, const struct tools *t, const char *base, enum profile profile)
{
	static const char *const always[] = {"/usr/local/bin", "/usr/bin", "/bin"};
	static const char *const for_root[] = {"/usr/local/sbin", "/usr/sbin", "/sbin"};
	auto_buf struct buf b = BUF_INIT(1 << 20);
	struct str rest = str_of(path ? path : ""), part;
	while (str_next(&rest, ':', &part)) {
		auto_free char *dir = xstrndup(part.p, part.n);
		if (path_is_clean(dir) && seen_inside(dir, t, base))
			add_part(&b, dir);
	}
	for (size_t i = 0; profile == PROFILE_ROOT && i < countof(for_root); i++)
		add_part(&b, for_root[i]);
	for (size_t i = 0; i < countof(always); i++)
		add_part(&b, always[i]);
	return buf_take(&b);
}

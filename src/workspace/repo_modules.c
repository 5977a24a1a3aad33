// SPDX-License-Identifier: Apache-2.0
// Submodules of a checkout. Where they come from is the repository's word, and it may be hostile: only https and ssh,
// or what the top URL itself is, only from hosts the caller named, and never a path of this machine. The rest is left
// out, and said.
#include "workspace/repo_checkout_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MODULES_DEPTH 5

struct module {
	char *name, *path, *url;
};

// A name becomes a directory below .git/modules, a path one below files.
static bool is_plain(const char *s)
{
	struct str rest = str_of(s), part;
	if (!*s || strlen(s) > 1000 || *s == '-')
		return false;
	for (const char *c = s; *c; c++)
		if ((unsigned char)*c < 32 || *c == 127 || *c == '\\' || *c == ':')
			return false;
	while (str_next(&rest, '/',
			&part)) // a trailing space or dot hides .git on some file systems, and a CR in a config
		if (!part.n || part.p[0] == '.' || strchr(" .", part.p[part.n - 1]) || !strncasecmp(part.p, "git~", 4))
			return false;
	return s[strlen(s) - 1] != '/';
}

static struct module *find(struct module **list, size_t *n, const char *name, size_t len)
{
	for (size_t i = 0; i < *n; i++)
		if (!strncmp((*list)[i].name, name, len) && !(*list)[i].name[len])
			return &(*list)[i];
	*list = xrealloc(*list, (*n + 1) * sizeof **list);
	(*list)[*n] = (struct module){.name = xstrndup(name, len)};
	return &(*list)[(*n)++];
}

static void take_pair(struct module **list, size_t *n, char *pair)
{
	char *value = strchr(pair, '\n');
	if (!value || !str_has_prefix(pair, "submodule.") || *n > 10000)
		return;
	*value++ = 0;
	const char *name = pair + 10, *dot = strrchr(name, '.');
	if (!dot)
		return;
	struct module *m = find(list, n, name, (size_t)(dot - name));
	char **to = !strcmp(dot, ".path") ? &m->path : !strcmp(dot, ".url") ? &m->url : NULL;
	if (to && !*to)
		*to = xstrdup(value);
}

static int read_modules(const struct checkout *c, struct module **list, size_t *n, struct err *e)
{
	auto_git struct git_run g;
	auto_free char *blob = xasprintf("%s:.gitmodules", c->commit);
	git_init(&g, GIT_ALONE, c->repo);
	git_args(&g, "config", "--blob", blob, "--no-includes", "--null", "--list", NULL);
	if (git_start(&g, e))
		return -1;
	for (char *p = g.out.p, *end = p ? p + g.out.n : NULL, *next; !g.status && p && p < end; p = next) {
		next = p + strlen(p) + 1;
		take_pair(list, n, p);
	}
	return 0;
}

// The commit the tree wants there; NULL when there is no submodule.
static char *wanted(const struct checkout *c, const char *path)
{
	struct err e;
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, c->repo);
	git_args(&g, "ls-tree", "-z", c->commit, "--", path, NULL);
	if (git_start(&g, &e) || g.status || !str_has_prefix(buf_cstr(&g.out), "160000 commit "))
		return NULL;
	char *id = g.out.p + 14;
	id[strcspn(id, "\t")] = 0;
	return gitref_is_id(id, (unsigned)strlen(c->commit)) ? xstrdup(id) : NULL;
}

static const char *refused(const struct tree *t, const struct repo_url *u)
{
	bool same = t->url.place && !strcmp(u->scheme, t->url.scheme) && !strcmp(u->host, t->url.host);
	if (!strcmp(u->scheme, "file"))
		return "it names a path of this machine";
	if (strcmp(u->scheme, "https") && strcmp(u->scheme, "ssh") && !same)
		return "only https and ssh are used for submodules";
	for (char *const *h = t->args->hosts; h && *h; h++)
		if (!strcasecmp(*h, u->host))
			return NULL;
	if (t->url.host && !strcmp(u->host, t->url.host))
		return NULL;
	return "its host is neither that of the repository nor allowed";
}

static char *up(const char *from, const char *to)
{
	auto_buf struct buf b = BUF_INIT(16u << 10);
	buf_str(&b, "../");
	for (; *from; from++)
		if (*from == '/')
			buf_str(&b, "../");
	buf_str(&b, to);
	return buf_take(&b);
}

static int write_pointer(struct tree *t, const char *path, const char *git, struct err *e)
{
	auto_free char *dir = xasprintf("git/ws/%s", path), *file = xasprintf("%s/.git", dir), *way = up(path, git);
	auto_free char *text = xasprintf("gitdir: %s\n", way);
	return fs_mkdirs(t->dir.fd, dir, 0755, e) || fs_write(t->dir.fd, file, text, strlen(text), 0644, e) ? -1 : 0;
}

// As `git submodule init` leaves it.
static int register_module(struct tree *t, const struct checkout *c, const struct module *m, const char *url,
			   struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16u << 10);
	auto_free char *file = xasprintf("git/ws/%s/config", c->git), *key = xasprintf("submodule.%s.url", m->name);
	auto_free char *active = xasprintf("submodule.%s.active", m->name);
	auto_fd int fd = fs_open_beneath(t->dir.fd, file, O_WRONLY | O_APPEND, 0, e);
	gitconfig_add(&b, active, "true");
	gitconfig_add(&b, key, url);
	return fd < 0 ? -1 : fs_write_all(fd, b.p, b.n, e);
}

// One mirror may serve several of them, each with another commit: its size is asked for when all are there.
static void note_mirror(struct tree *t, const char *key)
{
	for (char **m = t->mirrors; m && *m; m++)
		if (!strncmp(*m, key, strlen(key)))
			return;
	strv_add(&t->mirrors, key);
}

void checkout_size_mirrors(struct tree *t)
{
	for (char **m = t->mirrors; m && *m; m++) {
		auto_free char *dir = xasprintf("%s/%s.git", t->args->repos, *m), *key = *m;
		*m = xasprintf("%s\t%llu", key, (unsigned long long)repo_disk_bytes(AT_FDCWD, dir));
	}
}

// Fetches it into its own mirror and checks it out. What the remote refuses is left out: the rest is of use without it.
static int get(struct tree *t, const struct checkout *c, const struct module *m, struct repo_url *u, const char *commit,
	       int depth, struct err *e)
{
	char key[33];
	struct fetched f;
	struct err why;
	repo_url_key(u->clean, key);
	auto_free char *repo = xasprintf("%s/%s.git", t->args->repos, key),
		       *git = xasprintf("%s/modules/%s", c->git, m->name);
	auto_free char *path = xasprintf("%s%s%s", c->path, *c->path ? "/" : "", m->path), *worktree = up(git, path);
	if (t->url.place && t->url.user && !strcmp(u->place, t->url.place) && !u->user) {
		u->user = xstrdup(t->url.user);
		u->password = t->url.password ? xstrdup(t->url.password) : NULL;
	}
	if (repo_mirror(u, repo, commit, &f, &why)) {
		tree_skip(t, path, why.msg);
		return 0;
	}
	fetched_done(&f);
	note_mirror(t, key);
	struct checkout sub = {
		.repo = repo, .commit = commit, .url = u->clean, .git = git, .path = path, .worktree = worktree};
	return checkout_one(t, &sub, depth + 1, e) || write_pointer(t, path, git, e) ||
			       register_module(t, c, m, u->clean, e)
		       ? -1
		       : 0;
}

static int one(struct tree *t, const struct checkout *c, const struct module *m, int depth, struct err *e)
{
	struct repo_url u = {0};
	struct err why;
	if (!m->path || !m->url || !is_plain(m->path) || !is_plain(m->name)) {
		tree_skip(t, m->path ? m->path : m->name, "its name or path is not one that is used");
		return 0;
	}
	auto_free char *commit = wanted(c, m->path), *full = repo_url_join(c->url ? c->url : "", m->url);
	if (!commit)
		return 0;
	const char *no = repo_url_parse(full, &u, &why) ? why.msg : refused(t, &u);
	if (!no && !t->args->repos)
		no = "there is no place for its mirror";
	if (!no && (depth >= MODULES_DEPTH || t->l.n_mounts >= GITLAYER_MOUNTS))
		no = "there are too many";
	int rc = no ? 0 : get(t, c, m, &u, commit, depth, e);
	if (no)
		tree_skip(t, m->path, no);
	repo_url_done(&u);
	return rc;
}

int checkout_submodules(struct tree *t, const struct checkout *c, int depth, struct err *e)
{
	struct module *list = NULL;
	size_t n = 0;
	auto_free char *index = xasprintf("git/ws/%s/index", c->git);
	strv_add(&t->indexes, index);
	int rc = read_modules(c, &list, &n, e);
	for (size_t i = 0; i < n; i++) {
		if (!rc)
			rc = one(t, c, &list[i], depth, e);
		free(list[i].name);
		free(list[i].path);
		free(list[i].url);
	}
	free(list);
	return rc;
}

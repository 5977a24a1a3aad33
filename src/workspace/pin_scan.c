// SPDX-License-Identifier: Apache-2.0
// What of a work tree is not as its index has it: one `git status`, and where line ends or filters may differ between
// repository and work tree, the files whose length is not that of their blob.
#include "workspace/pin_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Of the caller's own configuration: what is ignored everywhere, and whether line ends are converted.
static void ask_caller(char **excludes, bool *converts)
{
	struct err e;
	auto_git struct git_run g;
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
	if (home || xdg)
		*excludes = xdg && *xdg ? xasprintf("%s/git/ignore", xdg)
					: xasprintf("%s/.config/git/ignore", home ? home : "");
	git_init(&g, GIT_CALLER, NULL);
	git_args(&g, "-C", "/", "config", "--null", "--type=path", "--get-regexp",
		 "^core\\.(excludesfile|autocrlf|eol)$", NULL);
	if (git_start(&g, &e) || g.status)
		return;
	for (char *p = g.out.p, *end = p ? p + g.out.n : NULL, *next; p && p < end; p = next) {
		next = p + strlen(p) + 1;
		char *value = strchr(p, '\n');
		if (value && str_has_prefix(p, "core.excludesfile\n")) {
			free(*excludes);
			*excludes = xstrdup(value + 1);
		} else if (value) {
			*converts = true;
		}
	}
}

#define GITLINK "160000"

// The index has this there, or nothing when mode is all zeros.
static void stage(struct pin *p, const char *mode, const char *id, const char *path)
{
	if (!strcmp(mode, "000000"))
		buf_str(&p->staged, "D ");
	else
		buf_fmt(&p->staged, "M %s %s ", mode, id);
	pin_quote(&p->staged, p->prefix, path);
	buf_byte(&p->staged, '\n');
}

// Splits off n fields; what is left is the path.
static char *split(char *s, char **fields, int n)
{
	for (int i = 0; i < n; i++) {
		fields[i] = s;
		s = strchr(s, ' ');
		if (!s)
			return NULL;
		*s++ = 0;
	}
	return s;
}

// "1 XY sub mH mI mW hH hI path": HEAD, index and work tree
static void take_changed(struct pin *p, char *entry)
{
	char *f[8], *path = split(entry, f, 8);
	if (!path)
		return;
	bool link = !strcmp(f[4], GITLINK);
	if (f[1][0] != '.')
		stage(p, f[4], f[7], path);
	if (f[1][1] == '.' || (link && f[1][1] != 'D'))
		return;
	p->dirty++;
	pathlist_add(f[1][1] == 'D' ? &p->gone : &p->paths, p->prefix, path);
}

static void take_entry(struct pin *p, char *entry)
{
	char *f[10], *path;
	size_t n = strlen(entry);
	switch (entry[0]) {
	case '1':
		take_changed(p, entry);
		break;
	case 'u': // "u XY sub m1 m2 m3 mW h1 h2 h3 path": a conflict has no place in a tree; the work tree's file has
		path = split(entry, f, 10);
		p->dirty += path != NULL;
		if (path)
			pathlist_add(&p->paths, p->prefix, path);
		break;
	case '?':
		if (n < 3 || entry[n - 1] == '/') // a repository in the repository: not ours to record
			break;
		p->untracked++;
		pathlist_add(&p->paths, p->prefix, entry + 2);
		break;
	}
}

// dirty: what a submodule's work tree has is not looked at, since that would be a git with the submodule's
// configuration.
static int status(struct pin *p, const char *excludes, struct err *e)
{
	auto_git struct git_run g;
	auto_free char *ignore = xasprintf("core.excludesFile=%s", excludes ? excludes : "/dev/null");
	pin_git(p, &g);
	g.tree = p->g->base;
	git_args(&g, "-c", ignore, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames",
		 "--ignore-submodules=dirty", NULL);
	if (git_start(&g, e))
		return -1;
	if (g.status)
		return err_set(e, ERR_SYSTEM, "git status of %s: %.300s", p->g->base, git_said(&g));
	for (char *s = g.out.p, *end = s ? s + g.out.n : NULL, *next; s && s < end; s = next) {
		next = s + strlen(s) + 1;
		take_entry(p, s);
	}
	return p->staged.overflow ? err_set(e, ERR_LIMIT, "too much of the index is not committed") : 0;
}

// ":mH mI hH hI X" and the path
int pin_scan_index(struct pin *p, struct err *e)
{
	static const char *const empty[] = {"4b825dc642cb6eb9a060e54bf8d69288fbee4904",
					    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"};
	auto_git struct git_run g;
	pin_git(p, &g);
	git_args(&g, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev",
		 "--ignore-submodules=dirty", p->head ? p->head : empty[p->config.hex == 64], NULL);
	if (git_must(&g, e))
		return -1;
	for (char *s = g.out.p, *end = s ? s + g.out.n : NULL, *next; s && s < end; s = next) {
		char *f[4], *status = split(s, f, 4), *path = status ? status + strlen(status) + 1 : end;
		if (path >= end)
			break;
		next = path + strlen(path) + 1;
		if (*status != 'U')
			stage(p, f[1], f[3], path);
	}
	return p->staged.overflow ? err_set(e, ERR_LIMIT, "too much of the index is not committed") : 0;
}

// Files that a sparse checkout leaves out.
static int absent(struct pin *p, struct err *e)
{
	auto_git struct git_run g;
	pin_git(p, &g);
	git_args(&g, "ls-files", "-t", "-z", NULL);
	if (git_must(&g, e))
		return -1;
	for (char *s = g.out.p, *end = s ? s + g.out.n : NULL; s && s < end; s += strlen(s) + 1)
		if (s[0] == 'S' && s[1] == ' ')
			pathlist_add(&p->gone, p->prefix, s + 2);
	return 0;
}

static int has_attributes(struct pin *p, bool *out, struct err *e)
{
	auto_git struct git_run g;
	struct stat st;
	pin_git(p, &g);
	g.patterns = true;
	git_args(&g, "ls-files", "-z", "--", ":(glob)**/.gitattributes", NULL);
	if (git_must(&g, e))
		return -1;
	*out = g.out.n || !fstatat(p->shadow, "info/attributes", &st, 0);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// ids: one for each path. Lengths of the blobs, one line each.
static int blob_sizes(struct pin *p, const struct buf *ids, struct git_run *g, struct err *e)
{
	auto_fd int in = git_stdin(ids->p, ids->n, e);
	if (in < 0)
		return -1;
	pin_git(p, g);
	g->in = in;
	git_args(g, "cat-file", "--batch-check=%(objectsize)", NULL);
	return git_must(g, e);
}

static void compare(struct pin *p, const struct pathlist *files, char *sizes)
{
	struct pathlist known = p->paths, found = {0}; // sorted by now
	for (size_t i = 0; i < files->n && sizes; i++) {
		char *next = strchr(sizes, '\n');
		struct str line = {sizes, next ? (size_t)(next - sizes) : strlen(sizes)};
		struct stat st;
		uint64_t size;
		if (!str_to_u64(line, 0, UINT64_MAX, &size) &&
		    !fstatat(p->base_fd, files->v[i], &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
		    (uint64_t)st.st_size != size &&
		    !(known.n && bsearch(&files->v[i], known.v, known.n, sizeof *known.v, by_bytes)))
			pathlist_add(&found, "", files->v[i]);
		sizes = next ? next + 1 : NULL;
	}
	for (size_t i = 0; i < found.n; i++)
		pathlist_add(&p->paths, "", found.v[i]);
	pathlist_done(&found);
}

// "100644 ID 0\tPATH"
static int converted(struct pin *p, struct err *e)
{
	auto_git struct git_run list, sizes;
	auto_buf struct buf ids = BUF_INIT(1024u << 20);
	struct pathlist files = {0};
	git_init(&sizes, GIT_ALONE, NULL);
	pin_git(p, &list);
	git_args(&list, "ls-files", "-s", "-z", NULL);
	int rc = git_must(&list, e);
	for (char *s = list.out.p, *end = s ? s + list.out.n : NULL, *next; !rc && s && s < end; s = next) {
		next = s + strlen(s) + 1;
		char *tab = strchr(s, '\t');
		if (!tab || !str_has_prefix(s, "100") || tab[-1] != '0' || tab - s < 10)
			continue;
		buf_fmt(&ids, "%.*s\n", (int)p->config.hex, s + 7);
		pathlist_add(&files, p->prefix, tab + 1);
	}
	if (p->paths.n)
		qsort(p->paths.v, p->paths.n, sizeof *p->paths.v, by_bytes);
	if (!rc && files.n) {
		git_done(&sizes);
		rc = blob_sizes(p, &ids, &sizes, e);
	}
	if (!rc && files.n)
		compare(p, &files, sizes.out.p);
	pathlist_done(&files);
	return rc;
}

int pin_scan(struct pin *p, struct err *e)
{
	auto_free char *excludes = NULL;
	bool attributes = false;
	ask_caller(&excludes, &p->config.converts);
	if (status(p, excludes, e) || (p->config.sparse && absent(p, e)) || has_attributes(p, &attributes, e))
		return -1;
	return attributes || p->config.converts ? converted(p, e) : 0;
}

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
		*excludes = xdg && *xdg ? xasprintf("%s/git/ignore", xdg) : xasprintf("%s/.config/git/ignore", home ? home : "");
	git_init(&g, GIT_CALLER, NULL);
	git_args(&g, "-C", "/", "config", "--null", "--type=path", "--get-regexp", "^core\\.(excludesfile|autocrlf|eol)$", NULL);
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

static bool is_unmerged(const char *xy)
{
	return xy[0] == 'U' || xy[1] == 'U' || !memcmp(xy, "AA", 2) || !memcmp(xy, "DD", 2);
}

// "XY path"
static void take_entry(struct pin *p, const char *entry)
{
	const char *path = entry + 3;
	size_t n = strlen(entry);
	if (n < 4 || path[n - 4] == '/') // a repository in the repository: not ours to record
		return;
	if (!memcmp(entry, "??", 2)) {
		p->untracked++;
		pathlist_add(&p->paths, path);
	} else if (is_unmerged(entry)) {
		p->dirty++;
		pathlist_add(&p->unmerged, path);
		pathlist_add(&p->paths, path);
	} else if (entry[1] == 'D') {
		p->dirty++;
		pathlist_add(&p->gone, path);
	} else if (entry[1] != ' ') {
		p->dirty++;
		pathlist_add(&p->paths, path);
	}
}

static int status(struct pin *p, const char *excludes, struct err *e)
{
	auto_git struct git_run g;
	auto_free char *ignore = xasprintf("core.excludesFile=%s", excludes ? excludes : "/dev/null");
	pin_git(p, &g);
	g.tree = p->args->dir;
	git_args(&g, "-c", ignore, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all", NULL);
	if (git_start(&g, e))
		return -1;
	if (g.status)
		return err_set(e, ERR_SYSTEM, "git status of %s: %.300s", p->args->dir, git_said(&g));
	for (char *s = g.out.p, *end = s ? s + g.out.n : NULL; s && s < end; s += strlen(s) + 1)
		take_entry(p, s);
	return 0;
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
			pathlist_add(&p->gone, s + 2);
	return 0;
}

static int has_attributes(struct pin *p, bool *out, struct err *e)
{
	auto_git struct git_run g;
	struct stat st;
	pin_git(p, &g);
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
		if (!str_to_u64(line, 0, UINT64_MAX, &size) && !fstatat(p->base_fd, files->v[i], &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
		    (uint64_t)st.st_size != size && !(known.n && bsearch(&files->v[i], known.v, known.n, sizeof *known.v, by_bytes)))
			pathlist_add(&found, files->v[i]);
		sizes = next ? next + 1 : NULL;
	}
	for (size_t i = 0; i < found.n; i++)
		pathlist_add(&p->paths, found.v[i]);
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
		pathlist_add(&files, tab + 1);
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

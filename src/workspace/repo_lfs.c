// SPDX-License-Identifier: Apache-2.0
// Large files (LFS) of a checkout: git-lfs gets them with the caller's credentials into a store beside the mirror; then
// they are checked out from there without the network and without anybody's configuration. The endpoint is that of the
// URL, whatever the repository's .lfsconfig says.
#include "workspace/repo_checkout_int.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_wanted(const struct checkout *c)
{
	struct err e;
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, c->repo);
	g.patterns = true;
	git_args(&g, "grep", "-q", "filter=lfs", c->commit, "--", ".gitattributes", "**/.gitattributes", NULL);
	return !git_start(&g, &e) && !g.status;
}

static bool has_lfs(void)
{
	const char *path = getenv("PATH");
	auto_free char *all = xasprintf("/usr/local/bin:/usr/bin:/bin:%s", path ? path : "");
	auto_free char *found = proc_find(all, "git-lfs");
	return found;
}

static void settings(struct git_run *g, const struct checkout *c)
{
	bool web = str_has_prefix(c->url, "http");
	auto_free char *storage = xasprintf("lfs.storage=%s/lfs", c->repo),
		       *remote = xasprintf("remote.origin.url=%s", c->url);
	auto_free char *url =
		web ? xasprintf("lfs.url=%s%s/info/lfs", c->url, str_has_suffix(c->url, ".git") ? "" : ".git")
		    : xasprintf("lfs.url=%s", c->url);
	git_args(g, "-c", storage, "-c", remote, "-c", url, "-c", "lfs.transfer.maxretries=2", NULL);
}

// NULL, or why the files stay what they are in the repository: pointers.
static const char *get(const struct tree *t, const struct checkout *c, char **why)
{
	struct repo_url u = {0};
	struct err e = {0};
	auto_git struct git_run g;
	if (!has_lfs())
		return "git-lfs is not installed";
	if (!c->url || repo_url_parse(c->url, &u, &e) ||
	    (!str_has_prefix(u.scheme, "http") && strcmp(u.scheme, "ssh"))) {
		repo_url_done(&u);
		return "they come over https and ssh only";
	}
	if (t->url.user && !u.user && !strcmp(u.place, t->url.place)) {
		u.user = xstrdup(t->url.user);
		u.password = t->url.password ? xstrdup(t->url.password) : NULL;
	}
	remote_init(&g, &u, c->repo, -1);
	settings(&g, c);
	g.relay = true;
	g.patterns = true; // what it starts has patterns of its own
	git_args(&g, "lfs", "fetch", "origin", c->commit, NULL);
	int rc = git_start(&g, &e);
	repo_url_done(&u);
	if (rc || g.status)
		*why = xasprintf("%.300s", rc ? e.msg : git_said(&g));
	return *why;
}

void lfs_use(struct tree *t, const struct checkout *c, struct git_run *g)
{
	auto_free char *why = NULL;
	if (!is_wanted(c))
		return;
	const char *no = get(t, c, &why);
	if (no) {
		auto_free char *s = xasprintf("large files (LFS) are left as pointers: %s", no);
		return tree_skip(t, *c->path ? c->path : "LFS", s);
	}
	settings(g, c);
	git_args(g, "-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.smudge=git-lfs smudge -- %f",
		 "-c", "filter.lfs.clean=git-lfs clean -- %f", "-c", "filter.lfs.required=true", NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What the host's .gitignore files name is build output and caches: a sandbox's is not part of a review unless it is asked
// for. Only the host's own files decide, never those of the sandbox; git is run on our shadow repository with the host's
// directory as its work tree, so that no configuration of the host's repository is read.
#include "workspace/review.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_git.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

// Before each path: check-ignore knows no literal paths, and would take ":!x" for one that is left out.
#define HERE "./"

// New, or there already and ignored when the base was pinned.
static bool may_be_ignored(const struct change *c)
{
	return c->kind == CHANGE_DIR || c->p.type == SIDE_NONE || c->implied;
}

// git gives up on all of them for one that lies behind a symbolic link, which a sandbox can have put there by an apply.
static bool is_behind_link(const struct review *r, const char *path)
{
	struct err e = {0};
	const char *slash = strrchr(path, '/');
	auto_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
	auto_fd int fd = dir ? fs_open_beneath(r->root, dir, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &e) : -1;
	return dir && fd < 0 && e.sys != ENOENT;
}

static size_t candidates(const struct review *r, struct buf *out)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct change *c = r->v[i];
		if (!may_be_ignored(c) || is_behind_link(r, c->path))
			continue;
		buf_fmt(out, HERE "%s%s", c->path, c->kind == CHANGE_DIR ? "/" : "");
		buf_byte(out, 0);
		n++;
	}
	return n;
}

// Answers come in the order of the questions.
static void drop(struct review *r, const char *said, size_t n)
{
	size_t to = 0;
	const char *end = said + n;
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i];
		size_t len = strlen(c->path);
		const char *path = said < end && str_has_prefix(said, HERE) ? said + strlen(HERE) : NULL;
		bool named = path && may_be_ignored(c) && !strncmp(path, c->path, len) && (!path[len] || !strcmp(path + len, "/"));
		if (!named) {
			r->v[to++] = c;
			continue;
		}
		said += strlen(said) + 1;
		change_free(c);
		r->ignored++;
	}
	r->n = to;
}

int review_drop_ignored(struct review *r, struct err *e)
{
	auto_buf struct buf ask = BUF_INIT(256u << 20);
	if (r->root < 0 || !fs_exists(r->root, ".git") || !candidates(r, &ask))
		return 0;
	if (ask.overflow)
		return err_set(e, ERR_LIMIT, "too many new files to ask git about");
	auto_git struct git_run g;
	git_init(&g, GIT_ALONE, r->spec.shadow);
	g.tree = r->spec.target;
	g.patterns = true;
	git_args(&g, "check-ignore", "-z", "--stdin", "--no-index", NULL);
	auto_fd int in = git_stdin(ask.p, ask.n, e);
	g.in = in;
	g.out.max = 256u << 20;
	if (in < 0 || git_start(&g, e))
		return -1;
	if (!WIFEXITED(g.status) || WEXITSTATUS(g.status) > 1)
		return err_set(e, ERR_SYSTEM, "git could not say what is ignored: %s", git_said(&g));
	if (g.out.n)
		drop(r, g.out.p, g.out.n);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
// skep-repo pin: see pin.h. git looks at the work tree through SHADOW.git, whose configuration is ours, with a copy
// of the host's index: nothing in the work tree or in its .git can make it run anything.
#include "workspace/pin_int.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/repo_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define INDEX "skep-index"

void pin_git(struct pin *p, struct git_run *g)
{
	git_init(g, GIT_ALONE, p->args->shadow);
	g->out.max = 1024u << 20;
	g->hold = p->shadow;
	if (p->index)
		git_var(g, p->index);
}

void pathlist_add(struct pathlist *l, const char *prefix, const char *path)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = xrealloc(l->v, l->cap * sizeof *l->v);
	}
	l->v[l->n++] = xasprintf("%s%s", prefix, path);
}

void pathlist_done(struct pathlist *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct pathlist){0};
}

static int make_shadow(const char *path, struct err *e)
{
	struct repo_dir d = {.fd = -1};
	int rc = repo_dir_begin(path, &d, e);
	if (rc > 0)
		rc = gitlayer_frame(d.fd, NULL, e) || fs_write(d.fd, "HEAD", "ref: refs/heads/none\n", 21, 0644, e) ||
				     fs_write(d.fd, "config", "[core]\n\tbare = true\n", 20, 0644, e) ||
				     repo_dir_commit(&d, e)
			     ? -1
			     : 0;
	repo_dir_drop(&d);
	return rc;
}

static int open_shadow(struct pin *p, struct err *e)
{
	static const char *const dirs[] = {"info", "objects/info", "objects/pack", "refs"};
	if (make_shadow(p->args->shadow, e))
		return -1;
	p->shadow = fs_open(AT_FDCWD, p->args->shadow, O_RDONLY | O_DIRECTORY, 0, e);
	if (p->shadow < 0)
		return -1;
	// a review that came before the pin has made only what it needs itself
	for (size_t i = 0; i < countof(dirs); i++)
		if (fs_mkdirs(p->shadow, dirs[i], 0755, e))
			return -1;
	while (flock(p->shadow, LOCK_EX))
		if (errno != EINTR)
			return err_sys(e, "lock %s", p->args->shadow);
	return 0;
}

// The objects it borrows: the same that a cell may, by their places on the host.
static int borrow(struct pin *p, struct err *e)
{
	struct gitlayer l = {.objects = "/", .allowed = p->args->allowed};
	char **places = NULL;
	int rc = gitfiles_objects(p->g, &l, &places, e);
	for (char **m = l.mounts; !rc && m && *m; m++)
		if (**m != '\t')
			buf_fmt(&p->alternates, "%.*s\n", (int)strcspn(*m, "\t"), *m);
	if (!rc)
		rc = fs_replace(p->shadow, "objects/info/alternates", p->alternates.p, p->alternates.n, 0644, e);
	strv_free(places);
	gitlayer_done(&l);
	return rc;
}

static int configure(struct pin *p, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1u << 20);
	char *texts[2] = {NULL, NULL};
	gitconfig_done(&p->config);
	int rc = gitfiles_config(p->g, texts, e);
	if (!rc)
		rc = gitconfig_core(texts, &b, &p->config, e);
	free(texts[0]);
	free(texts[1]);
	gitconfig_add(&b, "core.bare", "false");
	gitconfig_add(&b, "core.repositoryformatversion", p->config.hex == 64 ? "1" : "0");
	return rc ? -1 : fs_replace(p->shadow, "config", b.p, b.n, 0644, e);
}

static int find_head(struct pin *p, struct err *e)
{
	struct gitrefs r = {.hex = p->config.hex};
	auto_buf struct buf b = BUF_INIT(4096);
	auto_free char *branch = NULL;
	free(p->head);
	p->head = NULL;
	if (!p->config.reftable && gitrefs_read(p->g, p->config.hex, &r, e))
		return -1;
	if (gitdir_read(p->g->dir_fd, "HEAD", &b, e) > 0)
		gitrefs_head(&r, &b, &p->head, &branch);
	gitrefs_done(&r);
	auto_free char *text = p->head ? xasprintf("%s\n", p->head) : xstrdup("ref: refs/heads/none\n");
	return fs_replace(p->shadow, "HEAD", text, strlen(text), 0644, e);
}

static int copy_text(struct pin *p, int from, const char *name, struct err *e)
{
	struct err why;
	auto_buf struct buf b = BUF_INIT(4u << 20);
	if (gitdir_read(from, name, &b, &why) <= 0)
		return unlinkat(p->shadow, name, 0) && errno != ENOENT ? err_sys(e, "%s", name) : 0;
	return fs_replace(p->shadow, name, buf_cstr(&b), b.n, 0644, e);
}

// A copy as old as the host's, to the nanosecond: git then trusts and doubts the same entries.
static int copy_index(struct pin *p, struct err *e)
{
	static const char *const old[] = {INDEX, INDEX ".lock"};
	for (size_t i = 0; i < countof(old); i++)
		if (unlinkat(p->shadow, old[i], 0) && errno != ENOENT)
			return err_sys(e, "%s", old[i]);
	free(p->index);
	p->index = xasprintf("GIT_INDEX_FILE=%s/" INDEX, p->args->shadow);
	return gitfiles_index(p->g->dir_fd, "index", p->shadow, INDEX, INDEX_EXACT, e) ||
			       gitfiles_sharedindex(p->g->dir_fd, p->shadow, e)
		       ? -1
		       : 0;
}

static int prepare(struct pin *p, struct err *e)
{
	return configure(p, e) || borrow(p, e) || find_head(p, e) || copy_text(p, p->g->common_fd, "info/exclude", e) ||
			       copy_text(p, p->g->common_fd, "info/attributes", e) ||
			       copy_text(p, p->g->dir_fd, "info/sparse-checkout", e) || copy_index(p, e) ||
			       fault(FAULT_PIN_BEGIN, e)
		       ? -1
		       : 0;
}

static int read_paths(struct pin *p, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(256u << 20);
	if (fs_read_fd(STDIN_FILENO, &b, e))
		return err_wrap(e, "paths on standard input");
	for (char *s = b.p; s && s < b.p + b.n; s += strlen(s) + 1)
		if (*s)
			pathlist_add(&p->paths, "", s);
	return 0;
}

// A submodule's files take the place of its commit.
static int replace_link(struct pin *p, const char *rel, struct err *e)
{
	auto_free char *tree = NULL;
	buf_str(&p->staged, "D ");
	pin_quote(&p->staged, "", rel);
	buf_byte(&p->staged, '\n');
	if (!p->head)
		return 0;
	if (pin_tree(p, "HEAD^{tree}", &tree, e))
		return -1;
	buf_fmt(&p->staged, "M 040000 %s ", tree);
	pin_quote(&p->staged, "", rel);
	buf_byte(&p->staged, '\n');
	return 0;
}

static int look_at(struct pin *p, const struct gitdir *g, const char *rel, struct err *e);

static int on_module(void *ctx, const struct gitdir *sub, const char *rel, const char *name, struct err *e)
{
	(void)name;
	struct pin *p = ctx;
	if (sub)
		return look_at(p, sub, rel, e);
	auto_free char *s = xasprintf("submodule %s: %s", rel, e->msg);
	strv_add(&p->skipped, s);
	return 0;
}

// One repository, and the submodules in it.
static int look_at(struct pin *p, const struct gitdir *g, const char *rel, struct err *e)
{
	auto_free char *prefix = *rel ? xasprintf("%s/", rel) : xstrdup("");
	unsigned hex = p->config.hex;
	p->g = g;
	p->prefix = prefix;
	if (prepare(p, e))
		return -1;
	if (*rel && p->config.hex != hex)
		return err_set(e, ERR_UNSUPPORTED, "submodule %s has another object format than its superproject", rel);
	if (!*rel && p->head && (pin_tree(p, "HEAD^{tree}", &p->tree, e) || !(p->commit = xstrdup(p->head))))
		return -1;
	if ((*rel && replace_link(p, rel, e)) || (p->args->paths ? pin_scan_index(p, e) : pin_scan(p, e)))
		return -1;
	return gitdir_modules(p->top, g, on_module, p, e);
}

static uint64_t count_files(struct pin *p, const char *tree)
{
	struct err e;
	uint64_t n = 0;
	auto_git struct git_run g;
	pin_git(p, &g);
	git_args(&g, "ls-tree", "-r", "-z", "--name-only", tree, NULL);
	if (git_start(&g, &e) || g.status)
		return 0;
	for (size_t i = 0; i < g.out.n; i++)
		n += !g.out.p[i];
	return n;
}

static void print(struct buf *out, const struct pin *p, const char *tree, uint64_t files, uint64_t t0)
{
	char *none[] = {NULL};
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kstr(&w, "tree", tree);
	if (p->commit)
		jw_kstr(&w, "commit", p->commit);
	jw_ku64(&w, "files", files);
	jw_ku64(&w, "dirty", p->dirty);
	jw_ku64(&w, "untracked", p->untracked);
	jw_kstrv(&w, "skipped", p->skipped ? p->skipped : none);
	jw_ku64(&w, "t0", t0);
	jw_close(&w, '}');
}

static void print_manifest(struct buf *out, const char *blob, uint64_t files, uint64_t t0)
{
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kstr(&w, "manifest", blob);
	jw_ku64(&w, "files", files);
	jw_ku64(&w, "t0", t0);
	jw_close(&w, '}');
}

static int run(struct pin *p, struct buf *out, struct err *e)
{
	uint64_t t0 = clock_unix_ms(), files = 0;
	auto_free char *made = NULL;
	if (open_shadow(p, e))
		return -1;
	if (!p->top) {
		if (pin_manifest(p, &made, &files, e))
			return -1;
		print_manifest(out, made, files, t0);
		return 0;
	}
	if (look_at(p, p->top, "", e) || (p->args->paths && read_paths(p, e)) || fault(FAULT_PIN_SCAN, e) ||
	    pin_store(p, &made, e))
		return -1;
	print(out, p, made, count_files(p, made), t0);
	return 0;
}

int repo_pin(const struct repo_args *a, struct buf *out, struct err *e)
{
	struct pin p = {.args = a, .shadow = -1, .staged = BUF_INIT(1024u << 20), .alternates = BUF_INIT(256u << 10)};
	struct gitdir g;
	struct err why;
	uint64_t t0 = 0;
	if (a->t0 && str_to_u64(str_of(a->t0), 0, INT64_MAX, &t0))
		return err_set(e, ERR_INVALID, "--t0 %.40s is no time", a->t0);
	p.t0_ns = (int64_t)t0;
	gitdir_init(&g);
	p.top = gitdir_open(a->dir, &g, &why) > 0 ? &g : NULL;
	p.base_fd = fs_open(AT_FDCWD, a->dir, O_RDONLY | O_DIRECTORY, 0, e);
	int rc = p.base_fd < 0 ? -1 : run(&p, out, e);
	gitdir_close(&g);
	gitconfig_done(&p.config);
	pathlist_done(&p.paths);
	pathlist_done(&p.gone);
	buf_done(&p.staged);
	buf_done(&p.alternates);
	free(p.index);
	free(p.head);
	free(p.commit);
	free(p.tree);
	strv_free(p.skipped);
	close_fd(&p.shadow);
	close_fd(&p.base_fd);
	return rc;
}

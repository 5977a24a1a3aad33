// SPDX-License-Identifier: Apache-2.0
// skep-repo gitlayer: OUT/ws/.git, made from one state of the host's repository. The host may commit meanwhile; then
// it is made again, so that HEAD, refs and index are always of one moment.
#include "workspace/repo.h"
#include "workspace/repo_layer_int.h"

#include "base/fault.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "workspace/gitobjects.h"
#include "workspace/gitstate.h"
#include "workspace/repo_dir.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRIES 10

void repo_print_layer(struct jsonw *w, const struct gitlayer *l)
{
	char *none[] = {NULL};
	if (l->head)
		jw_kstr(w, "head", l->head);
	if (l->branch)
		jw_kstr(w, "branch", l->branch);
	jw_kstrv(w, "mounts", l->mounts ? l->mounts : none);
	jw_kstrv(w, "skipped", l->skipped ? l->skipped : none);
}

static void print(struct buf *out, const struct gitstate *s, const struct gitlayer *l)
{
	char *none[] = {NULL};
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_kbool(&w, "git", s->git);
	if (s->git) {
		jw_kstr(&w, "key", s->crowded ? "" : s->key);
		repo_print_layer(&w, l);
	} else if (s->why[0]) {
		jw_kstr(&w, "reason", s->why);
		jw_kstr(&w, "key", s->key);
		jw_kstrv(&w, "mounts", none);
	}
	jw_close(&w, '}');
}

static void rest(void)
{
	struct timespec tick = {.tv_nsec = 25000000};
	nanosleep(&tick, NULL); // longer than the kernel's tick: what changes from now on has another time
}

// 1: made of one state, which is *s; 0: the host changed it meanwhile; -1.
static int try(const struct repo_args *a, int into, struct gitstate *s, struct gitlayer *l, struct err *e)
{
	struct gitdir g;
	if (gitstate_read(a->dir, s, e))
		return -1;
	if (!s->git)
		return (s->why[0] ? gitlayer_hide(into, e) : fs_mkdirs(into, "ws", 0755, e)) ? -1 : 1;
	if (s->young) {
		rest();
		return 0;
	}
	int rc = gitdir_open(a->dir, &g, e);
	if (rc <= 0)
		return 0;
	l->objects = a->objects ? a->objects : GITLAYER_OBJECTS;
	l->allowed = a->allowed;
	rc = gitlayer_make(&g, into, l, e);
	gitdir_close(&g);
	return s->crowded || gitstate_same(s) ? (rc ? -1 : 1) : 0;
}

// Each directory that would be borrowed from, as INTO/objects/N.
static int keep_objects(const char *into, int keep, struct gitlayer *l, struct err *e)
{
	char **own = NULL;
	int rc = 0;
	uint64_t bytes = 0;
	for (char **m = l->mounts; !rc && m && *m; m++) {
		const char *tab = strchr(*m, '\t');
		if (tab == *m)
			continue; // what is hidden there is not taken along
		auto_free char *source = xstrndup(*m, (size_t)(tab - *m)), *name = xasprintf("%zu", strv_len(own));
		auto_free char *mount = xasprintf("%s/objects/%s%s", into, name, tab);
		auto_fd int from = fs_open(AT_FDCWD, source, O_RDONLY | O_DIRECTORY, 0, e);
		rc = from < 0 || fs_mkdirs(keep, name, 0755, e) ? -1 : 0;
		auto_fd int to = rc ? -1 : fs_open(keep, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
		if (!rc)
			rc = to < 0 || gitobjects_keep(from, to, &bytes, e) ? -1 : 0;
		strv_add(&own, mount);
	}
	strv_free(l->mounts);
	l->mounts = own;
	return rc ? err_wrap(e, "objects of the repository") : 0;
}

int repo_make_layer(const struct repo_args *a, int into, int keep, struct buf *out, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		struct gitstate s = {0};
		struct gitlayer l = {0};
		int rc = try(a, into, &s, &l, e);
		if (rc > 0 && keep >= 0 && keep_objects(a->into, keep, &l, e))
			rc = -1;
		if (rc > 0)
			print(out, &s, &l);
		gitlayer_done(&l);
		gitstate_done(&s);
		if (rc)
			return rc > 0 ? 0 : -1;
		if (fs_remove_tree(into, "ws", e))
			return -1;
	}
	return err_set(e, ERR_CONFLICT, "the repository in %s keeps changing; try again when git is done there",
		       a->dir);
}

int repo_write_result(int dir, struct buf *out, struct err *e)
{
	if (out->overflow)
		return err_set(e, ERR_LIMIT, "the result is too long");
	return fs_write(dir, "result.json", buf_cstr(out), out->n, 0644, e) || fault(FAULT_REPO_RESULT, e) ? -1 : 0;
}

int repo_read_result(const char *path, struct buf *out, struct err *e)
{
	auto_free char *file = xasprintf("%s/result.json", path);
	return fs_read(AT_FDCWD, file, out, e);
}

int repo_gitlayer(const struct repo_args *a, struct buf *out, struct err *e)
{
	struct repo_dir d = {.fd = -1};
	int rc = repo_dir_begin(a->into, &d, e);
	if (rc <= 0)
		return rc ? -1 : repo_read_result(a->into, out, e);
	rc = repo_make_layer(a, d.fd, -1, out, e) || repo_write_result(d.fd, out, e) || repo_dir_commit(&d, e) ? -1 : 0;
	repo_dir_drop(&d);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
#include "init/collect.h"

#include "base/delta.h"
#include "base/fs.h"
#include "base/mem.h"
#include "init/ignored.h"
#include "init/stack.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEND_MAX (8ULL << 30) // a file longer than this is named, not sent: sparse ones have no end

static const struct changes_of *layers;
static const char *workspace;
static struct changes_of kept;
static int kept_lowers[STACK_MAX], kept_homes[STACK_MAX];

void collect_init(const struct changes_of *of, const char *ws_path)
{
	layers = of;
	workspace = ws_path;
}

bool collect_is(char *const *argv)
{
	return argv[0] && (!strcmp(argv[0], "collect") || !strcmp(argv[0], "watch"));
}

// dup2 twice: a target number may be one of those still to be moved.
static int move_down(const int *fds, int n, int from)
{
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0 && dup3(fds[i], 500 + i, O_CLOEXEC) < 0)
			return -1;
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0 && dup3(500 + i, from + i, O_CLOEXEC) < 0)
			return -1;
	return from + n;
}

int collect_keep(int from)
{
	int fds[2 * STACK_MAX + 2], n = layers ? layers->n_lowers : 0;
	if (!layers || n > STACK_MAX)
		return from;
	kept = *layers;
	fds[0] = layers->layer;
	fds[1] = layers->base;
	for (int i = 0; i < n; i++) {
		fds[2 + i] = layers->lowers[i];
		fds[2 + n + i] = layers->homes ? layers->homes[i] : -1;
	}
	int end = move_down(fds, 2 * n + 2, from);
	if (end < 0)
		return from;
	kept.layer = fds[0] < 0 ? -1 : from;
	kept.base = fds[1] < 0 ? -1 : from + 1;
	for (int i = 0; i < n; i++) {
		kept_lowers[i] = fds[2 + i] < 0 ? -1 : from + 2 + i;
		kept_homes[i] = fds[2 + n + i] < 0 ? -1 : from + 2 + n + i;
	}
	kept.lowers = kept_lowers;
	kept.homes = kept_homes;
	return end;
}

const struct changes_of *collect_layers(const char **out_workspace)
{
	*out_workspace = workspace;
	return &kept;
}

struct collecting {
	struct delta_out out;
	int ws; // the workspace as it is seen inside
	struct err e;
	bool failed;
	struct known told; // paths that are changed files
	struct ignored rules;
	char **gits;
};

static int put_link(struct collecting *c, const char *path)
{
	char target[DELTA_PATH + 1];
	auto_fd int fd = fs_open_beneath(c->ws, path, O_PATH | O_NOFOLLOW, 0, &c->e);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target - 1);
	if (n <= 0 || n > DELTA_PATH)
		return delta_put(&c->out, 'u', false, path, &c->e);
	target[n] = 0;
	return delta_put_link(&c->out, path, target, &c->e);
}

// dir: it was told as an empty directory. Another one is one that the walk could not look into, and is said to be so.
static int put_file(struct collecting *c, const char *path, bool dir)
{
	struct stat st;
	// O_NONBLOCK: whatever it is by now, opening it must not wait
	auto_fd int fd = fs_open_beneath(c->ws, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, &c->e);
	if (fd < 0 && c->e.sys == ELOOP)
		return put_link(c, path);
	if (fd < 0 && (c->e.sys == ENOENT || c->e.sys == ENOTDIR))
		return 0; // gone since it was listed
	if (fd < 0 && c->e.sys == ENXIO)
		return delta_put(&c->out, 's', false, path, &c->e);
	if (fd < 0 || fstat(fd, &st))
		return delta_put(&c->out, 'u', false, path, &c->e);
	if (S_ISDIR(st.st_mode))
		return delta_put(&c->out, dir ? 'd' : 'u', false, path, &c->e);
	if (!S_ISREG(st.st_mode))
		return delta_put(&c->out, 's', false, path, &c->e);
	if ((uint64_t)st.st_size > SEND_MAX)
		return delta_put_huge(&c->out, path, st.st_mode & 0100, (uint64_t)st.st_size, &c->e);
	return delta_put_fd(&c->out, path, fd, &c->e);
}

// What a file became a directory over is told as gone, and then what is in the directory.
static int put_gone(struct collecting *c, const char *path)
{
	struct err none;
	auto_fd int fd = fs_open_beneath(c->ws, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &none);
	return delta_put(&c->out, fd < 0 ? 'x' : 'd', false, path, &c->e);
}

// A .git in what is ignored holds other people's work.
static void git_found(struct collecting *c, const char *path)
{
	auto_free char *dir = xstrndup(path, strlen(path) - strlen(".git"));
	if (!ignored_is(&c->rules, dir, true, false))
		strv_add(&c->gits, path);
}

static bool is_told(void *ctx, const char *path)
{
	return known_find(&((struct collecting *)ctx)->told, path) != NULL;
}

// Under names that no file of the workspace has (base/delta.h).
static void put_extra(struct collecting *c, const char *where, const char *what)
{
	auto_free char *path = xasprintf("%s%s", where, what);
	if (!c->failed && delta_path_ok(path))
		c->failed = delta_put(&c->out, 'r', false, path, &c->e);
}

static void on_gitwork(void *ctx, const char *what)
{
	put_extra(ctx, DELTA_WORK_GIT, what);
}

static void on_outside(void *ctx, const char *path)
{
	put_extra(ctx, DELTA_WORK_HOME, path);
}

static void on_change(void *ctx, char kind, const char *path)
{
	struct collecting *c = ctx;
	size_t n = strlen(path);
	if (kind == 'G')
		git_found(c, path);
	else if (kind != 'D' && !known_find(&c->told, path))
		known_add(&c->told, path);
	const char *slash = strrchr(path, '/');
	auto_free char *plain = xstrndup(path, n && path[n - 1] == '/' ? n - 1 : n);
	if (c->failed)
		return;
	int rc;
	if (!delta_path_ok(plain))
		rc = err_set(&c->e, ERR_LIMIT, "a changed path is too long: %.100s", plain);
	else if ((slash ? slash[1] : path[0]) == '(' && faccessat(c->ws, plain, F_OK, AT_SYMLINK_NOFOLLOW))
		rc = delta_put(&c->out, 'u', false, plain, &c->e); // the walk's own word for what it could not look at
	else if (kind == 'G')
		rc = delta_put(&c->out, 'g', false, plain, &c->e);
	else if (kind == 'D')
		rc = put_gone(c, plain);
	else
		rc = put_file(c, plain, n && path[n - 1] == '/');
	c->failed = rc;
}

int collect_run(struct err *e)
{
	struct collecting c = {.ws = -1};
	struct stack s;
	auto_fd int ws = workspace ? fs_open(AT_FDCWD, workspace, O_RDONLY | O_DIRECTORY, 0, e)
				   : err_set(e, ERR_UNSUPPORTED, "there is no workspace to collect from");
	if (ws < 0)
		return -1;
	auto_fd int top = changes_stack(&kept, &s);
	if (top < 0)
		return err_sys(e, "open the writable layer");
	s.all = true;
	c.ws = ws;
	ignored_begin(&c.rules, &s);
	delta_out_init(&c.out, 1);
	int rc = stack_changes(&s, on_change, &c, e);
	if (!rc)
		changes_extra(&kept, &s, c.gits, &(struct changes_each){on_gitwork, is_told, on_outside, &c});
	ignored_end(&c.rules);
	known_done(&c.told);
	strv_free(c.gits);
	if (!rc && c.failed) {
		*e = c.e;
		rc = -1;
	}
	if (!rc)
		rc = delta_end(&c.out, e);
	delta_out_done(&c.out);
	return rc;
}

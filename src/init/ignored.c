// SPDX-License-Identifier: Apache-2.0
#include "init/ignored.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct ignored_level {
	char *name;
	struct stack_dir dir; // as the base shows it; n = 0: the base has none
	struct ignore rules;
	bool ignored; // with everything below
};

static void rules_read(struct ignore *out, const struct stack_dir *dir, const char *name)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(IGNORE_FILE_MAX);
	auto_fd int fd = dir->n ? stack_dir_open(dir, name) : -1;
	if (fd >= 0 && !fs_read_fd(fd, &b, &e))
		ignore_parse(out, buf_cstr(&b), b.n);
}

static void level_push(struct ignored *g, const char *name, const struct stack_dir *dir, bool is_ignored)
{
	if (g->n_levels == g->cap) {
		g->cap = g->cap ? g->cap * 2 : 16;
		g->levels = xrealloc(g->levels, g->cap * sizeof *g->levels);
	}
	struct ignored_level *l = &g->levels[g->n_levels++];
	*l = (struct ignored_level){.name = xstrdup(name), .dir = *dir, .ignored = is_ignored};
	if (!is_ignored)
		rules_read(&l->rules, &l->dir, ".gitignore");
}

static void level_pop(struct ignored *g)
{
	struct ignored_level *l = &g->levels[--g->n_levels];
	if (g->n_levels) // the top's is borrowed
		stack_dir_close(&l->dir);
	ignore_done(&l->rules);
	free(l->name);
}

void ignored_begin(struct ignored *g, const struct stack *s)
{
	struct stack_dir info;
	*g = (struct ignored){0};
	stack_dir_top(s, STACK_LOWER, &g->base);
	g->on = stack_dir_look(&g->base, ".git") != STACK_ABSENT;
	if (!g->on)
		return;
	if (stack_dir_enter(&g->base, ".git/info", &info)) {
		rules_read(&g->exclude, &info, "exclude");
		stack_dir_close(&info);
	}
	level_push(g, "", &g->base, false);
}

void ignored_end(struct ignored *g)
{
	while (g->n_levels)
		level_pop(g);
	free(g->levels);
	ignore_done(&g->exclude);
	gitindex_done(&g->index);
	*g = (struct ignored){0};
}

// The file nearest to the path decides first.
static bool levels_fit(const struct ignored *g, const char *path, bool is_dir)
{
	const char *rest[256];
	size_t n = 0;
	for (const char *p = path; p && n < countof(rest); p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
		rest[n++] = p;
	for (size_t i = g->n_levels; i--;) {
		enum ignore_fit fit = i < n ? ignore_fit(&g->levels[i].rules, rest[i], is_dir) : IGNORE_SILENT;
		if (fit != IGNORE_SILENT)
			return fit == IGNORE_YES;
	}
	return ignore_fit(&g->exclude, path, is_dir) == IGNORE_YES;
}

// One directory further down. path: as far as it goes now.
static void level_enter(struct ignored *g, const char *path, const char *name)
{
	const struct ignored_level *above = &g->levels[g->n_levels - 1];
	struct stack_dir dir = {0};
	bool is_ignored = above->ignored || levels_fit(g, path, true);
	if (!is_ignored && above->dir.n)
		stack_dir_enter(&above->dir, name, &dir);
	level_push(g, name, &dir, is_ignored);
}

// Leaves levels that are not on the way to path, and enters those that are missing.
static void levels_follow(struct ignored *g, const char *path)
{
	size_t depth = 1;
	const char *p = path;
	for (const char *slash; (slash = strchr(p, '/')); p = slash + 1, depth++) {
		auto_free char *name = xstrndup(p, (size_t)(slash - p)), *so_far = xstrndup(path, (size_t)(slash - path));
		if (depth < g->n_levels && strcmp(g->levels[depth].name, name))
			while (g->n_levels > depth)
				level_pop(g);
		if (depth == g->n_levels)
			level_enter(g, so_far, name);
	}
	while (g->n_levels > depth)
		level_pop(g);
}

// The index is read when the first path asks for it.
static bool is_tracked(struct ignored *g, const char *path)
{
	struct stack_dir git;
	if (!g->index_read && stack_dir_enter(&g->base, ".git", &git)) {
		auto_fd int fd = stack_dir_open(&git, "index");
		if (gitindex_read(&g->index, fd))
			gitindex_done(&g->index);
		stack_dir_close(&git);
	}
	g->index_read = true;
	return gitindex_covers(&g->index, path);
}

bool ignored_is(struct ignored *g, const char *path, bool is_dir, bool in_base)
{
	size_t n = strlen(path);
	bool slash = n && path[n - 1] == '/';
	auto_free char *plain = xstrndup(path, slash ? n - 1 : n);
	if (!g->on || !n)
		return false;
	levels_follow(g, plain);
	if (!g->levels[g->n_levels - 1].ignored && !levels_fit(g, plain, is_dir || slash))
		return false;
	return !in_base || !is_tracked(g, plain);
}

// SPDX-License-Identifier: Apache-2.0
#include "init/outside.h"

#include "base/mem.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 60

struct outside {
	void (*fn)(void *ctx, const char *path);
	void *ctx;
	size_t left; // names that may still be looked at
};

static bool is_surroundings(const char *name, bool top)
{
	static const char *const filled[] = {"go", "snap", "perl5", "node_modules"};
	if (*name == '.' || !strcmp(name, "node_modules"))
		return true;
	for (size_t i = 0; top && i < countof(filled); i++)
		if (!strcmp(name, filled[i]))
			return true;
	return false;
}

static void outside_walk(struct outside *o, const struct stack_dir *d, const char *path, int depth)
{
	auto_names struct names n = {0};
	if (depth > DEPTH_MAX || stack_dir_names(d, &n, o->left))
		return;
	o->left -= n.n < o->left ? n.n : o->left;
	for (size_t i = 0; i < n.n; i++) {
		struct stack_dir sub;
		const char *name = n.list[i].name;
		if (is_surroundings(name, !depth))
			continue;
		auto_free char *full = depth ? xasprintf("%s/%s", path, name) : xstrdup(name);
		if (stack_dir_enter(d, name, &sub)) {
			outside_walk(o, &sub, full, depth + 1);
			stack_dir_close(&sub);
		} else {
			o->fn(o->ctx, full);
		}
	}
}

void outside_each(const struct changes_of *of, void (*fn)(void *ctx, const char *path), void *ctx)
{
	struct outside o = {fn, ctx, LIMIT_WALK};
	struct stack_dir top = {0};
	auto_fd int home = openat(of->layer, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (home >= 0)
		top.fd[top.n++] = home;
	for (int i = 0; of->homes && i < of->n_lowers - of->n_base_lowers; i++)
		if (of->homes[i] >= 0)
			top.fd[top.n++] = of->homes[i];
	if (top.n)
		outside_walk(&o, &top, "", 0);
}

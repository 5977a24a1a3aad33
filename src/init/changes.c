// SPDX-License-Identifier: Apache-2.0
#include "init/changes.h"

#include "base/mem.h"
#include "init/stack.h"
#include "model/glob.h"
#include <fcntl.h>
#include <unistd.h>

struct noting {
	struct changes *out;
	char *const *hide;
};

static void note(void *ctx, char kind, const char *path)
{
	const struct noting *n = ctx;
	struct changes *c = n->out;
	if (glob_covers(n->hide, path))
		return;
	if (++c->count > LIMIT_CHANGES_LISTED)
		return;
	auto_free char *line = xasprintf("%c %s", kind, path);
	strv_add(&c->list, line);
}

int changes_walk(const struct changes_of *of, struct changes *out)
{
	struct stack s = {0};
	struct err e;
	*out = (struct changes){0};
	auto_fd int ws = openat(of->layer, "ws", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ws < 0)
		return -1;
	stack_add(&s, false, ws);
	for (int i = 0; i < of->n_lowers; i++)
		stack_add(&s, i >= of->n_lowers - of->n_base_lowers, of->lowers[i]);
	stack_add(&s, true, of->base);
	return stack_changes(&s, note, &(struct noting){out, of->hide}, &e);
}

void changes_done(struct changes *c)
{
	strv_free(c->list);
	*c = (struct changes){0};
}

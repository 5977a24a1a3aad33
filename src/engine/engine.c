// SPDX-License-Identifier: Apache-2.0
// The engine as a whole: its directories, what the store knows when it opens, and simple questions about sandboxes.
#include "engine/review_int.h"
#include "engine/child.h"
#include "engine/net_int.h"
#include "engine/pull_int.h"
#include "engine/vault_int.h"
#include "engine/volume_int.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_dir(struct engine *g, const char *name, int *out, struct err *e)
{
	if (fs_mkdirs(g->home_fd, name, 0700, e))
		return -1;
	*out = fs_open(g->home_fd, name, O_RDONLY | O_DIRECTORY, 0, e);
	return *out < 0 ? -1 : 0;
}

static int open_dirs(struct engine *g, struct err *e)
{
	g->home_fd = fs_open(AT_FDCWD, g->skep_home, O_RDONLY | O_DIRECTORY, 0, e);
	if (g->home_fd < 0)
		return -1;
	if (open_dir(g, "sandboxes", &g->sandboxes, e))
		return -1;
	fs_spread(g->sandboxes); // beside what others delete every inode that is free takes a look at the disk
	return open_dir(g, "layers", &g->layers, e) ||
			       open_dir(g, "journals", &g->journals, e) || open_dir(g, "images", &g->images, e) ||
			       fs_mkdirs(g->home_fd, "trees", 0700, e) || fs_mkdirs(g->home_fd, "repos", 0700, e) ||
			       fs_mkdirs(g->home_fd, "pulls", 0700, e) ||
			       fs_mkdirs(g->home_fd, "snapshots", 0700, e) ||
			       open_dir(g, "run/cells", &g->cells, e)
		       ? -1
		       : 0;
}

static void load(void *ctx, struct sandbox *row)
{
	bool broken;
	if (row_check(ctx, row, &broken))
		box_add(ctx, row)->broken = broken;
	else
		sandbox_done(row);
}

static void load_net(void *ctx, const char *sandbox, struct net_row *taken)
{
	struct box *b = box_by_id(ctx, sandbox);
	if (!b) {
		net_row_done(taken);
		return;
	}
	b->row.net = *taken;
	b->row.has_net = true;
}

static void load_project(void *ctx, const char *sandbox, struct project_row *taken)
{
	struct box *b = box_by_id(ctx, sandbox);
	if (!b)
		return;
	b->row.project = *taken;
	*taken = (struct project_row){0};
}

static int load_all(struct engine *g, struct err *e)
{
	return store_sandboxes(g->store, load, g, e) || sizes_load(g, e) || snaps_load(g, e) || derived_load(g, e) ||
			       store_nets(g->store, load_net, g, e) || store_projects(g->store, load_project, g, e) || secrets_load(g, e) ||
			       trust_load(g, e) || tokens_load(g, e) || volumes_load(g, e) || vault_load(g, e)
		       ? -1
		       : 0;
}

struct engine *engine_new(const struct engine_config *cfg, struct err *e)
{
	struct engine *g = xcalloc(1, sizeof *g);
	g->skep_home = xstrdup(cfg->skep_home);
	g->home = xstrdup(cfg->home);
	g->home2 = cfg->home2 ? xstrdup(cfg->home2) : NULL;
	g->owner = xstrdup(cfg->owner);
	g->image_program = xstrdup(cfg->image_program);
	g->rules = (struct source_rules){g->home, g->home2, g->skep_home};
	g->loop = cfg->loop;
	g->store = cfg->store;
	g->backend = cfg->backend;
	g->tools = tools_cache_new(cfg->home);
	g->started = clock_unix_ms();
	g->home_fd = g->sandboxes = g->layers = g->journals = g->images = g->cells = -1;
	g->has_bash = !access("/bin/bash", X_OK);
	if (open_dirs(g, e)) {
		engine_free(g);
		return NULL;
	}
	keep_restore(g);
	if (load_all(g, e)) {
		engine_free(g);
		return NULL;
	}
	keep_loaded(g);
	pulls_measure(g);
	return g;
}

void engine_free(struct engine *g)
{
	int *fds[] = {&g->home_fd, &g->sandboxes, &g->layers, &g->journals, &g->images, &g->cells};
	timer_clear(g->loop, &g->checkpoint);
	timer_clear(g->loop, &g->commit);
	timer_clear(g->loop, &g->expiry);
	engine_flush(g);
	while (g->store && keep_write(g)) // all of them
		;
	timer_clear(g->loop, &g->backup);
	blank_done(g);
	sync_free(g);
	while (g->boxes) {
		struct box *b = g->boxes;
		g->boxes = b->next;
		record_forget(b);
		pin_forget(b, true);
		net_done(b, true);
		box_free(b);
	}
	seal_forget(g);
	snaps_free(g);
	derived_free(g);
	sizes_free(g);
	child_free_all(g);
	review_free(g);
	made_free(g);
	setup_free(g);
	base_free(g);
	pulls_free(g);
	secrets_free(g);
	trust_free(g);
	caches_forget(g);
	tokens_free(g);
	volumes_free(g);
	vault_free(g);
	for (size_t i = 0; i < countof(fds); i++)
		close_fd(fds[i]);
	tools_cache_free(g->tools);
	free(g->skep_home);
	free(g->home);
	free(g->home2);
	free(g->owner);
	free(g->image_program);
	free(g);
}

const struct sandbox *engine_get(struct engine *g, const char *id, struct err *e)
{
	struct box *b = box_find(g, id, e);
	return b ? &b->row : NULL;
}

const struct sandbox *engine_peek(struct engine *g, const char *id, struct err *e)
{
	struct box *b = box_look(g, id, e);
	return b ? &b->row : NULL;
}

void engine_each(struct engine *g, void (*each)(void *ctx, const struct sandbox *s), void *ctx)
{
	for (struct box *b = g->boxes; b; b = b->next)
		if (!b->row.project.setup_of)
			each(ctx, &b->row);
}

void engine_on_new(struct engine *g, void (*fn)(void *ctx, const struct sandbox *s), void *ctx)
{
	g->on_new = fn;
	g->on_new_ctx = ctx;
}

bool engine_size(struct engine *g, const struct sandbox *s, uint64_t *out)
{
	bool known;
	*out = size_of_sandbox(g, s, &known);
	return known;
}

// The directory is on another commit or branch than when the sandbox was made.
static bool has_moved(const struct sandbox *s)
{
	auto_free char *now = s->head ? source_head(s->repo) : NULL;
	return now && strcmp(now, s->head);
}

const char *engine_base_state(const struct sandbox *s)
{
	static const char *const pins[] = {[PIN_NONE] = "live", [PIN_PINNING] = "pinning", [PIN_PINNED] = "pinned", [PIN_FAILED] = "live",
					     [PIN_INHERITED] = "pinned"};
	if (s->tree)
		return "pinned";
	if (!s->repo)
		return "none";
	if (!source_is(s->repo, s->base_dev, s->base_ino))
		return "gone";
	return has_moved(s) ? "moved" : pins[s->base_pin];
}

const struct tools *engine_tools(struct engine *g, const struct sandbox *s)
{
	return tools_get(g->tools, s->image ? NULL : s->path); // a foreign image can not run the host's tools
}

char *engine_socket(struct engine *g, const char *sandbox)
{
	return xasprintf("%s/run/cells/%s.sock", g->skep_home, sandbox);
}

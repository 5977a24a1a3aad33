// SPDX-License-Identifier: Apache-2.0
// The caller's package caches, shown to a new sandbox below what was asked for.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "workspace/caches.h"
#include <stdlib.h>
#include <string.h>

// They are where they were a moment ago: it takes forty calls to find out.
#define CACHES_MS 1000
struct found_caches {
	uint64_t at;
	char **env, *inside;
	struct cell_mount mounts[CACHES_MAX];
	uint32_t n;
};

void caches_forget(struct engine *g)
{
	struct found_caches *f = g->caches;
	g->caches = NULL;
	if (!f)
		return;
	for (uint32_t i = 0; i < f->n; i++) {
		free(f->mounts[i].src);
		free(f->mounts[i].dst);
	}
	strv_free(f->env);
	free(f->inside);
	free(f);
}

static const struct found_caches *find(struct engine *g, const struct create *c, const char *inside)
{
	struct found_caches *f = g->caches;
	struct err ignored;
	if (f && clock_ms() - f->at < CACHES_MS && !strcmp(f->inside, inside) && strv_equal(f->env, c->cache_env))
		return f;
	caches_forget(g);
	f = g->caches = xcalloc(1, sizeof *f);
	f->env = strv_copy(c->cache_env);
	f->inside = xstrdup(inside);
	f->at = clock_ms();
	uint32_t n = caches_find(g->home, c->cache_env, inside, f->mounts);
	for (uint32_t i = 0; i < n; i++) {
		if (!source_check(&g->rules, f->mounts[i].src, &ignored)) {
			f->mounts[f->n++] = f->mounts[i];
			continue;
		}
		free(f->mounts[i].src);
		free(f->mounts[i].dst);
	}
	return f;
}

// Before what was asked for: that covers them where they meet.
int caches_add(struct engine *g, struct create *c, const struct sandbox *row, struct err *e)
{
	bool on;
	if (config_caches(g, &on, e))
		return -1;
	const struct found_caches *f = on && !c->no_caches ? find(g, c, home_inside(row)) : NULL;
	uint32_t k = f ? f->n : 0;
	struct cell_mount *all = xcalloc(k + c->n_mounts, sizeof *all);
	for (uint32_t i = 0; i < k; i++) {
		all[i] = f->mounts[i];
		all[i].src = xstrdup(all[i].src);
		all[i].dst = xstrdup(all[i].dst);
	}
	for (uint32_t i = 0; i < c->n_mounts; i++)
		all[k + i] = c->mounts[i];
	free(c->mounts);
	c->mounts = all;
	c->n_mounts += k;
	return 0;
}

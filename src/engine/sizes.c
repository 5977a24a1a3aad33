// SPDX-License-Identifier: Apache-2.0
// How many bytes layers have. They are counted one after another in the background, a moment after a stop, a seal or a gc:
// never while somebody waits. A sealed layer is counted once, for it never changes again.
#include "engine/snap_int.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define SIZE_MS 1000 // after the last reason to count

struct layer_size {
	char id[ID_SIZE];
	uint64_t bytes;
	bool again; // a writable one that was written to since
	struct layer_size *next;
};

// Ids are random: their last characters spread well.
static unsigned bucket(const char *id)
{
	unsigned h = 0;
	for (; *id; id++)
		h = h * 31 + (unsigned char)*id;
	return h % BUCKETS;
}

static struct layer_size **find(struct engine *g, const char *id)
{
	if (!g->sizes)
		g->sizes = xcalloc(BUCKETS, sizeof *g->sizes);
	struct layer_size **p = &g->sizes[bucket(id)];
	while (*p && strcmp((*p)->id, id))
		p = &(*p)->next;
	return p;
}

static void put(struct engine *g, const char *id, uint64_t bytes)
{
	struct layer_size **p = find(g, id);
	if (!*p) {
		*p = xcalloc(1, sizeof **p);
		if (fmt_to((*p)->id, sizeof (*p)->id, "%s", id))
			log_line(LOG_ERROR, "bug: layer id %s", id);
	}
	g->layer_bytes += bytes - (*p)->bytes;
	(*p)->bytes = bytes;
	(*p)->again = false;
}

static void load(void *ctx, const char *id, uint64_t bytes)
{
	if (id_is(id))
		put(ctx, id, bytes);
}

int sizes_load(struct engine *g, struct err *e)
{
	return store_layers(g->store, load, g, e);
}

void sizes_free(struct engine *g)
{
	timer_clear(g->loop, &g->size);
	for (unsigned i = 0; g->sizes && i < BUCKETS; i++)
		while (g->sizes[i]) {
			struct layer_size *s = g->sizes[i];
			g->sizes[i] = s->next;
			free(s);
		}
	free(g->sizes);
}

static const char *layer_id(const char *path)
{
	return str_has_prefix(path, "layers/") && id_is(path + strlen("layers/")) ? path + strlen("layers/") : NULL;
}

void size_drop(struct engine *g, const char *path)
{
	struct err e;
	const char *id = layer_id(path);
	struct layer_size **p = id ? find(g, id) : NULL;
	if (!p || !*p)
		return;
	struct layer_size *gone = *p;
	*p = gone->next;
	g->layer_bytes -= gone->bytes;
	free(gone);
	if (store_layer_drop(g->store, id, &e))
		log_line(LOG_ERROR, "%s", e.msg);
	engine_wrote(g);
}

bool size_of(struct engine *g, const char *path, uint64_t *out)
{
	const char *id = layer_id(path);
	struct layer_size *s = id ? *find(g, id) : NULL;
	*out = s ? s->bytes : 0;
	return s;
}

void sizes_sweep(struct engine *g)
{
	char **gone = NULL;
	for (unsigned i = 0; g->sizes && i < BUCKETS; i++)
		for (struct layer_size *s = g->sizes[i]; s; s = s->next)
			if (!fs_exists(g->layers, s->id)) {
				auto_free char *path = xasprintf("layers/%s", s->id);
				strv_add(&gone, path);
			}
	for (char **p = gone; p && *p; p++)
		size_drop(g, *p);
	strv_free(gone);
}

// --- counting ---

static void on_time(struct timer *t);

static void soon(struct engine *g)
{
	g->size.fn = on_time;
	if (!g->sizing)
		timer_set(g->loop, &g->size, SIZE_MS);
}

struct count {
	struct engine *g;
	char id[ID_SIZE];
};

static void on_counted(void *ctx, const struct err *e, const struct layer_result *r)
{
	struct count *c = ctx;
	struct engine *g = c->g;
	struct err se;
	put(g, c->id, e ? 0 : r->bytes); // one that can not be looked at is not asked about for ever
	if (e)
		log_line(LOG_WARN, "layer=%s not counted: %s", c->id, e->msg);
	else if (store_layer_set(g->store, c->id, r->bytes, &se))
		log_line(LOG_ERROR, "%s", se.msg);
	engine_wrote(g);
	free(c);
	g->sizing = false;
	g->size.fn = on_time;
	timer_set(g->loop, &g->size, 0);
}

static bool is_counted(struct engine *g, const char *id)
{
	struct layer_size *s = *find(g, id);
	return (s && !s->again) || !fs_exists(g->layers, id);
}

// The first of its own layers that is to be counted; NULL = none.
static const char *next_of(struct engine *g, char *const *lowers, size_t own)
{
	for (size_t i = 0; i < own && lowers[i]; i++) {
		const char *id = layer_id(lowers[i]);
		if (id && !is_counted(g, id))
			return id;
	}
	return NULL;
}

static const char *next_layer(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next) {
		if (!b->unsized)
			continue;
		const char *id = is_counted(g, b->row.layer) ? next_of(g, b->row.lowers, SIZE_MAX) : b->row.layer;
		if (id)
			return id;
		b->unsized = false;
		b->row.bytes = size_of_sandbox(g, &b->row, NULL);
		box_save(b);
	}
	for (struct snap *n = g->size_all ? g->snaps : NULL; n; n = n->next) {
		const char *id = next_of(g, n->row.lowers, SIZE_MAX);
		if (id)
			return id;
	}
	g->size_all = false;
	return NULL;
}

static void on_time(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, size);
	const char *id = next_layer(g);
	if (!id)
		return;
	struct count *c = xcalloc(1, sizeof *c);
	c->g = g;
	memcpy(c->id, id, strlen(id) + 1);
	g->sizing = true;
	char *from[] = {c->id, NULL};
	struct layer_op op = {.verb = LAYER_SIZE, .from = from};
	g->backend->ops->layer(g->backend, &op, (struct layer_reply){on_counted, c});
}

void size_box(struct box *b)
{
	struct layer_size *s = *find(b->g, b->row.layer);
	if (s)
		s->again = true;
	b->unsized = true;
	soon(b->g);
}

void size_everything(struct engine *g)
{
	for (struct box *b = g->boxes; b; b = b->next)
		size_box(b);
	g->size_all = true;
	soon(g);
}

uint64_t size_of_sandbox(struct engine *g, const struct sandbox *s, bool *known)
{
	size_t own = strv_len(s->lowers) - (s->n_base < strv_len(s->lowers) ? s->n_base : strv_len(s->lowers));
	struct layer_size *upper = *find(g, s->layer);
	uint64_t sum = upper ? upper->bytes : 0, one;
	bool all = upper || !s->layer_made;
	for (size_t i = 0; i < own; i++) {
		all &= size_of(g, s->lowers[i], &one);
		sum += one;
	}
	if (known)
		*known = all;
	return sum;
}

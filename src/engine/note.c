// SPDX-License-Identifier: Apache-2.0
// What surfaces keep here, and how they hear of sandboxes.
#include "engine/engine_int.h"

#include "base/fs.h"
#include <fcntl.h>

int engine_note_set(struct engine *g, const char *kind, const char *key, const char *text, struct err *e)
{
	engine_wrote(g);
	return store_note_set(g->store, kind, key, text, e);
}

int engine_notes_sync(struct engine *g, struct err *e)
{
	return store_flush(g->store, e);
}

int engine_note_drop(struct engine *g, const char *kind, const char *key, struct err *e)
{
	engine_wrote(g);
	return store_note_drop(g->store, kind, key, e);
}

int engine_notes(struct engine *g, const char *kind, void (*each)(void *ctx, const char *key, const char *text), void *ctx, struct err *e)
{
	return store_notes(g->store, kind, each, ctx, e);
}

void engine_listen(struct engine *g, struct engine_listener *l)
{
	l->next = g->listeners;
	g->listeners = l;
}

void box_tell(const struct box *b, bool gone)
{
	for (struct engine_listener *l = b->g->listeners; l; l = l->next)
		l->fn(l, &b->row, gone);
}

int engine_scratch(struct engine *g, struct err *e)
{
	return fs_open(g->home_fd, ".", O_RDWR | O_TMPFILE, 0600, e);
}

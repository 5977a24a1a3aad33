// SPDX-License-Identifier: Apache-2.0
// What a watch has shown of each path.
#include "base/mem.h"
#include "cli/live.h"
#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES (128u << 20) // then all contents are forgotten: the next change of a file is shown whole

static struct {
	struct shown **slots;
	size_t n_slots, n, bytes;
} all;

static struct shown **slot_of(const char *path)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 0x100000001b3ull;
	return &all.slots[h & (all.n_slots - 1)];
}

struct shown *shown_find(const char *path)
{
	struct shown *s = all.n_slots ? *slot_of(path) : NULL;
	while (s && strcmp(s->path, path))
		s = s->next;
	return s;
}

static void grow(void)
{
	struct shown **old = all.slots;
	size_t n = all.n_slots;
	all.n_slots = n ? n * 2 : 256;
	all.slots = xcalloc(all.n_slots, sizeof *all.slots);
	for (size_t i = 0; i < n; i++)
		for (struct shown *s = old[i], *next; s; s = next) {
			struct shown **at = slot_of(s->path);
			next = s->next;
			s->next = *at;
			*at = s;
		}
	free(old);
}

static struct shown *add(const char *path)
{
	size_t n = strlen(path) + 1;
	if (all.n >= all.n_slots)
		grow();
	struct shown *s = xcalloc(1, sizeof *s + n), **at = slot_of(path);
	memcpy(s->path, path, n);
	s->next = *at;
	*at = s;
	all.n++;
	return s;
}

static void drop_content(struct shown *s)
{
	all.bytes -= s->n;
	free(s->p);
	s->p = NULL;
	s->n = 0;
	s->whole = false;
}

static void forget_contents(void)
{
	for (size_t i = 0; i < all.n_slots; i++)
		for (struct shown *s = all.slots[i]; s; s = s->next)
			drop_content(s);
}

void shown_put(const struct live_state *st)
{
	struct shown *s = shown_find(st->path);
	if (!s)
		s = add(st->path);
	drop_content(s);
	if (all.bytes + st->n > KEPT_BYTES)
		forget_contents();
	s->what = st->what;
	s->exec = st->exec;
	s->size = st->size;
	s->whole = st->whole;
	s->p = st->n ? xcalloc(1, st->n) : NULL;
	s->n = st->n;
	if (st->n)
		memcpy(s->p, st->p, st->n);
	all.bytes += st->n;
}

// SPDX-License-Identifier: Apache-2.0
#include "base/index.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

struct index_entry {
	struct index_entry *next;
	const char *key;
	void *value;
	uint64_t hash;
};

static uint64_t key_hash(const char *key)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (; *key; key++)
		h = (h ^ (uint8_t)*key) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static void index_grow(struct index *x)
{
	struct index_entry **old = x->slots;
	size_t n = x->n_slots;
	x->n_slots = n ? n * 2 : 64;
	x->slots = xcalloc(x->n_slots, sizeof *x->slots);
	for (size_t i = 0; i < n; i++)
		for (struct index_entry *e = old[i], *next; e; e = next) {
			struct index_entry **at = &x->slots[e->hash & (x->n_slots - 1)];
			next = e->next;
			e->next = *at;
			*at = e;
		}
	free(old);
}

// Where the entry's pointer is, or would be.
static struct index_entry **index_at(struct index *x, const char *key, uint64_t hash)
{
	struct index_entry **p = &x->slots[hash & (x->n_slots - 1)];
	for (; *p; p = &(*p)->next) {
		x->compared++;
		if ((*p)->hash == hash && !strcmp((*p)->key, key))
			break;
	}
	return p;
}

void index_put(struct index *x, const char *key, void *value)
{
	uint64_t hash = key_hash(key);
	if (x->n >= x->n_slots)
		index_grow(x);
	struct index_entry **p = index_at(x, key, hash);
	if (!*p) {
		*p = xcalloc(1, sizeof **p);
		x->n++;
	}
	(*p)->key = key;
	(*p)->hash = hash;
	(*p)->value = value;
}

void *index_get(struct index *x, const char *key)
{
	if (!x->n)
		return NULL;
	struct index_entry *e = *index_at(x, key, key_hash(key));
	return e ? e->value : NULL;
}

void index_drop(struct index *x, const char *key)
{
	struct index_entry **p = x->n ? index_at(x, key, key_hash(key)) : NULL;
	if (!p || !*p)
		return;
	struct index_entry *gone = *p;
	*p = gone->next;
	free(gone);
	x->n--;
}

void index_done(struct index *x)
{
	for (size_t i = 0; i < x->n_slots; i++)
		while (x->slots[i]) {
			struct index_entry *e = x->slots[i];
			x->slots[i] = e->next;
			free(e);
		}
	free(x->slots);
	*x = (struct index){0};
}

// SPDX-License-Identifier: Apache-2.0
// How often each token asks: a bucket that fills with its rate and holds two seconds of it. Forgotten when it is full again.
#include "api/auth.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define SLOTS 256
#define BUCKETS_MAX 4096
#define BURST_S 2

struct bucket {
	char id[ID_SIZE];
	uint64_t micro; // millionths of a request that are left
	uint64_t at_us, rate;
	struct bucket *next;
};

static struct bucket *slots[SLOTS]; // one server in a process
static unsigned n_buckets;

static void fill(struct bucket *b, uint64_t now)
{
	uint64_t most = BURST_S * 1000000 * b->rate, more = (now - b->at_us) * b->rate;
	b->micro = more > most - b->micro ? most : b->micro + more;
	b->at_us = now;
}

static void forget_full(uint64_t now)
{
	for (int i = 0; i < SLOTS; i++)
		for (struct bucket **p = &slots[i]; *p;) {
			struct bucket *b = *p;
			fill(b, now);
			if (b->micro < BURST_S * 1000000 * b->rate) {
				p = &b->next;
				continue;
			}
			*p = b->next;
			free(b);
			n_buckets--;
		}
}

bool rate_take(const char *id, uint64_t per_second, uint64_t *out_wait)
{
	uint64_t now = clock_us();
	unsigned slot = 5381;
	for (const char *c = id; *c; c++)
		slot = slot * 33 + (unsigned char)*c;
	struct bucket **p = &slots[slot % SLOTS];
	while (*p && strcmp((*p)->id, id))
		p = &(*p)->next;
	if (!*p) {
		if (n_buckets >= BUCKETS_MAX) {
			forget_full(now);
			for (p = &slots[slot % SLOTS]; *p;)
				p = &(*p)->next;
		}
		*p = xcalloc(1, sizeof **p);
		**p = (struct bucket){.at_us = now, .rate = per_second, .micro = BURST_S * 1000000 * per_second};
		memcpy((*p)->id, id, strlen(id) < ID_SIZE ? strlen(id) + 1 : 0);
		n_buckets++;
	}
	fill(*p, now);
	*out_wait = 1;
	if ((*p)->micro < 1000000)
		return false;
	(*p)->micro -= 1000000;
	return true;
}

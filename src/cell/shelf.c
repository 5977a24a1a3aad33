// SPDX-License-Identifier: Apache-2.0
#include "cell/shelf.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "model/msg.h"
#include <stdlib.h>
#include <sys/socket.h>

#define MOLDS_MAX 64
#define MOLD_KEEP_MS 30000

// From a slot whose mold may come back.
struct back {
	struct back *next;
	struct shelf *shelf;
	struct chan chan;
	struct mold *mold; // as far as it has come
};

static void free_back(void *obj)
{
	struct back *b = obj;
	chan_close(&b->chan);
	if (b->mold)
		mold_drop(b->mold, true);
	free(b);
}

static void on_back_close(struct chan *c)
{
	struct back *b = container_of(c, struct back, chan);
	list_unlink(&b->shelf->backs, b, next);
	loop_bury(b->shelf->loop, b, free_back);
}

static void put(struct shelf *s, struct mold *m)
{
	m->next = s->molds;
	s->molds = m;
	s->n++;
	if (!s->old.at_ms)
		timer_set(s->loop, &s->old, MOLD_KEEP_MS);
	chan_send(s->skepd, M_BACK, 0, 0, NULL, 0);
}

static void on_back_frame(struct chan *c, struct frame *f)
{
	struct back *b = container_of(c, struct back, chan);
	struct err e;
	int rc = b->mold && b->mold->seat.lock < 0 ? mold_read(f, b->mold, &e) : -1;
	if (rc > 0 && b->shelf->n < MOLDS_MAX) {
		put(b->shelf, b->mold);
		b->mold = NULL;
	}
	if (rc)
		shutdown(c->fd, SHUT_RDWR);
}

int shelf_expect(struct shelf *s, int fd, struct err *e)
{
	struct back *b = xcalloc(1, sizeof *b);
	b->shelf = s;
	b->mold = xcalloc(1, sizeof *b->mold);
	*b->mold = MOLD_NONE;
	chan_init(&b->chan, fd);
	b->chan.on_frame = on_back_frame;
	b->chan.on_close = on_back_close;
	b->next = s->backs;
	s->backs = b;
	return chan_attach(&b->chan, s->loop, e);
}

static void on_old(struct timer *t)
{
	struct shelf *s = container_of(t, struct shelf, old);
	uint64_t now = clock_ms();
	for (struct mold **p = &s->molds; *p;) {
		struct mold *m = *p;
		if (now - m->since_ms < MOLD_KEEP_MS) {
			p = &m->next;
			continue;
		}
		*p = m->next;
		s->n--;
		mold_drop(m, true);
	}
	if (s->molds)
		timer_set(s->loop, t, MOLD_KEEP_MS / 3);
}

static struct mold *find(const struct shelf *s, const struct place *place)
{
	struct mold *m = place->n ? s->molds : NULL;
	while (m && !mold_fits(m, place->p, place->n))
		m = m->next;
	return m;
}

bool shelf_has(const struct shelf *s, const struct place *place)
{
	return find(s, place);
}

struct mold *shelf_take(struct shelf *s, const struct place *place)
{
	struct mold *m = find(s, place);
	if (m) {
		list_unlink(&s->molds, m, next);
		s->n--;
	}
	return m;
}

void shelf_close_fds(struct shelf *s)
{
	for (struct back *b = s->backs; b; b = b->next)
		close_fd(&b->chan.fd);
	for (struct mold *m = s->molds; m; m = m->next)
		mold_close_fds(m);
}

void shelf_drop(struct shelf *s)
{
	while (s->molds) {
		struct mold *m = s->molds;
		s->molds = m->next;
		s->n--;
		mold_drop(m, false);
	}
}

void shelf_init(struct shelf *s, struct loop *loop, struct chan *skepd)
{
	*s = (struct shelf){.loop = loop, .skepd = skepd, .old.fn = on_old};
}

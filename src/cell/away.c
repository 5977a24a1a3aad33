// SPDX-License-Identifier: Apache-2.0
#include "cell/away.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/input.h"
#include "cell/watching.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct away {
	struct away *next;
	struct sx *exec;
	char line[KEY_SIZE];
	uint64_t seen[2], mine, signals, until_ms;
	bool wrote, in_over;
};

static struct {
	struct away *list; // one process, one cell
	unsigned n;
	struct timer late;
	struct cell *cell;
} self;

static void drop(struct away **p)
{
	struct away *a = *p;
	*p = a->next;
	self.n--;
	free(a);
}

static void set_timer(void)
{
	uint64_t now = clock_ms(), first = UINT64_MAX;
	for (const struct away *a = self.list; a; a = a->next)
		if (a->until_ms < first)
			first = a->until_ms;
	if (self.list)
		timer_set(&self.cell->loop, &self.late, first > now ? first - now : 1);
	else
		timer_clear(&self.cell->loop, &self.late);
}

// Back to what is done for a client that went.
static void on_late(struct timer *t)
{
	struct cell *c = self.cell;
	(void)t;
	for (struct away **p = &self.list; *p;) {
		struct sx *x = (*p)->exec;
		if ((*p)->until_ms > clock_ms()) {
			p = &(*p)->next;
			continue;
		}
		drop(p);
		input_client_gone(x);
		if (x->live)
			watching_client_gone(x);
		client_left(x);
	}
	set_timer();
	cell_maybe_exit(c);
}

void away_begin(const struct client *cl)
{
	if (self.n >= LIMIT_CLIENTS)
		return;
	struct away *a = xcalloc(1, sizeof *a);
	*a = (struct away){.exec = cl->exec, .seen = {cl->seen[0], cl->seen[1]}, .mine = cl->mine, .signals = cl->signals, .wrote = cl->wrote, .in_over = cl->in_over,
			    .until_ms = clock_ms() + cl->away_ms, .next = self.list};
	memcpy(a->line, cl->line, sizeof a->line);
	self.cell = cl->cell;
	self.list = a;
	self.n++;
	self.late.fn = on_late;
	set_timer();
}

// Its connection may look whole from here long after the client has given it up.
static struct sx *replace(struct client *back)
{
	for (struct client *cl = back->cell->clients; cl; cl = cl->next) {
		struct sx *x = cl->exec;
		if (cl == back || !x || !cl->line[0] || !key_equal(cl->line, back->line))
			continue;
		back->mine = cl->mine;
		back->signals = cl->signals;
		back->wrote = cl->wrote;
		back->in_over = cl->in_over;
		cl->line[0] = 0;
		cl->exec = NULL;
		shutdown(cl->chan.fd, SHUT_RDWR);
		return x;
	}
	return NULL;
}

struct sx *away_end(struct client *back)
{
	for (struct away **p = &self.list; *p; p = &(*p)->next)
		if (key_equal((*p)->line, back->line)) {
			struct sx *x = (*p)->exec;
			back->mine = (*p)->mine;
			back->signals = (*p)->signals;
			back->wrote = (*p)->wrote;
			back->in_over = (*p)->in_over;
			drop(p);
			set_timer();
			return x;
		}
	return replace(back);
}

void away_forget(void)
{
	while (self.list)
		drop(&self.list);
	if (self.cell)
		set_timer();
}

bool away_is(const struct sx *x)
{
	for (const struct away *a = self.list; a; a = a->next)
		if (a->exec == x)
			return true;
	return false;
}

bool away_writes(const struct sx *x)
{
	for (const struct away *a = self.list; a; a = a->next)
		if (a->exec == x && a->wrote && !a->in_over)
			return true;
	return false;
}

bool away_any(void)
{
	return self.list;
}

uint64_t away_slowest(const struct sx *x, int stream)
{
	uint64_t slow = UINT64_MAX;
	for (const struct away *a = self.list; a; a = a->next)
		if (a->exec == x && a->seen[stream] < slow)
			slow = a->seen[stream];
	return slow;
}

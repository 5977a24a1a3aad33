// SPDX-License-Identifier: Apache-2.0
#include "cell/away.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct away {
	struct away *next;
	struct sx *exec;
	char line[KEY_SIZE];
	uint64_t seen[2], until_ms;
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
	*a = (struct away){.exec = cl->exec, .seen = {cl->seen[0], cl->seen[1]}, .until_ms = clock_ms() + cl->away_ms, .next = self.list};
	memcpy(a->line, cl->line, sizeof a->line);
	self.cell = cl->cell;
	self.list = a;
	self.n++;
	self.late.fn = on_late;
	set_timer();
}

// Its connection may look whole from here long after the client has given it up.
static struct sx *replace(struct cell *c, const char *line)
{
	for (struct client *cl = c->clients; cl; cl = cl->next) {
		struct sx *x = cl->exec;
		if (!x || !cl->line[0] || !key_equal(cl->line, line))
			continue;
		cl->line[0] = 0;
		cl->exec = NULL;
		shutdown(cl->chan.fd, SHUT_RDWR);
		return x;
	}
	return NULL;
}

struct sx *away_end(struct cell *c, const char *line)
{
	for (struct away **p = &self.list; *p; p = &(*p)->next)
		if (key_equal((*p)->line, line)) {
			struct sx *x = (*p)->exec;
			drop(p);
			set_timer();
			return x;
		}
	return replace(c, line);
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

// SPDX-License-Identifier: Apache-2.0
#include "cell/dials.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TICKETS 16
#define FDS_QUEUED 14 // descriptors that may wait for a slow client: its channel is cut past 16
#define AT_ONCE 12    // asked of init: its channel has the same bound
#define ASK_MAX 256   // bytes of one question

struct dialling {
	struct dialling *next;
	struct client *client; // NULL: it went away
	uint32_t id, request;  // on the channel to init (0: it waits); of who asked
	struct buf ask;
};

struct dial_ticket {
	char ticket[KEY_SIZE]; // "" = none
	uint64_t until_ms;
};

static struct {
	struct dialling *list; // one process, one cell; in the order they came
	unsigned n, asked;
	uint32_t last_id;
	struct dial_ticket tickets[TICKETS];
	unsigned next_ticket;
} self;

static void work(struct cell *c)
{
	for (struct dialling *d = self.list; d && self.asked < AT_ONCE; d = d->next) {
		if (d->id)
			continue;
		d->id = ++self.last_id ? self.last_id : ++self.last_id;
		self.asked++;
		chan_send_buf(&c->init, M_DIAL, d->id, &d->ask);
	}
}

int dials_ask(struct client *cl, const struct frame *f, struct err *e)
{
	struct cell *c = cl->cell;
	struct dialling **end = &self.list;
	if (c->stage != CELL_UP)
		return err_set(e, ERR_CONFLICT, "the cell is ending");
	if (c->paused)
		return err_set(e, ERR_CONFLICT, "the sandbox is paused: `skep resume` lets it go on");
	if (self.n >= LIMIT_DIALS)
		return err_set(e, ERR_LIMIT, "%u connections into the sandbox wait already: try again", self.n);
	struct dialling *d = xcalloc(1, sizeof *d);
	*d = (struct dialling){.client = cl, .request = f->id, .ask = BUF_INIT(ASK_MAX)};
	buf_add(&d->ask, f->p, f->n);
	if (d->ask.overflow) {
		free(d);
		return err_set(e, ERR_INVALID, "the path of a socket is absolute and shorter than 108 bytes");
	}
	while (*end)
		end = &(*end)->next;
	*end = d;
	self.n++;
	c->eventful = true; // something from outside was in its network
	work(c);
	watchdog_activity(c);
	return 1;
}

static void dialling_free(struct dialling *d)
{
	buf_done(&d->ask);
	free(d);
}

static struct dialling *take_dialling(uint32_t id)
{
	for (struct dialling **p = &self.list; id && *p; p = &(*p)->next)
		if ((*p)->id == id) {
			struct dialling *d = *p;
			*p = d->next;
			self.n--;
			self.asked--;
			return d;
		}
	return NULL;
}

// Init says that it is a connection of its own. What goes out is a stream socket and nothing else, whatever became of init.
static bool is_stream(int fd)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof type;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_STREAM)
		return false;
	len = sizeof domain;
	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX);
}

static void read_err(const struct frame *f, struct err *out)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t kind = wire_get_u32(&w), sys = wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	err_set(out, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "the connection could not be made");
	out->sys = (int)sys;
}

void dials_answer(struct cell *c, struct frame *f)
{
	struct dialling *d = take_dialling(f->id);
	struct err e;
	if (!d)
		return;
	work(c);
	struct chan *to = d->client ? &d->client->chan : NULL;
	if (to && f->fd >= 0 && is_stream(f->fd) && to->n_fds_out < FDS_QUEUED) {
		chan_send_fd(to, M_DIALLED, d->request, NULL, 0, f->fd);
	} else if (to) {
		if (f->fd >= 0)
			err_set(&e, ERR_LIMIT, "too many connections into the sandbox at once: try again");
		else
			read_err(f, &e);
		control_send_err(to, d->request, &e);
	}
	dialling_free(d);
}

int dials_allow(struct cell *c, const struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *ticket = wire_get_str(&w);
	if (c->stage != CELL_UP)
		return err_set(e, ERR_CONFLICT, "the cell is ending");
	if (w.bad || !ticket || !*ticket || strlen(ticket) >= KEY_SIZE)
		return err_set(e, ERR_INVALID, "malformed ticket");
	struct dial_ticket *t = &self.tickets[self.next_ticket++ % TICKETS]; // the oldest makes room
	memcpy(t->ticket, ticket, strlen(ticket) + 1);
	t->until_ms = clock_ms() + LIMIT_TICKET_MS;
	c->eventful = true;
	return 0;
}

bool dials_admit(struct cell *c, const char *ticket)
{
	(void)c;
	for (size_t i = 0; i < TICKETS; i++) {
		struct dial_ticket *t = &self.tickets[i];
		if (t->ticket[0] && key_equal(t->ticket, ticket)) {
			t->ticket[0] = 0;
			return clock_ms() <= t->until_ms;
		}
	}
	return false;
}

void dials_client_gone(struct client *cl)
{
	for (struct dialling *d = self.list; d; d = d->next)
		if (d->client == cl)
			d->client = NULL;
}

void dials_end(struct cell *c)
{
	struct err e;
	(void)c;
	err_set(&e, ERR_UNAVAILABLE, "the cell ended");
	while (self.list) {
		struct dialling *d = self.list;
		self.list = d->next;
		if (d->client)
			control_send_err(&d->client->chan, d->request, &e);
		dialling_free(d);
	}
	self.n = self.asked = 0;
	memset(self.tickets, 0, sizeof self.tickets);
}

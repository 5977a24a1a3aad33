// SPDX-License-Identifier: Apache-2.0
// A cell's socket for who is not on this machine: bytes pass both ways, unread but for the first ones, which must be a
// client's greeting. Whoever holds no ticket of a command of this cell gets nowhere with it. And a port of a cell's own
// loopback, in the same way: there nothing is read, and either side may end before the other.
#include "api/exec_io_int.h"

#include "base/fs.h"
#include "base/flow.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROTOCOL "skep-cell"
#define PROTOCOL_PORT "skep-port"
#define HALF_MS 30000 // for the port to end, when its client has
#define CHUNK (64u << 10)
#define HIGH (256u << 10)
#define GREETING 17u // bytes until the role is known: frame header, version, role

struct side {
	struct watch w;
	struct buf out; // for this side
	bool eof;	// it sends nothing more
};

struct tunnel {
	struct loop *loop;
	struct upgraded *up; // has the client's descriptor
	int cell_fd; // until it is in the loop
	struct side client, cell;
	struct buf greeting;
	bool greeted, over;
	bool port; // of a cell, not its socket
	bool half; // and it was told that the client sends nothing more
	struct timer late;
};

static void tunnel_free(void *obj)
{
	struct tunnel *t = obj;
	buf_done(&t->client.out);
	buf_done(&t->cell.out);
	buf_done(&t->greeting);
	free(t);
}

static void finish(struct tunnel *t)
{
	if (t->over)
		return;
	t->over = true;
	timer_clear(t->loop, &t->late);
	int fd = t->cell.w.fd;
	if (t->client.w.fd >= 0)
		loop_del(t->loop, &t->client.w);
	if (fd >= 0) {
		loop_del(t->loop, &t->cell.w);
		close(fd);
	}
	close_fd(&t->cell_fd);
	upgraded_close(t->up);
	loop_bury(t->loop, t, tunnel_free);
}

static void set_interest(struct tunnel *t)
{
	struct side *a = &t->client, *b = &t->cell;
	if (a->eof && !t->half && a->w.fd >= 0)
		loop_del(t->loop, &a->w); // its hang-up would wake us until the cell has read
	if (a->w.fd >= 0)
		loop_mod(t->loop, &a->w, (!a->eof && b->out.n < HIGH ? LOOP_IN : 0) | (a->out.n ? LOOP_OUT : 0));
	bool wanted = !a->eof || t->half;
	loop_mod(t->loop, &b->w, (!b->eof && wanted && a->out.n < HIGH ? LOOP_IN : 0) | (b->out.n ? LOOP_OUT : 0));
}

static bool drain(struct side *s)
{
	while (s->out.n) {
		ssize_t n = send(s->w.fd, s->out.p, s->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		buf_cut(&s->out, (size_t)n);
	}
	return true;
}

// False: not a client's greeting. Until it is whole nothing is passed on.
static bool pass_greeting(struct tunnel *t, const char *p, size_t n)
{
	buf_add(&t->greeting, p, n);
	const uint8_t *g = (const uint8_t *)t->greeting.p;
	if (t->greeting.n < GREETING)
		return true;
	if (g[4] != M_HELLO || g[16] != ROLE_CLIENT)
		return false;
	t->greeted = true;
	buf_add(&t->cell.out, g, t->greeting.n);
	buf_clear(&t->greeting);
	return true;
}

static bool pass_on(struct tunnel *t, struct side *from, struct side *to)
{
	static char chunk[CHUNK];
	ssize_t n = recv(from->w.fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		from->eof = true; // what it said last still goes out
		return true;
	}
	if (from == &t->client && !t->greeted)
		return pass_greeting(t, chunk, (size_t)n);
	buf_add(&to->out, chunk, (size_t)n);
	return !to->out.overflow;
}

static void on_late(struct timer *tm)
{
	finish(container_of(tm, struct tunnel, late));
}

static void end_half(struct tunnel *t)
{
	t->half = true;
	shutdown(t->cell.w.fd, SHUT_WR);
	t->late.fn = on_late;
	timer_set(t->loop, &t->late, HALF_MS);
}

static void on_side(struct tunnel *t, struct side *s, struct side *other, uint32_t events)
{
	bool ok = true;
	if (t->over)
		return;
	if (events & (LOOP_IN | LOOP_HUP | LOOP_ERR) && !s->eof)
		ok = pass_on(t, s, other);
	ok = ok && (t->cell.eof || drain(&t->cell));
	bool gone = !drain(&t->client) || // it needs nothing more, but may have had a last word
		    (s == &t->client && t->half && events & (LOOP_HUP | LOOP_ERR));
	t->client.eof |= gone;
	if (t->port && t->client.eof && !gone && !t->cell.out.n && !t->half)
		end_half(t);
	bool waits = t->half && !gone;
	if (!ok || (t->cell.eof && !t->client.out.n) || (t->client.eof && !t->cell.out.n && !waits))
		finish(t);
	else
		set_interest(t);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct tunnel *t = container_of(w, struct tunnel, client.w);
	on_side(t, &t->client, &t->cell, events);
}

static void on_cell(struct watch *w, uint32_t events)
{
	struct tunnel *t = container_of(w, struct tunnel, cell.w);
	on_side(t, &t->cell, &t->client, events);
}

static void on_shutdown(struct upgraded *u)
{
	finish(u->ctx);
}

static void on_up(void *ctx, struct upgraded *u)
{
	struct tunnel *t = ctx;
	struct err e;
	t->up = u;
	u->on_shutdown = on_shutdown;
	bool ok = u->fd >= 0 && !loop_add(t->loop, &t->client.w, u->fd, LOOP_IN, &e) &&
		  !loop_add(t->loop, &t->cell.w, t->cell_fd, LOOP_IN, &e);
	if (ok)
		t->cell_fd = -1;
	if (ok && t->port)
		buf_add(&t->cell.out, u->extra, u->n_extra);
	else if (ok && u->n_extra)
		ok = pass_greeting(t, u->extra, u->n_extra);
	if (!ok)
		finish(t);
	else
		on_side(t, &t->client, &t->cell, 0);
}

static void begin(struct request *r, int fd, bool port)
{
	struct tunnel *t = xcalloc(1, sizeof *t);
	*t = (struct tunnel){.loop = request_loop(r), .cell_fd = fd, .port = port, .greeted = port, .client = {.w = {.fd = -1, .fn = on_client}, .out = BUF_INIT(HIGH + CHUNK)},
			     .cell = {.w = {.fd = -1, .fn = on_cell}, .out = BUF_INIT(HIGH + CHUNK + GREETING)},
			     .greeting = BUF_INIT(CHUNK + GREETING)};
	request_upgrade(r, port ? PROTOCOL_PORT : PROTOCOL, on_up, t);
}

static int connect_cell(struct request *r, struct err *e)
{
	const struct sandbox *s = engine_get(r->engine, r->parts[0], e);
	const char *up = request_header(r, "Upgrade"), *id = s ? s->id : r->parts[0];
	// A cell outlives the row of a sandbox that went with it, for clients whose line broke before they had everything.
	if (!s && (e->kind != ERR_NOT_FOUND || !id_is(id)))
		return -1;
	if (!up || strcasecmp(up, PROTOCOL))
		return err_set(e, ERR_INVALID, "ask with Upgrade: " PROTOCOL);
	auto_free char *path = engine_socket(r->engine, id);
	char *slash = strrchr(path, '/');
	*slash = 0;
	auto_fd int at = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	int fd = at < 0 ? -1 : fs_unix_connect(at, slash + 1, e);
	return fd < 0 ? err_set(e, ERR_NOT_FOUND, "sandbox %s has no cell: it has ended", id) : fd;
}

void get_cell_tunnel(struct request *r)
{
	struct err e;
	int fd = connect_cell(r, &e);
	if (fd < 0) {
		request_fail(r, &e);
		return;
	}
	begin(r, fd, false);
}

// --- a port ---

static void on_dialled(void *ctx, const struct err *e, struct flow *f)
{
	if (e)
		request_fail(ctx, e);
	else
		begin(ctx, flow_detach(f), true);
}

void get_port_tunnel(struct request *r)
{
	struct err e;
	uint64_t port = 0;
	const char *up = request_header(r, "Upgrade"), *text = request_query(r, "port");
	if (!up || strcasecmp(up, PROTOCOL_PORT))
		err_set(&e, ERR_INVALID, "ask with Upgrade: " PROTOCOL_PORT);
	else if (!text || str_to_u64(str_of(text), 1, UINT16_MAX, &port))
		err_set(&e, ERR_INVALID, "?port= is a number from 1 to 65535");
	if (port)
		engine_dial(r->engine, r->parts[0], (uint16_t)port, (struct dial_reply){on_dialled, r});
	else
		request_fail(r, &e);
}

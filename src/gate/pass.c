// SPDX-License-Identifier: Apache-2.0
// A connection passed through untouched: bytes go from socket to pipe to socket without being copied here. A pipe is
// taken from a small store when there is something to move and given back when it is empty, so a quiet connection holds
// none. A direction that can not be written is not read: the sender feels it.
#include "gate/gate_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD (1u << 20)	     // bytes moved at once: what an ordinary user's pipe may hold
#define TAP_LOAD (16u << 10) // bytes shown at once
#define ROUNDS 4	     // loads before others get their turn

struct end {
	struct watch w;
	struct pass *p;
	int fd; // -1 = not there (yet)
	uint32_t want;
};

struct flow {
	struct end *from, *to;
	uint64_t *count;
	struct buf first;
	enum pass_seen (*tap)(struct conn *c, const void *bytes, size_t n); // NULL: nobody looks
	int pipe[2];
	size_t held; // bytes in the pipe
	bool eof, done;
};

struct pass {
	struct conn *c;
	const struct pass_calls *calls;
	struct end client, upstream;
	struct flow up, down;
	struct timer idle;
	uint64_t moved_ms;
	bool holding, listening, ended;
};

static void pipe_give_back(struct gate *g, struct flow *f)
{
	if (f->pipe[0] < 0)
		return;
	if (!f->held && g->n_pipes < GATE_PIPES) {
		memcpy(g->pipes[g->n_pipes++], f->pipe, sizeof f->pipe);
	} else {
		close(f->pipe[0]);
		close(f->pipe[1]);
	}
	f->pipe[0] = f->pipe[1] = -1;
}

static int pipe_take(struct gate *g, struct flow *f)
{
	if (f->pipe[0] >= 0)
		return 0;
	if (g->n_pipes) {
		memcpy(f->pipe, g->pipes[--g->n_pipes], sizeof f->pipe);
		return 0;
	}
	if (pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK))
		return -1;
	fcntl(f->pipe[1], F_SETPIPE_SZ, LOAD); // the user's pages for pipes may be used up: a small one will do
	return 0;
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

// What was read before it was known where it goes. 1 = all gone, 0 = not yet, -1 = failed.
static int send_first(struct flow *f)
{
	while (f->first.n) {
		ssize_t n = send(f->to->fd, f->first.p, f->first.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return would_block() ? 0 : -1;
		*f->count += (uint64_t)n;
		buf_cut(&f->first, (size_t)n);
	}
	return 1;
}

// One load. 1 = moved, go on; 0 = nothing to read or no room to write; -1 = failed.
static int move_once(struct flow *f)
{
	const unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
	bool whole = f->held; // less than a load: there was no more, and the loop tells when there is
	if (!f->held) {
		ssize_t n = splice(f->from->fd, NULL, f->pipe[1], NULL, LOAD, flags);
		if (n < 0)
			return would_block() ? 0 : -1;
		f->eof = !n;
		f->held = (size_t)n;
		whole = n == LOAD;
	}
	while (f->held) {
		ssize_t n = splice(f->pipe[0], NULL, f->to->fd, NULL, f->held, flags);
		if (n <= 0)
			return n < 0 && would_block() ? 0 : -1;
		f->held -= (size_t)n;
		*f->count += (uint64_t)n;
	}
	return whole && !f->eof;
}

// The same through our memory, for bytes that somebody looks at.
static int show_once(struct flow *f)
{
	char *room = buf_room(&f->first, TAP_LOAD);
	ssize_t n = room ? recv(f->from->fd, room, TAP_LOAD, MSG_DONTWAIT) : -1;
	if (n < 0)
		return room && would_block() ? 0 : -1;
	f->eof = !n;
	f->first.n += (size_t)n;
	enum pass_seen seen = n ? f->tap(f->from->p->c, room, (size_t)n) : PASS_MORE;
	if (seen == PASS_STOP) {
		errno = EPROTO;
		return -1;
	}
	if (seen == PASS_ENOUGH)
		f->tap = NULL;
	return f->eof ? 0 : send_first(f);
}

static int flow_move(struct gate *g, struct flow *f)
{
	if (f->done || f->from->fd < 0 || f->to->fd < 0)
		return 0;
	bool first = f->first.n;
	int rc = send_first(f);
	if (rc > 0 && first && !f->eof) // there is hardly more yet, and the loop tells when there is
		return 0;
	while (rc > 0 && f->tap && !f->eof)
		rc = show_once(f);
	if (rc < 0 || f->first.n || (f->tap && !f->eof))
		return rc < 0 ? -1 : 0;
	rc = 1;
	if (!f->eof && pipe_take(g, f))
		return -1;
	for (int i = 0; rc > 0 && (f->held || !f->eof) && i < ROUNDS; i++)
		rc = move_once(f);
	if (!f->held)
		pipe_give_back(g, f);
	if (rc >= 0 && f->eof && !f->held) {
		f->done = true;
		shutdown(f->to->fd, SHUT_WR); // a peer that is gone already shows on its own socket
	}
	return rc < 0 ? -1 : 0;
}

// What a socket is watched for. Nothing at all takes it out of the loop: a hang-up would else be told over and over.
static void watch_end(struct end *en, uint32_t want)
{
	struct loop *l = &en->p->c->g->loop;
	struct err e;
	if (want == en->want || en->fd < 0)
		return;
	if (!want)
		loop_del(l, &en->w);
	else if (en->w.fd >= 0)
		loop_mod(l, &en->w, want);
	else if (loop_add(l, &en->w, en->fd, want, &e))
		return;
	en->want = want;
}

static void set_interest(struct pass *p)
{
	bool up = !p->holding && p->upstream.fd >= 0, pending = p->up.held || p->up.first.n;
	uint32_t client = p->down.held || p->down.first.n ? LOOP_OUT : 0;
	if (p->holding)
		client |= p->listening ? LOOP_IN : LOOP_RDHUP;
	else if (up && !p->up.eof && !pending)
		client |= LOOP_IN;
	watch_end(&p->client, client);
	watch_end(&p->upstream, (!p->down.eof && !p->down.held && !p->down.first.n ? LOOP_IN : 0) | (up && pending ? LOOP_OUT : 0));
}

static void finish(struct pass *p, const char *error)
{
	if (p->ended)
		return;
	p->ended = true;
	p->calls->on_end(p->c, error);
}

static void move(struct pass *p, bool up, bool down)
{
	struct gate *g = p->c->g;
	bool bad = up && !p->holding && flow_move(g, &p->up);
	bad = bad || (down && flow_move(g, &p->down));
	p->moved_ms = clock_ms();
	if (bad)
		finish(p, strerror(errno));
	else if (p->up.done && p->down.done)
		finish(p, NULL);
	else
		set_interest(p);
}

static void move_all(struct pass *p)
{
	move(p, true, true);
}

// Each direction is tried only when its socket said something: a call that finds nothing costs as much as a small load.
static bool is_read(uint32_t events)
{
	return events & ~LOOP_OUT;
}

static bool is_written(uint32_t events)
{
	return events & (LOOP_OUT | LOOP_ERR | LOOP_HUP);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct pass *p = container_of(w, struct end, w)->p;
	if (!p->holding)
		move(p, is_read(events), is_written(events));
	else if (events & (LOOP_ERR | LOOP_HUP) || (!p->listening && events & LOOP_RDHUP))
		finish(p, "the client is gone");
	else if (p->listening && events & LOOP_IN)
		p->calls->on_first(p->c);
	else
		move_all(p);
}

static void on_upstream(struct watch *w, uint32_t events)
{
	move(container_of(w, struct end, w)->p, is_written(events), is_read(events));
}

static void on_idle(struct timer *t)
{
	struct pass *p = container_of(t, struct pass, idle);
	uint64_t quiet = clock_ms() - p->moved_ms;
	if (quiet >= GATE_IDLE_MS)
		finish(p, "idle");
	else
		timer_set(&p->c->g->loop, t, GATE_IDLE_MS - quiet);
}

struct pass *pass_new(struct conn *c, int client, const struct pass_calls *calls)
{
	struct pass *p = xcalloc(1, sizeof *p);
	*p = (struct pass){
		.c = c,
		.calls = calls,
		.client = {.w = {.fd = -1, .fn = on_client}, .p = p, .fd = client},
		.upstream = {.w = {.fd = -1, .fn = on_upstream}, .p = p, .fd = -1},
		.up = {&p->client, &p->upstream, &c->bytes_out, BUF_INIT(GATE_BUFFER), NULL, {-1, -1}, 0, false, false},
		.down = {&p->upstream, &p->client, &c->bytes_in, BUF_INIT(GATE_BUFFER), NULL, {-1, -1}, 0, false, false},
		.idle.fn = on_idle,
		.moved_ms = clock_ms(),
		.holding = true,
	};
	return p;
}

int pass_client(const struct pass *p)
{
	return p->client.fd;
}

void pass_listen(struct pass *p, bool on)
{
	p->listening = on;
	set_interest(p);
}

void pass_release(struct pass *p, const void *first, size_t n)
{
	p->holding = false;
	buf_add(&p->up.first, first, n);
	set_interest(p);
	if (p->upstream.fd >= 0)
		move_all(p);
}

void pass_tap(struct pass *p, enum pass_seen (*fn)(struct conn *c, const void *bytes, size_t n))
{
	p->down.tap = fn;
}

void pass_tap_client(struct pass *p, enum pass_seen (*fn)(struct conn *c, const void *bytes, size_t n))
{
	p->up.tap = fn;
}

void pass_upstream(struct pass *p, int fd)
{
	bool asked = p->up.first.n;
	p->upstream.fd = fd;
	timer_set(&p->c->g->loop, &p->idle, GATE_IDLE_MS);
	move(p, true, !asked); // no host has answered what it is only now being asked
}

static void end_close(struct end *en, enum pass_close how)
{
	watch_end(en, 0);
	if (en->fd >= 0 && how == PASS_RESET)
		gate_reset(take_fd(&en->fd));
	close_fd(&en->fd);
}

int pass_take_client(struct pass *p)
{
	watch_end(&p->client, 0);
	return take_fd(&p->client.fd);
}

static void pass_drop(void *p)
{
	free(p);
}

void pass_free(struct pass *p, enum pass_close how)
{
	struct gate *g = p->c->g;
	p->ended = true;
	timer_clear(&g->loop, &p->idle);
	end_close(&p->client, how);
	end_close(&p->upstream, how);
	pipe_give_back(g, &p->up);
	pipe_give_back(g, &p->down);
	buf_done(&p->up.first);
	buf_done(&p->down.first);
	loop_bury(&g->loop, p, pass_drop);
}

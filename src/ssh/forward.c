// SPDX-License-Identifier: Apache-2.0
// A channel to a port inside (ssh -L, -D; direct-tcpip): bytes between it and a connection that init made in the cell's
// own network. Nothing but the cell's loopback can be reached by it.
#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include "model/msg.h"
#include "ssh/ssh_int.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64u << 10)

struct forward {
	struct lane c;
	int fd;
	struct watch w;
	struct buf to_client, to_port;
	bool port_over, client_over; // nothing more comes from there, and the other side knows
	bool port_ended;	     // the port has said its last
};

static bool is_loopback(const char *host)
{
	return !strcmp(host, "localhost") || !strcmp(host, "::1") || str_has_prefix(host, "127.") || !strcmp(host, "0.0.0.0") ||
	       !strcmp(host, "ip6-localhost");
}

// --- asking the cell, on a connection of its own that serves for all of them ---

static int open_dials(struct server *s, struct err *e)
{
	struct ask_ticket t = {0};
	auto_buf struct buf hello = BUF_INIT(4096);
	if (chan_is_open(&s->dials))
		return 0;
	if (ask_is_far(s))
		return err_set(e, ERR_UNAVAILABLE, "skep, which asks for this connection, has ended");
	if (ask_dial(s, &t, e))
		return -1;
	int fd = ask_connect(t.socket, e);
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_DIAL);
	wire_str(&hello, t.ticket);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	ask_ticket_done(&t);
	if (fd < 0)
		return -1;
	chan_init(&s->dials, fd);
	chan_send_buf(&s->dials, M_HELLO, 0, &hello);
	return 0;
}

static int refused(const struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t kind = wire_get_u32(&w), sys = wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	err_set(e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s", msg ? msg : "the connection could not be made");
	e->sys = (int)sys;
	return -1;
}

// The answer, which the cell gives within LIMIT_DIAL_MS; or *out_lost: nobody was there to give one.
static int dial(struct server *s, uint32_t port, bool *out_lost, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16);
	struct frame f;
	wire_u32(&b, port);
	wire_str(&b, NULL);
	*out_lost = false;
	if (open_dials(s, e))
		return -1;
	chan_send_buf(&s->dials, M_DIAL, 1, &b);
	do {
		if (chan_recv(&s->dials, &f, e)) {
			chan_close(&s->dials);
			*out_lost = true;
			return -1;
		}
		if (f.type == M_ERR)
			return refused(&f, e);
		if (f.type != M_DIALLED)
			close_fd(&f.fd);
	} while (f.type != M_DIALLED || f.fd < 0);
	return f.fd;
}

int forward_dial(struct server *s, const struct forward_to *to, struct err *e)
{
	bool lost;
	if (s->n_lanes >= LIMIT_SSH_CHANNELS)
		return err_set(e, ERR_LIMIT, "too many channels on this connection");
	if (!to->host || !is_loopback(to->host) || !to->port || to->port > 65535)
		return err_set(e, ERR_DENIED, "%.100s:%u is refused: only ports of the sandbox itself (localhost) can be forwarded",
			       to->host ? to->host : "", to->port);
	int fd = dial(s, to->port, &lost, e);
	if (fd < 0 && lost) // it has been another cell's
		fd = dial(s, to->port, &lost, e);
	return fd;
}

// --- the bytes ---

static void free_forward(struct lane *c)
{
	struct forward *f = container_of(c, struct forward, c);
	loop_del(&c->s->loop, &f->w);
	close_fd(&f->fd);
	buf_done(&f->to_client);
	buf_done(&f->to_port);
	free(f);
}

static void send_to_port(struct forward *f)
{
	while (f->to_port.n || f->c.readable) {
		char *room = f->to_port.n ? NULL : buf_room(&f->to_port, CHUNK);
		f->to_port.n += room ? lane_take(&f->c, room, CHUNK) : 0;
		if (!f->to_port.n)
			break;
		ssize_t n = send(f->fd, f->to_port.p, f->to_port.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		// what nobody reads any more is thrown away, as a lost connection would
		buf_cut(&f->to_port, n < 0 ? f->to_port.n : (size_t)n);
	}
	if (f->c.eof && !f->client_over) {
		f->client_over = true;
		shutdown(f->fd, SHUT_WR);
	}
}

static void read_port(struct forward *f)
{
	while (!f->port_ended && f->to_client.n < CHUNK) {
		char *room = buf_room(&f->to_client, CHUNK);
		ssize_t n = recv(f->fd, room, CHUNK, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		f->port_ended = n <= 0;
		f->to_client.n += n > 0 ? (size_t)n : 0;
		lane_send(&f->c, &f->to_client, false);
	}
	if (f->port_ended && !f->to_client.n && !f->port_over) {
		f->port_over = true;
		ssh_channel_send_eof(f->c.ssh);
		server_touch(f->c.s);
	}
}

// A descriptor with nothing to wait for leaves the loop: its hang-up would wake us for ever.
static void wait_for_port(struct forward *f)
{
	struct loop *l = &f->c.s->loop;
	struct err e;
	uint32_t want = (!f->port_ended && f->to_client.n < CHUNK ? LOOP_IN : 0) | (f->to_port.n ? LOOP_OUT : 0);
	if (f->w.fd >= 0 && !want)
		loop_del(l, &f->w);
	else if (f->w.fd >= 0)
		loop_mod(l, &f->w, want);
	else if (want && loop_add(l, &f->w, f->fd, want, &e))
		lane_close(&f->c);
}

static void forward_work(struct lane *c)
{
	struct forward *f = container_of(c, struct forward, c);
	if (c->closed)
		lane_drop(c);
	if (c->closed || c->closing)
		return;
	lane_send(c, &f->to_client, false);
	read_port(f);
	send_to_port(f);
	wait_for_port(f);
	if (f->port_over && f->client_over)
		lane_close(c);
}

static void on_port(struct watch *w, uint32_t events)
{
	struct forward *f = container_of(w, struct forward, w);
	(void)events;
	lane_soon(&f->c);
}

void forward_open(struct server *s, ssh_channel ssh, int fd)
{
	struct forward *f = xcalloc(1, sizeof *f);
	*f = (struct forward){
		.c = {.work = forward_work, .free = free_forward},
		.fd = fd,
		.w = {.fd = -1, .fn = on_port},
		.to_client = BUF_INIT(4 * CHUNK),
		.to_port = BUF_INIT(2 * CHUNK),
	};
	lane_begin(&f->c, s, ssh);
	lane_soon(&f->c);
}

// SPDX-License-Identifier: Apache-2.0
// The gate's life: what it is told at the start, the seal, and what it is told later. What can not be understood ends
// it: the cell then starts another one, or stays closed.
#include "gate/gate_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "gate/agent.h"
#include "gate/conn.h"
#include "gate/dns.h"
#include "gate/open.h"
#include "gate/resolve.h"
#include "gate/selfseal.h"
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SECRETS_MAX (4u << 20)
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

const struct secrets *gate_secrets(const struct gate *g)
{
	return &g->secrets;
}

void gate_tune(int fd)
{
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

void gate_reset(int fd)
{
	struct linger now = {1, 0};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	close(fd);
}

// Sealed, so that nobody can change it between the look and the use.
static int read_secrets(struct gate *g, int fd, struct err *e)
{
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END); // fstat is not for a sealed process: glibc's goes by a path
	if (size < 0)
		return err_set(e, ERR_INVALID, "secrets without memory");
	if ((fcntl(fd, F_GET_SEALS) & SEALS) != SEALS || size <= 0 || size > SECRETS_MAX)
		return err_set(e, ERR_INVALID, "secrets in memory that is not sealed");
	struct secrets s;
	void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, "map the secrets");
	int rc = secrets_read(p, (size_t)size, &s, e);
	munmap(p, (size_t)size);
	if (rc)
		return -1;
	for (size_t i = 0; i < s.n; i++)
		(void)!mlock(s.v[i].value, s.v[i].n); // as far as the limit allows
	secrets_done(&g->secrets);
	g->secrets = s;
	g->secrets_generation++;
	agent_secrets(g);
	return 0;
}

static int read_policy(struct gate *g, struct wire *w, struct err *e)
{
	struct policy p;
	if (policy_read(w, &p, e))
		return err_wrap(e, "read the policy");
	policy_done(&g->policy);
	g->policy = p;
	g->policies++;
	return 0;
}

// --- start: frames in a row, read blocking ---

struct start {
	int fds[GATE_SOCKETS];
	bool told;
};

static int on_gate(struct gate *g, struct start *s, const struct frame *f, struct err *e)
{
	struct wire w = {f->p, f->n, false};
	uint32_t version = wire_get_u32(&w);
	if (version != PROTO_VERSION || s->told)
		return err_set(e, ERR_INVALID, "the cell speaks protocol %u, this gate %d", version, PROTO_VERSION);
	g->sandbox = wire_get_str(&w);
	if (read_policy(g, &w, e))
		return -1;
	g->resolver_at = wire_get_str(&w);
	g->ca_cert = wire_get_str(&w);
	s->told = true;
	return w.bad || !g->sandbox || !g->resolver_at || !g->ca_cert ? err_set(e, ERR_INVALID, "malformed start") : 0;
}

static int on_start_frame(struct gate *g, struct start *s, struct frame *f, struct err *e)
{
	switch (f->type) {
	case M_GATE:
		return on_gate(g, s, f, e);
	case M_SOCKET:
		if (f->stream >= GATE_SOCKETS || s->fds[f->stream] >= 0)
			return err_set(e, ERR_INVALID, "a socket of an unknown kind");
		s->fds[f->stream] = take_fd(&f->fd);
		return 0;
	case M_SECRETS:
		return read_secrets(g, f->fd, e);
	default:
		return err_set(e, ERR_INVALID, "frame %d before the start", f->type);
	}
}

static int read_start(struct gate *g, struct start *s, struct err *e)
{
	for (;;) {
		struct frame f;
		if (chan_recv(&g->cell, &f, e))
			return -1;
		if (f.type == M_GO)
			return s->told ? 0 : err_set(e, ERR_INVALID, "nothing to serve");
		int rc = on_start_frame(g, s, &f, e);
		close_fd(&f.fd);
		if (rc)
			return -1;
	}
}

// --- later ---

static void end_badly(struct gate *g, const struct err *e)
{
	log_line(LOG_ERROR, "sandbox=%s %s", g->sandbox, e->msg);
	loop_stop(&g->loop);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct gate *g = container_of(ch, struct gate, cell);
	struct wire w = {f->p, f->n, false};
	struct err e;
	switch (f->type) {
	case M_POLICY:
		if (read_policy(g, &w, &e)) {
			end_badly(g, &e);
			return;
		}
		asks_policy(g);
		conn_policy(g);
		return;
	case M_SECRETS:
		if (read_secrets(g, f->fd, &e) || opened_secrets(g, &e))
			end_badly(g, &e);
		return;
	case M_SOCKET:
		if (f->stream != GATE_AGENT || agent_serve(g, take_fd(&f->fd), &e))
			loop_stop(&g->loop);
		return;
	case M_ANSWER:
		if (f->n == 2)
			asks_answer(g, f->id, f->p[0], f->p[1]);
		return;
	case M_WHO:
		conn_who(g, f);
		dns_who(g, f);
		return;
	default:
		loop_stop(&g->loop);
	}
}

// The cell says that it ends by closing its half: what is open is told, as far as it still takes it.
static void on_close(struct chan *ch)
{
	struct gate *g = container_of(ch, struct gate, cell);
	int fd = take_fd(&ch->fd);
	chan_close(ch);
	chan_init(ch, fd);
	dns_end(g);
	conn_end_all(g);
	loop_stop(&g->loop);
}

// As many as we are given; fewer only means fewer connections.
static void raise_descriptors(struct gate *g)
{
	struct rlimit r = {1024, 1024};
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	g->max_conns = r.rlim_max / GATE_CONN_FDS < GATE_CONNS ? (size_t)r.rlim_max / GATE_CONN_FDS : GATE_CONNS;
}

static int prepare(struct gate *g, struct start *s, struct err *e)
{
	raise_descriptors(g);
	if (loop_init(&g->loop, e) || read_start(g, s, e))
		return -1;
	event_init(g);
	asks_init(g);
	g->resolver = resolver_new(&g->loop, g->resolver_at, e);
	if (!g->resolver || opened_init(g, e) || opened_secrets(g, e))
		return -1;
	return selfseal(SEAL_WITH_PARENT, e);
}

static int serve(struct gate *g, struct start *s, struct err *e)
{
	g->cell.on_frame = on_frame;
	g->cell.on_close = on_close;
	if (dns_serve(g, take_fd(&s->fds[GATE_DNS_UDP]), take_fd(&s->fds[GATE_DNS_TCP]), e))
		return -1;
	const int listeners[] = {take_fd(&s->fds[GATE_TCP]), take_fd(&s->fds[GATE_WIDE4]), take_fd(&s->fds[GATE_WIDE6])};
	if (conn_serve(g, listeners, e))
		return -1;
	if (s->fds[GATE_AGENT] >= 0 && agent_serve(g, take_fd(&s->fds[GATE_AGENT]), e))
		return -1;
	chan_send(&g->cell, M_OK, 0, 0, NULL, 0);
	return chan_attach(&g->cell, &g->loop, e);
}

static void tell_failure(struct gate *g, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(&g->cell, M_ERR, 0, &b);
}

int gate_run(int chan_fd, struct err *e)
{
	struct gate *g = xcalloc(1, sizeof *g);
	struct start s = {.fds = {-1, -1, -1, -1, -1, -1}};
	chan_init(&g->cell, chan_fd);
	if (prepare(g, &s, e) || serve(g, &s, e)) {
		tell_failure(g, e);
		return -1; // the process ends: nothing is freed, as after every other way it may end
	}
	int rc = loop_run(&g->loop, e);
	secrets_done(&g->secrets);
	return rc;
}

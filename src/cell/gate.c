// SPDX-License-Identifier: Apache-2.0
#include "cell/gate.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/gate_int.h"
#include "cell/members.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void start(struct gate *g);

// --- waiting ---

static bool is_wide(int i)
{
	return i == GATE_WIDE4 || i == GATE_WIDE6;
}

static void wait_for_work(struct gate *g, bool on)
{
	struct err e;
	for (int i = 0; i < GATE_SOCKETS; i++) {
		struct gate_listener *l = &g->listen[i];
		if (!on || l->fd < 0 || (is_wide(i) && !g->wide))
			loop_del(&g->cell->loop, &l->w);
		else if (l->w.fd < 0 && loop_add(&g->cell->loop, &l->w, l->fd, LOOP_IN, &e))
			log_line(LOG_ERROR, "sandbox=%s gate: %s", g->cell->spec.sandbox, e.msg);
	}
}

static void on_waiting(struct watch *w, uint32_t events)
{
	(void)events;
	start(container_of(w, struct gate_listener, w)->gate);
}

// --- its end ---

// Its sockets go with us: who connects now is refused by the kernel, and that is recorded too.
static void stay_closed(struct gate *g)
{
	static const char message[] =
		"the gate of this sandbox ended again and again and stays closed: nothing leaves until the "
		"sandbox is stopped and started";
	auto_buf struct buf b = BUF_INIT(2048), hit = BUF_INIT(1024);
	struct jsonw w = {.b = &b};
	g->shut = true;
	wait_for_work(g, false);
	for (int i = 0; i < GATE_SOCKETS; i++)
		close_fd(&g->listen[i].fd);
	jw_kstr(&w, "what", "gate");
	jw_kstr(&w, "why", message);
	if (*g->last_words)
		jw_kstr(&w, "error", g->last_words);
	record(g->cell, "denied", "skep-cell", &b, false);
	wire_str(&hit, "gate");
	wire_str(&hit, message);
	if (g->cell->control)
		chan_send_buf(&g->cell->control->chan, M_HIT, 0, &hit);
	client_tell(g->cell, M_HIT, &hit);
}

static void stop(struct gate *g)
{
	if (g->chan.fd < 0)
		return;
	timer_clear(&g->cell->loop, &g->late);
	chan_close(&g->chan);
	gate_kill(g);
	g->serving = false;
	ask_close_all(g);
}

static void on_close(struct chan *ch)
{
	struct gate *g = container_of(ch, struct gate, chan);
	stop(g);
	if (!g->shut)
		wait_for_work(g, true);
}

static void on_late(struct timer *t)
{
	struct gate *g = container_of(t, struct gate, late);
	log_line(LOG_WARN, "sandbox=%s gate: not ready after %d ms", g->cell->spec.sandbox, GATE_READY_MS);
	on_close(&g->chan);
}

// --- what it says ---

// Only what a gate has to tell, and no more than it may.
static void on_event(struct gate *g, const struct frame *f)
{
	static const char *const types[] = {"net.request", "denied", "secret.used", "approval.asked"};
	struct wire w = {.p = f->p, .n = f->n};
	auto_free char *type = wire_get_str(&w), *by = wire_get_str(&w), *body = wire_get_str(&w);
	auto_buf struct buf b = BUF_INIT(60 << 10);
	uint64_t now = clock_ms();
	if (now - g->second_ms >= 1000) {
		if (g->dropped)
			log_line(LOG_WARN, "sandbox=%s gate: %u events were not recorded", g->cell->spec.sandbox,
				 g->dropped);
		g->second_ms = now;
		g->events = g->dropped = 0;
	}
	for (size_t i = 0; type && by && body && i < countof(types); i++) {
		if (strcmp(type, types[i]))
			continue;
		buf_str(&b, body);
		if (g->events++ < GATE_EVENTS && !b.overflow && members_are_fit(body, strlen(body)))
			record(g->cell, type, "gate", &b, i >= 2); // those two say what was given away
		else
			g->dropped++;
		return;
	}
	g->dropped++;
}

static void on_gate_error(struct gate *g, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	wire_get_u32(&w);
	wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	if (fmt_to(g->last_words, sizeof g->last_words, "%s", msg ? msg : ""))
		g->last_words[sizeof g->last_words - 1] = 0;
	log_line(LOG_WARN, "sandbox=%s gate: %s", g->cell->spec.sandbox, g->last_words);
}

// Which socket it is can be told from here; which process has it, only inside.
static void ask_who(struct gate *g, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_buf struct buf b = BUF_INIT(64);
	struct net_ends t = {.port = (uint16_t)wire_get_u32(&w), .udp = f->stream == WHO_UDP};
	size_t n, m;
	const uint8_t *address = wire_get_bytes(&w, &n), *peer = wire_get_bytes(&w, &m);
	t.peer_port = (uint16_t)wire_get_u32(&w);
	if (w.bad || !t.port || n != m || (n != 4 && n != 16))
		return;
	t.six = n == 16;
	memcpy(t.address, address, n);
	memcpy(t.peer, peer, n);
	wire_u32(&b, t.port);
	wire_u64(&b, net_inode(g->sockets.diag, &t));
	chan_send(&g->cell->init, M_WHO, f->stream, f->id, b.p, b.n);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct gate *g = container_of(ch, struct gate, chan);
	switch ((enum msg_type)f->type) {
	case M_OK: // of M_GO
		g->serving = true;
		timer_clear(&g->cell->loop, &g->late);
		break;
	case M_ERR:
		on_gate_error(g, f);
		break;
	case M_EVENT:
		on_event(g, f);
		watchdog_activity(g->cell);
		break;
	case M_ASK:
		ask_open(g, f);
		break;
	case M_WHO:
		ask_who(g, f);
		break;
	default: // a gate that speaks otherwise is not ours any more
		shutdown(ch->fd, SHUT_RDWR);
	}
}

// A name is believed only if there is such an exec; where one exec runs, it was that one.
static const char *known_exec(const struct cell *c, const char *id)
{
	const struct sx *one = NULL;
	int running = 0;
	for (const struct sx *x = c->execs; x; x = x->next) {
		if (!strcmp(x->spec.id, id))
			return x->spec.id;
		if (!x->ended && ++running)
			one = x;
	}
	return running == 1 ? one->spec.id : "";
}

void gate_who(struct gate *g, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t pid = wire_get_u32(&w);
	auto_free char *exec = wire_get_str(&w), *name = wire_get_str(&w);
	auto_buf struct buf b = BUF_INIT(512);
	if (!g->cell || w.bad)
		return;
	wire_u32(&b, pid);
	wire_str(&b, known_exec(g->cell, exec ? exec : ""));
	wire_str(&b, name ? name : "");
	chan_send_buf(&g->chan, M_WHO, f->id, &b);
}

// --- what it is told ---

// Without any, the ones it had must go too.
static int no_secrets(struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64);
	secrets_write(&b, NULL, 0, "");
	auto_fd int fd = memfd_create("skep-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_sys(e, "memory for secrets");
	if (fs_write_all(fd, b.p, b.n, e))
		return -1;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return err_sys(e, "seal the memory for secrets");
	return take_fd(&fd);
}

static bool send_secrets(struct gate *g, struct err *e)
{
	auto_fd int none = g->secrets < 0 ? no_secrets(e) : -1;
	int fd = g->secrets < 0 ? none : g->secrets;
	return fd >= 0 && chan_send_fd(&g->chan, M_SECRETS, 0, NULL, 0, fd);
}

static void send_start(struct gate *g, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_u32(&b, PROTO_VERSION);
	wire_str(&b, g->cell->spec.sandbox);
	buf_add(&b, g->policy.p, g->policy.n);
	wire_str(&b, g->resolver);
	wire_str(&b, g->ca_cert);
	chan_send_buf(&g->chan, M_GATE, 0, &b);
	for (int i = 0; i < GATE_SOCKETS; i++)
		if (g->listen[i].fd >= 0)
			chan_send_fd_on(&g->chan, M_SOCKET, (uint8_t)i, g->listen[i].fd);
	if (g->secrets >= 0)
		send_secrets(g, e);
	chan_send(&g->chan, M_GO, 0, 0, NULL, 0); // a channel that broke on the way says so from the loop
}

static bool same(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

static void replace(char **at, const char *v)
{
	free(*at);
	*at = xstrdup(v ? v : "");
}

// --- the ssh agent's socket ---

static bool has_ssh(const struct policy *p)
{
	for (size_t i = 0; i < p->n_secrets; i++)
		if (p->secrets[i].as == SECRET_SSH)
			return true;
	return false;
}

// It has a name inside, so it is made there, by init, and only when there is a key to use: before any command that is
// started after this, for init does one thing after the other.
static void ask_agent(struct gate *g, const struct policy *p)
{
	if (g->agent_asked || g->secrets < 0 || !has_ssh(p))
		return;
	g->agent_asked = true;
	chan_send(&g->cell->init, M_AGENT, 0, 0, NULL, 0);
}

void gate_agent(struct gate *g, struct frame *f)
{
	struct gate_listener *l = &g->listen[GATE_AGENT];
	if (!g->cell || g->shut || l->fd >= 0)
		return;
	if (f->fd < 0) {
		log_line(LOG_WARN, "sandbox=%s gate: no socket for the ssh agent", g->cell->spec.sandbox);
		g->agent_asked = false;
		return;
	}
	l->fd = take_fd(&f->fd);
	if (g->chan.fd < 0)
		wait_for_work(g, true);
	else if (!chan_send_fd_on(&g->chan, M_SOCKET, GATE_AGENT, l->fd))
		on_close(&g->chan);
}

// --- addresses that are dialled as they are ---

// What can not be closed is closed for good: nobody dials through a socket that is not there.
static void set_wide(struct gate *g, bool on)
{
	struct err e;
	for (int i = GATE_WIDE4; i <= GATE_WIDE6 && on != g->wide; i++) {
		struct gate_listener *l = &g->listen[i];
		if (l->fd < 0 || !net_wide(l->fd, on, &e))
			continue;
		log_line(LOG_ERROR, "sandbox=%s gate: %s", g->cell->spec.sandbox, e.msg);
		loop_del(&g->cell->loop, &l->w);
		close_fd(&l->fd);
	}
	bool changed = on != g->wide;
	g->wide = on;
	if (changed && !g->shut && g->chan.fd < 0)
		wait_for_work(g, true);
}

// Of the policy only what the supervisor itself sees to.
static void apply_policy(struct gate *g)
{
	struct wire w = {.p = (const uint8_t *)g->policy.p, .n = g->policy.n};
	struct policy p;
	struct err e;
	if (policy_read(&w, &p, &e)) {
		set_wide(g, false);
		return;
	}
	ask_agent(g, &p);
	set_wide(g, policy_has_ranges(&p));
	policy_done(&p);
}

void gate_set(struct gate *g, const struct cell_net *n, int secrets)
{
	struct err e;
	bool anew = !same(n->resolver, g->resolver) || !same(n->ca_cert, g->ca_cert) || !same(n->ca_file, g->ca_file);
	buf_clear(&g->policy);
	if (n->policy.n)
		buf_add(&g->policy, n->policy.p, n->policy.n);
	else
		policy_write(&g->policy, &(struct policy){0});
	replace(&g->resolver, n->resolver);
	replace(&g->ca_cert, n->ca_cert);
	replace(&g->ca_file, n->ca_file);
	close_fd(&g->secrets);
	g->secrets = secrets;
	apply_policy(g);
	if (g->chan.fd < 0)
		return;
	// Secrets first: one that was taken back must not be used under the new policy. What can not be told ends the
	// gate; the next connection starts one that knows.
	if (anew || !send_secrets(g, &e) || !chan_send_buf(&g->chan, M_POLICY, 0, &g->policy))
		on_close(&g->chan);
}

int gate_policy(struct gate *g, struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct policy p;
	if (!g->cell)
		return err_set(e, ERR_CONFLICT, "this cell has no gate");
	if (policy_read(&w, &p, e))
		return -1;
	policy_done(&p); // only the gate needs to understand it; but it must be one
	size_t n = f->n - w.n;
	auto_free char *resolver = wire_get_str(&w), *ca_cert = wire_get_str(&w), *ca_file = wire_get_str(&w);
	if (w.bad)
		return err_set(e, ERR_INVALID, "malformed policy");
	const struct cell_net told = {
		.policy = {.p = (char *)f->p, .n = n}, .resolver = resolver, .ca_cert = ca_cert, .ca_file = ca_file};
	gate_set(g, &told, take_fd(&f->fd));
	return 0;
}

// --- its start ---

static int attach(struct gate *g, struct err *e)
{
	g->chan.on_frame = on_frame;
	g->chan.on_close = on_close;
	return chan_attach(&g->chan, &g->cell->loop, e);
}

// The oldest of the last starts tells how many there were lately.
static bool too_often(struct gate *g)
{
	uint64_t now = clock_ms(), *oldest = &g->starts[g->n_starts % GATE_STARTS];
	if (g->n_starts >= GATE_STARTS && now - *oldest < GATE_STARTS_MS)
		return true;
	*oldest = now;
	g->n_starts++;
	return false;
}

static void start(struct gate *g)
{
	struct err e;
	if (g->shut || g->chan.fd >= 0)
		return;
	if (too_often(g)) {
		stay_closed(g);
		return;
	}
	wait_for_work(g, false);
	if (gate_spawn(g, &e) || attach(g, &e)) {
		if (fmt_to(g->last_words, sizeof g->last_words, "%.150s", e.msg))
			g->last_words[0] = 0;
		log_line(LOG_WARN, "sandbox=%s gate: %s", g->cell->spec.sandbox, e.msg);
		stop(g);
		wait_for_work(g, true);
		return;
	}
	send_start(g, &e);
	timer_set(&g->cell->loop, &g->late, GATE_READY_MS);
}

int gate_init(struct gate *g, struct cell *c, struct net_sockets *s, struct err *e)
{
	int fds[] = {[GATE_TCP] = s->tcp, [GATE_DNS_UDP] = s->dns_udp, [GATE_DNS_TCP] = s->dns_tcp, [GATE_AGENT] = -1,
		     [GATE_WIDE4] = s->wide4, [GATE_WIDE6] = s->wide6};
	const char *program = g->program;
	*g = (struct gate){.cell = c,
			   .program = program,
			   .chan.fd = -1,
			   .chan.w.fd = -1,
			   .secrets = -1,
			   .late.fn = on_late,
			   .policy = BUF_INIT(POLICY_WIRE),
			   .sockets = *s};
	*s = NET_SOCKETS_NONE;
	ask_init(g);
	for (int i = 0; i < GATE_SOCKETS; i++)
		g->listen[i] = (struct gate_listener){.w = {.fd = -1, .fn = on_waiting}, .gate = g, .fd = fds[i]};
	g->sockets.tcp = g->sockets.dns_udp = g->sockets.dns_tcp = g->sockets.wide4 = g->sockets.wide6 = -1; // the listeners have them
	gate_set(g, &(struct cell_net){0}, -1);
	if (g->sockets.nflog >= 0 && refused_init(&g->refused, c, g->sockets.nflog, e))
		return -1;
	wait_for_work(g, true);
	return 0;
}

static void give_back(struct gate *g, struct net_sockets *to)
{
	*to = g->sockets;
	to->tcp = g->listen[GATE_TCP].fd;
	to->dns_udp = g->listen[GATE_DNS_UDP].fd;
	to->dns_tcp = g->listen[GATE_DNS_TCP].fd;
	to->wide4 = g->listen[GATE_WIDE4].fd;
	to->wide6 = g->listen[GATE_WIDE6].fd;
	g->sockets = NET_SOCKETS_NONE;
	for (int i = 0; i < GATE_SOCKETS; i++)
		g->listen[i].fd = -1;
}

// The loop may hold events of this round for what has just been taken from it, and knows them by their descriptor: a
// zeroed one would pass for standard input.
static void forget(struct gate *g)
{
	*g = (struct gate){.chan = {.fd = -1, .w.fd = -1}, .refused.w.fd = -1, .secrets = -1};
	for (int i = 0; i < GATE_SOCKETS; i++)
		g->listen[i] = (struct gate_listener){.w.fd = -1, .fd = -1};
}

void gate_end(struct gate *g, struct net_sockets *back)
{
	if (!g->cell)
		return;
	g->shut = true;
	uint64_t until = clock_ms() + GATE_END_MS, now;
	if (g->chan.fd >= 0)
		shutdown(g->chan.fd, SHUT_WR); // it tells what is still open, then ends
	while (chan_is_open(&g->chan) && (now = clock_ms()) < until) {
		struct pollfd p = {.fd = g->chan.fd, .events = POLLIN};
		if (poll(&p, 1, (int)(until - now)) > 0)
			g->chan.w.fn(&g->chan.w, LOOP_IN);
	}
	stop(g);
	wait_for_work(g, false);
	set_wide(g, false); // they may go back
	refused_end(&g->refused);
	loop_del(&g->cell->loop, &g->refused.w);
	if (!g->n_starts)
		give_back(g, back);
	for (int i = 0; i < GATE_SOCKETS; i++)
		close_fd(&g->listen[i].fd);
	net_sockets_close(&g->sockets);
	close_fd(&g->secrets);
	buf_done(&g->policy);
	free(g->resolver);
	free(g->ca_cert);
	free(g->ca_file);
	forget(g);
}

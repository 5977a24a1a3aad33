// SPDX-License-Identifier: Apache-2.0
// The certificate authority of a sandbox whose TLS is opened somewhere. skep-gate makes it (skepd links no TLS
// library); the certificate is kept in the row, its key sealed beside it. Only the certificate is ever seen inside.
#include "engine/net_int.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/seal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEM_MAX (64u << 10)
#define CA_MS 10000

struct ca {
	struct engine *g;
	char box[ID_SIZE];
	void (*then)(struct box *b, const struct err *e);
	struct watch pipe, child;
	struct timer late;
	pid_t pid;
	int status;
	struct buf out; // holds a key: wiped
	struct ca *next;
};

static void ca_free(void *p)
{
	struct ca *c = p;
	seal_wipe(&c->out);
	free(c);
}

static void unwatch(struct ca *c, struct watch *w)
{
	int fd = w->fd;
	loop_del(c->g->loop, w);
	close_fd(&fd);
}

static char *sealed_as(const struct box *b)
{
	return xasprintf("ca %s", b->row.id);
}

int ca_key(struct box *b, struct buf *out, struct err *e)
{
	const struct seal *s = engine_seal(b->g, e);
	auto_free char *name = sealed_as(b);
	return !s || seal_unlock(s, name, b->row.net.ca_key.p, b->row.net.ca_key.n, out, e) ? err_wrap(e, "CA of %s", b->row.id) : 0;
}

// The certificate, then the key, each as PEM.
static int keep(struct ca *c, struct box *b, struct err *e)
{
	static const char cert_mark[] = "-----BEGIN CERTIFICATE-----", begin[] = "-----BEGIN ", key_mark[] = "PRIVATE KEY-----";
	const struct seal *s = engine_seal(b->g, e);
	if (!s)
		return -1;
	char *cert = c->out.n ? strstr(c->out.p, cert_mark) : NULL;
	char *key = cert ? strstr(cert + sizeof cert_mark - 1, begin) : NULL;
	if (c->status || c->out.overflow || !key || !strstr(key, key_mark))
		return err_set(e, ERR_SYSTEM, "skep-gate made no CA (wait status 0x%x)", (unsigned)c->status);
	auto_free char *name = sealed_as(b);
	struct net_row *n = &b->row.net;
	free(n->ca_cert);
	n->ca_cert = xstrndup(cert, (size_t)(key - cert));
	buf_done(&n->ca_key);
	n->ca_key = BUF_INIT(PEM_MAX + 1024);
	seal_lock(s, name, key, strlen(key), &n->ca_key);
	b->row.has_net = true;
	net_save(b);
	return 0;
}

static void finish(struct ca *c)
{
	struct err e;
	if (c->pipe.fd >= 0 || c->child.fd >= 0)
		return; // both must have ended
	timer_clear(c->g->loop, &c->late);
	for (struct ca **p = &c->g->cas; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	struct box *b = box_by_id(c->g, c->box);
	if (b) {
		b->making_ca = false;
		int rc = keep(c, b, &e);
		c->then(b, rc ? &e : NULL);
	}
	loop_bury(c->g->loop, c, ca_free);
}

static void on_output(struct watch *w, uint32_t events)
{
	(void)events;
	struct ca *c = container_of(w, struct ca, pipe);
	char *room = buf_room(&c->out, PEM_MAX - c->out.n); // one piece: growing would leave copies of the key
	ssize_t n = room && c->out.n < PEM_MAX ? read(w->fd, room, PEM_MAX - c->out.n) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		c->out.n += (size_t)n;
		c->out.p[c->out.n] = 0;
		return;
	}
	unwatch(c, w);
	finish(c);
}

static void on_child(struct watch *w, uint32_t events)
{
	(void)events;
	struct ca *c = container_of(w, struct ca, child);
	if (waitpid(c->pid, &c->status, WNOHANG) != c->pid)
		c->status = -1;
	unwatch(c, w);
	finish(c);
}

static void on_late(struct timer *t)
{
	struct ca *c = container_of(t, struct ca, late);
	if (c->child.fd >= 0)
		kill(c->pid, SIGKILL); // ours and not reaped: the pid is its own
}

static char *gate_program(const struct engine *g)
{
	const char *slash = strrchr(g->image_program, '/'); // its sister
	return xasprintf("%.*s/skep-gate", slash ? (int)(slash - g->image_program) : 0, g->image_program);
}

static int spawn(struct ca *c, struct err *e)
{
	int p[2];
	auto_free char *program = gate_program(c->g);
	if (access(program, X_OK))
		return err_set(e, ERR_UNAVAILABLE, "skep-gate is not beside skep-image: install skep again");
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	char a0[] = "skep-gate", a1[] = "--make-ca", path[] = "PATH=/usr/bin:/bin";
	char *argv[] = {a0, a1, NULL}, *env[] = {path, NULL};
	struct proc_fd fds[] = {{w, 1}, {STDERR_FILENO, 2}};
	c->pid = proc_spawn(&(struct proc_spec){.path = program, .argv = argv, .env = env, .fds = fds, .n_fds = 2}, e);
	if (c->pid < 0)
		return -1;
	auto_fd int pidfd = loop_pidfd(c->pid, e);
	if (pidfd < 0 || fcntl(r, F_SETFL, O_NONBLOCK) || loop_add(c->g->loop, &c->pipe, r, LOOP_IN, e) ||
	    loop_add(c->g->loop, &c->child, pidfd, LOOP_IN, e)) {
		kill(c->pid, SIGKILL);
		return e->kind ? -1 : err_sys(e, "watch skep-gate");
	}
	take_fd(&r);
	take_fd(&pidfd);
	timer_set(c->g->loop, &c->late, CA_MS);
	return 0;
}

int ca_make(struct box *b, void (*then)(struct box *b, const struct err *e), struct err *e)
{
	struct ca *c = xcalloc(1, sizeof *c);
	*c = (struct ca){.g = b->g, .then = then, .out = BUF_INIT(PEM_MAX), .pipe = {.fd = -1, .fn = on_output}, .child = {.fd = -1, .fn = on_child},
			 .late.fn = on_late};
	memcpy(c->box, b->row.id, sizeof c->box);
	*e = (struct err){0};
	if (spawn(c, e)) {
		if (c->pipe.fd >= 0)
			unwatch(c, &c->pipe);
		ca_free(c);
		return -1;
	}
	b->making_ca = true;
	c->next = b->g->cas;
	b->g->cas = c;
	return 0;
}

void ca_free_all(struct engine *g)
{
	while (g->cas) {
		struct ca *c = g->cas;
		g->cas = c->next;
		timer_clear(g->loop, &c->late);
		if (c->pipe.fd >= 0)
			unwatch(c, &c->pipe);
		if (c->child.fd >= 0)
			unwatch(c, &c->child);
		ca_free(c);
	}
}

// SPDX-License-Identifier: Apache-2.0
#include "engine/child.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/seal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ERR_MAX (1u << 20)
#define FEED_MAX (64u << 10)

struct child {
	struct engine *g;
	void (*ended)(void *ctx, const struct child_end *end);
	void (*said)(void *ctx, struct buf *out);
	void *ctx;
	struct watch pipe, end;
	struct timer late;
	pid_t pid;
	int status;
	bool secret, group;
	int err_fd, feed_fd;
	struct buf out;
	struct child *next;
};

static void child_free(void *p)
{
	struct child *c = p;
	if (c->secret)
		seal_wipe(&c->out);
	else
		buf_done(&c->out);
	close_fd(&c->err_fd);
	close_fd(&c->feed_fd);
	free(c);
}

static void unwatch(struct child *c, struct watch *w)
{
	int fd = w->fd;
	loop_del(c->g->loop, w);
	close_fd(&fd);
}

static void finish(struct child *c)
{
	if (c->pipe.fd >= 0 || c->end.fd >= 0)
		return; // both must have ended
	timer_clear(c->g->loop, &c->late);
	list_unlink(&c->g->children, c, next);
	auto_buf struct buf said = BUF_INIT(ERR_MAX);
	struct err e;
	if (c->err_fd >= 0 && (lseek(c->err_fd, 0, SEEK_SET) || fs_read_fd(c->err_fd, &said, &e)))
		buf_clear(&said);
	c->ended(c->ctx, &(struct child_end){c->status, &c->out, &said});
	loop_bury(c->g->loop, c, child_free);
}

static void on_output(struct watch *w, uint32_t events)
{
	(void)events;
	struct child *c = container_of(w, struct child, pipe);
	size_t want = c->out.max - c->out.n;
	want = c->secret || want < 4096 ? want : 4096; // a secret stays in one piece: growing would leave copies
	char *room = want ? buf_room(&c->out, want) : NULL;
	ssize_t n = room ? read(w->fd, room, want) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		c->out.n += (size_t)n;
		c->out.p[c->out.n] = 0;
		if (c->said)
			c->said(c->ctx, &c->out);
		return;
	}
	unwatch(c, w);
	finish(c);
}

static void on_end(struct watch *w, uint32_t events)
{
	(void)events;
	struct child *c = container_of(w, struct child, end);
	if (waitpid(c->pid, &c->status, WNOHANG) != c->pid)
		c->status = -1;
	unwatch(c, w);
	finish(c);
}

static void on_late(struct timer *t)
{
	struct child *c = container_of(t, struct child, late);
	if (c->end.fd >= 0)
		kill(c->pid, SIGKILL); // ours and not reaped: the pid is its own
}

static int watch(struct child *c, int *r, struct err *e)
{
	auto_fd int pidfd = loop_pidfd(c->pid, e);
	if (pidfd < 0)
		return -1;
	if (fcntl(*r, F_SETFL, O_NONBLOCK))
		return err_sys(e, "pipe");
	if (loop_add(c->g->loop, &c->pipe, *r, LOOP_IN, e))
		return -1;
	take_fd(r);
	if (loop_add(c->g->loop, &c->end, pidfd, LOOP_IN, e))
		return -1;
	take_fd(&pidfd);
	return 0;
}

// Bytes as a descriptor that is read from its beginning.
static int memory_fd(const struct buf *b, struct err *e)
{
	auto_fd int fd = memfd_create("skep", MFD_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "memory for a child");
	if (b && (fs_write_all(fd, b->p, b->n, e) || lseek(fd, 0, SEEK_SET)))
		return -1;
	return take_fd(&fd);
}

static int spawn(struct child *c, const struct child_spec *s, struct err *e)
{
	int p[2];
	const char *slash = strrchr(c->g->image_program, '/');
	auto_free char *program = xasprintf("%.*s/%s", slash ? (int)(slash - c->g->image_program) : 0, c->g->image_program, s->program);
	if (access(program, X_OK))
		return err_set(e, ERR_UNAVAILABLE, "%s is not beside skepd: install skep again", s->program);
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *plain[] = {path, NULL};
	auto_fd int in = -1;
	if (s->in && (in = memory_fd(s->in, e)) < 0)
		return -1;
	if (s->waits) {
		int feed[2];
		if (pipe2(feed, O_CLOEXEC))
			return err_sys(e, "pipe");
		in = feed[0];
		c->feed_fd = feed[1];
	}
	if ( (s->want_err && (c->err_fd = memory_fd(NULL, e)) < 0))
		return -1;
	struct proc_fd fds[] = {{w, 1}, {s->want_err ? c->err_fd : STDERR_FILENO, 2}, {in, 0}};
	int n_fds = in >= 0 ? 3 : 2;
	c->pid = proc_spawn(&(struct proc_spec){.path = program, .argv = s->argv, .env = s->env ? s->env : plain, .fds = fds, .n_fds = n_fds, .new_session = s->group}, e);
	if (c->pid < 0)
		return -1;
	if (!watch(c, &r, e))
		return 0;
	kill(c->pid, SIGKILL);
	return -1;
}

struct child *child_start(struct engine *g, const struct child_spec *s, void (*ended)(void *ctx, const struct child_end *end), void *ctx,
			  struct err *e)
{
	struct child *c = xcalloc(1, sizeof *c);
	*c = (struct child){.g = g, .ended = ended, .said = s->said, .ctx = ctx, .pipe = {.fd = -1, .fn = on_output}, .end = {.fd = -1, .fn = on_end},
			    .late.fn = on_late, .secret = s->secret, .group = s->group, .err_fd = -1, .feed_fd = -1, .out = BUF_INIT(s->out_max)};
	if (spawn(c, s, e)) {
		if (c->pipe.fd >= 0)
			unwatch(c, &c->pipe);
		child_free(c);
		return NULL;
	}
	if (s->timeout_ms)
		timer_set(g->loop, &c->late, s->timeout_ms);
	c->next = g->children;
	g->children = c;
	return c;
}

static json_t *last_line(const struct buf *b)
{
	size_t n = b->n;
	const char *p = b->p;
	while (n && p[n - 1] == '\n')
		n--;
	size_t at = n;
	while (at && p[at - 1] != '\n')
		at--;
	struct err ignored;
	return n > at ? json_read(p + at, n - at, &ignored) : NULL;
}

// The first of the paths it names, with the reason.
static void add_refused(const json_t *list, struct err *e)
{
	struct err said = *e;
	auto_buf struct buf b = BUF_INIT(sizeof e->msg / 2);
	size_t i, n = list ? json_array_size(list) : 0;
	for (i = 0; i < n && i < 3; i++) {
		const json_t *r = json_array_get(list, i);
		buf_fmt(&b, "%s%s: %s", i ? "; " : " (", json_str(r, "path"), json_str(r, "why"));
	}
	if (i)
		err_set(e, said.kind, "%s%s%s", said.msg, buf_cstr(&b), n > i ? "; \xe2\x80\xa6)" : ")");
}

json_t *child_json(const struct child_end *end, const char *program, struct err *e)
{
	json_t *o = last_line(end->out);
	if (end->status && end->err && end->err->n && !(o && json_object_get(o, "error"))) {
		json_decref(o);
		o = last_line(end->err); // its stdout carries something else than JSON
	}
	const json_t *fail = o ? json_object_get(o, "error") : NULL;
	if (o && !fail && !end->status)
		return o;
	if (fail) {
		err_set(e, err_kind_parse(json_str(fail, "kind")), "%s", json_str(fail, "message"));
		add_refused(json_object_get(fail, "refused"), e);
	}
	else {
		err_set(e, ERR_SYSTEM, "%s ended without a result (wait status 0x%x)", program, (unsigned)end->status);
	}
	json_decref(o);
	return NULL;
}

int child_feed(struct child *c, const struct buf *in, void (*ended)(void *ctx, const struct child_end *end), void *ctx)
{
	struct err ignored;
	if (!child_waits(c) || in->n > FEED_MAX || fcntl(c->feed_fd, F_SETPIPE_SZ, FEED_MAX) < 0 ||
	    fs_write_all(c->feed_fd, in->p, in->n, &ignored)) // fits as a whole: it never waits
		return -1;
	close_fd(&c->feed_fd);
	c->ended = ended;
	c->ctx = ctx;
	return 0;
}

bool child_waits(const struct child *c)
{
	return c->end.fd >= 0 && c->feed_fd >= 0;
}

void child_dismiss(struct child *c)
{
	close_fd(&c->feed_fd);
}

void child_kill(struct child *c)
{
	if (c->end.fd >= 0)
		kill(c->group ? -c->pid : c->pid, SIGKILL);
}

void child_term(struct child *c)
{
	if (c->end.fd >= 0)
		kill(c->group ? -c->pid : c->pid, SIGTERM);
}

void child_free_all(struct engine *g)
{
	while (g->children) {
		struct child *c = g->children;
		g->children = c->next;
		timer_clear(g->loop, &c->late);
		if (c->pipe.fd >= 0)
			unwatch(c, &c->pipe);
		if (c->end.fd >= 0)
			unwatch(c, &c->end);
		child_free(c);
	}
}

// SPDX-License-Identifier: Apache-2.0
// The nursery process: started, greeted, heard. When it dies it is started again with a growing pause; slots without a spec
// died with it.
#include "backend/native_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "model/msg.h"
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 5000
#define FAILURES_MAX 3 // then waiting starts are told

static void on_frame(struct chan *ch, struct frame *f)
{
	struct native *n = container_of(ch, struct native, ch);
	struct err e;
	if (f->type == M_SLOT && f->fd >= 0) {
		n->failures = 0;
		n->backoff_ms = BACKOFF_MIN_MS;
		pool_slot(n, f);
	} else if (f->type == M_BACK) {
		pool_back(n);
	} else if (f->type == M_OK && f->fd >= 0) {
		request_opened(&n->jobs, f);
	} else if (f->type == M_OK) {
		request_done(&n->jobs, f);
	} else if (f->type == M_ERR) {
		frame_err(f, &e);
		if (!f->id)
			n->last = e; // it could not start and ends now
		else if (!request_end(&n->jobs, f->id, &e))
			pool_refused(n, f, &e);
	} else {
		log_line(LOG_WARN, "nursery: unexpected frame %u", f->type);
	}
}

static void lost(struct native *n, const struct err *why)
{
	chan_close(&n->ch);
	n->connected = false;
	pool_lost(n);
	if (++n->failures >= FAILURES_MAX) {
		pool_fail(n, why, false);
		request_end_all(&n->jobs, why);
	}
	log_line(LOG_WARN, "nursery: %s; next start in %llu ms", why->msg, (unsigned long long)n->backoff_ms);
	timer_set(n->loop, &n->respawn, n->backoff_ms);
	n->backoff_ms = n->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : n->backoff_ms * 2;
}

static void on_close(struct chan *ch)
{
	struct err e;
	struct native *n = container_of(ch, struct native, ch);
	err_set(&e, ERR_UNAVAILABLE, "the nursery ended");
	if (n->last.kind != ERR_NONE)
		e = n->last;
	n->last.kind = ERR_NONE;
	lost(n, &e);
}

static void on_child(struct watch *w, uint32_t events)
{
	(void)events;
	struct native *n = container_of(w, struct native, child);
	int fd = w->fd, status;
	loop_del(n->loop, w);
	close_fd(&fd);
	if (n->pid > 0 && waitpid(n->pid, &status, WNOHANG) == n->pid)
		log_line(LOG_WARN, "nursery process ended, wait status 0x%x", (unsigned)status);
	n->pid = 0;
}

static int spawn(struct native *n, struct err *e)
{
	int sv[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return err_sys(e, "socketpair");
	auto_fd int ours = sv[0], theirs = sv[1];
	char arg0[] = "skep-cell", arg1[] = "--nursery", path[] = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";
	const char *injected = getenv("SKEP_FAULT"); // tests
	auto_free char *fault = injected ? xasprintf("SKEP_FAULT=%s", injected) : NULL;
	char *argv[] = {arg0, arg1, NULL}, *env[] = {path, fault, NULL};
	struct proc_fd fds[] = {{theirs, 3}, {STDERR_FILENO, 2}};
	struct proc_spec spec = {.path = n->cell_program, .argv = argv, .env = env, .fds = fds, .n_fds = 2, .new_session = true};
	pid_t pid = proc_spawn(&spec, e);
	if (pid < 0)
		return -1;
	n->pid = pid;
	int pidfd = loop_pidfd(pid, e);
	n->child.fn = on_child;
	if (pidfd < 0 || loop_add(n->loop, &n->child, pidfd, LOOP_IN, e))
		log_line(LOG_WARN, "nursery: %s", e->msg); // it will stay a zombie; slots work all the same
	return take_fd(&ours);
}

static int greet(struct native *n, int fd, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(65536);
	char *none[] = {NULL};
	chan_init(&n->ch, fd);
	n->ch.on_frame = on_frame;
	n->ch.on_close = on_close;
	if (chan_attach(&n->ch, n->loop, e))
		return -1;
	wire_u32(&b, PROTO_VERSION);
	wire_str(&b, n->skep_home);
	wire_str(&b, n->home);
	wire_strv(&b, none); // tool roots differ from caller to caller: they come as mounts of each spec
	wire_strv(&b, none);
	chan_send_buf(&n->ch, M_NURSERY, 0, &b);
	n->connected = true;
	pool_ask(n);
	for (struct request *q = n->jobs; q; q = q->next)
		request_hand_over(n, q);
	pool_refill(n);
	return 0;
}

static void on_respawn(struct timer *t)
{
	struct native *n = container_of(t, struct native, respawn);
	struct err e;
	int fd = spawn(n, &e);
	if (fd < 0 || greet(n, fd, &e))
		lost(n, &e);
}

int nursery_open(struct native *n, int fd, struct err *e)
{
	pool_open(n);
	n->backoff_ms = BACKOFF_MIN_MS;
	n->child.fd = n->ch.fd = n->ch.w.fd = -1;
	n->respawn.fn = on_respawn;
	if (fd < 0)
		fd = spawn(n, e);
	return fd < 0 ? -1 : greet(n, fd, e);
}

void nursery_close(struct native *n)
{
	timer_clear(n->loop, &n->respawn);
	if (n->connected)
		chan_close(&n->ch);
	n->connected = false;
	pool_close(n);
	int fd = n->child.fd;
	loop_del(n->loop, &n->child);
	close_fd(&fd);
}

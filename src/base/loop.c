// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include "base/clock.h"
#include "base/mem.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

struct grave {
	void *obj;
	void (*free_fn)(void *obj);
	struct grave *next;
};

int loop_init(struct loop *l, struct err *e)
{
	*l = (struct loop){.epfd = epoll_create1(EPOLL_CLOEXEC)};
	return l->epfd < 0 ? err_sys(e, "epoll_create") : 0;
}

static void burials(struct loop *l)
{
	while (l->graves) {
		struct grave *g = l->graves;
		l->graves = g->next;
		g->free_fn(g->obj);
		free(g);
	}
}

void loop_done(struct loop *l)
{
	burials(l);
	close_fd(&l->epfd);
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}

int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events, struct err *e)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev))
		return err_sys(e, "watch a descriptor");
	w->fd = fd;
	w->events = events;
	return 0;
}

void loop_mod(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	if (w->fd >= 0 && w->events != events)
		epoll_ctl(l->epfd, EPOLL_CTL_MOD, w->fd, &ev);
	w->events = events;
}

void loop_del(struct loop *l, struct watch *w)
{
	if (w->fd >= 0)
		epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = -1;
}

void timer_clear(struct loop *l, struct timer *t)
{
	if (!t->at_ms)
		return;
	list_unlink(&l->timers, t, next);
	t->at_ms = 0;
}

void timer_set(struct loop *l, struct timer *t, uint64_t in_ms)
{
	struct timer **p = &l->timers;
	timer_clear(l, t);
	t->at_ms = clock_ms() + in_ms;
	while (*p && (*p)->at_ms <= t->at_ms)
		p = &(*p)->next;
	t->next = *p;
	*p = t;
}

void loop_bury(struct loop *l, void *obj, void (*free_fn)(void *obj))
{
	struct grave *g = xcalloc(1, sizeof *g);
	*g = (struct grave){obj, free_fn, l->graves};
	l->graves = g;
}

void loop_soon(struct loop *l, struct chore *t)
{
	struct chore **p = &l->chores;
	if (t->queued)
		return;
	while (*p)
		p = &(*p)->next;
	*p = t;
	t->next = NULL;
	t->queued = true;
}

void loop_forget(struct loop *l, struct chore *t)
{
	for (struct chore **p = &l->chores; *p && t->queued; p = &(*p)->next)
		if (*p == t) {
			*p = t->next;
			break;
		}
	t->queued = false;
}

void loop_flush(struct loop *l)
{
	while (l->chores) {
		struct chore *t = l->chores;
		l->chores = t->next;
		t->queued = false;
		t->fn(t);
	}
}

static int until_next_timer(const struct loop *l)
{
	if (!l->timers)
		return -1;
	uint64_t now = clock_ms(), at = l->timers->at_ms;
	if (at <= now)
		return 0;
	return at - now > 1 << 30 ? 1 << 30 : (int)(at - now);
}

static void fire_timers(struct loop *l)
{
	uint64_t now = clock_ms();
	while (l->timers && l->timers->at_ms <= now) {
		struct timer *t = l->timers;
		timer_clear(l, t);
		t->fn(t);
	}
}

int loop_run(struct loop *l, struct err *e)
{
	struct epoll_event ev[64];
	l->stop = false;
	while (!l->stop) {
		int n = epoll_wait(l->epfd, ev, countof(ev), until_next_timer(l));
		if (n < 0 && errno != EINTR)
			return err_sys(e, "epoll_wait");
		l->busy = true;
		for (int i = 0; i < n; i++) {
			struct watch *w = ev[i].data.ptr;
			if (w->fd >= 0) // removed earlier in this batch
				w->fn(w, ev[i].events);
		}
		fire_timers(l);
		loop_flush(l);
		l->busy = false;
		burials(l);
	}
	return 0;
}

int loop_pidfd(pid_t pid, struct err *e)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? err_sys(e, "pidfd of %d", (int)pid) : fd; // pidfds are close-on-exec
}

int loop_signals(const int *signals, int n, struct err *e)
{
	sigset_t set;
	sigemptyset(&set);
	for (int i = 0; i < n; i++)
		sigaddset(&set, signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_sys(e, "block signals");
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_sys(e, "signalfd") : fd;
}

int loop_signal_next(int fd)
{
	struct signalfd_siginfo si;
	return read(fd, &si, sizeof si) == sizeof si ? (int)si.ssi_signo : 0;
}

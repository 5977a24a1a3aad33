// SPDX-License-Identifier: Apache-2.0
#include "api/follow.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

struct follower {
	struct follower *next;
	struct request *r;
	struct timer late;
	uint64_t offset;
	int wd; // several may have the same
};

static struct {
	struct loop *loop;
	struct watch news;
	struct follower *list;
	int n;
} all = {.news.fd = -1}; // one server in a process

static void drop(struct follower *f)
{
	bool shared = false;
	for (struct follower **p = &all.list; *p;)
		if (*p == f) {
			*p = f->next;
			all.n--;
		} else {
			shared |= (*p)->wd == f->wd;
			p = &(*p)->next;
		}
	timer_clear(all.loop, &f->late);
	if (!shared)
		inotify_rm_watch(all.news.fd, f->wd);
	free(f);
}

// False: there is nothing to tell yet.
static bool answer(struct follower *f, bool late)
{
	struct request *r = f->r;
	struct err e;
	uint64_t end = f->offset;
	bool failed = engine_journal(r->engine, r->parts[0], f->offset, &r->answer, &end, &e);
	if (!failed && !r->answer.n && !late)
		return false;
	drop(f);
	if (failed) {
		request_fail(r, &e);
		return true;
	}
	if (fmt_to(r->end, sizeof r->end, "%llu", (unsigned long long)end))
		r->end[0] = 0;
	request_answer(r, 200);
	return true;
}

static void on_late(struct timer *t)
{
	answer(container_of(t, struct follower, late), true);
}

static void wake(int wd, bool overflow)
{
	for (struct follower *f = all.list, *next; f; f = next) {
		next = f->next;
		if (overflow || f->wd == wd)
			answer(f, false);
	}
}

static void on_news(struct watch *w, uint32_t events)
{
	char bytes[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(w->fd, bytes, sizeof bytes);
	int last = -1;
	(void)events;
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(bytes + at);
		if (ev->wd != last || ev->mask & IN_Q_OVERFLOW)
			wake(ev->wd, ev->mask & IN_Q_OVERFLOW);
		last = ev->wd;
		at += (ssize_t)(sizeof *ev + ev->len);
	}
}

static int watch_journal(struct request *r)
{
	struct err e;
	char path[48];
	if (all.news.fd < 0) {
		int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		all.news.fn = on_news;
		if (fd < 0 || loop_add(all.loop, &all.news, fd, LOOP_IN, &e))
			return -1;
	}
	auto_fd int dir = engine_journal_dir(r->engine, r->parts[0], &e);
	if (dir < 0 || fmt_to(path, sizeof path, "/proc/self/fd/%d", dir))
		return -1;
	return inotify_add_watch(all.news.fd, path, IN_MODIFY | IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF);
}

void follow(struct request *r, struct loop *l, uint64_t offset, uint64_t wait_ms)
{
	all.loop = l;
	int wd = all.n < FOLLOWERS ? watch_journal(r) : -1;
	if (wd < 0) {
		request_answer(r, 200);
		return;
	}
	struct follower *f = xcalloc(1, sizeof *f);
	*f = (struct follower){.r = r, .offset = offset, .wd = wd, .late.fn = on_late, .next = all.list};
	all.list = f;
	all.n++;
	if (!answer(f, false)) // what came before the watch was set
		timer_set(l, &f->late, wait_ms < FOLLOW_MAX_MS ? wait_ms : FOLLOW_MAX_MS);
}

// SPDX-License-Identifier: Apache-2.0
#include "init/throttle.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/tree.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RUN_MS 40	// between two looks; more where there are many to look at
#define HOLD_MS 200	// at most at once
#define SAVED_US 50000	// what was not used may be used later, so much of one processor
#define STOP_LOOKS 10	// milliseconds that one generation may take to stop
#define PROCS_MAX 65536

struct seen {
	pid_t pid, parent;
	char state;
	uint64_t own, all; // ticks it used; with those of children it waited for
	uint64_t start;
	int depth; // 0 = child of pid 1; -1 = goes on
};

struct look {
	struct seen *v; // by pid
	size_t n;
};

static struct {
	struct loop *loop;
	uint64_t cpus_milli;
	struct timer timer;
	struct look last;
	uint64_t last_us, used_us;
	int64_t debt_us;
	pid_t *held; // ancestors first
	size_t n_held;
} self;

// --- looking ---

static bool read_stat(const char *name, struct seen *out)
{
	char path[64];
	struct err e;
	struct str part;
	auto_buf struct buf b = BUF_INIT(4096);
	uint64_t v[23] = {0}, pid;
	if (str_to_u64(str_of(name), 2, INT32_MAX, &pid) || fmt_to(path, sizeof path, "/proc/%s/stat", name) || fs_read(AT_FDCWD, path, &b, &e))
		return false;
	const char *p = strrchr(buf_cstr(&b), ')');
	if (!p || !p[1])
		return false;
	struct str rest = str_of(p + 2);
	out->state = rest.n ? *rest.p : '?';
	for (size_t i = 3; i < countof(v) && str_next(&rest, ' ', &part); i++) // numbered as in proc(5)
		if (str_to_u64(part, 0, UINT64_MAX, &v[i]))
			v[i] = 0; // those that are negative are none of ours
	*out = (struct seen){(pid_t)pid, (pid_t)v[4], out->state, v[14] + v[15], v[14] + v[15] + v[16] + v[17], v[22], -1};
	return true;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct seen *)a)->pid, y = ((const struct seen *)b)->pid;
	return (x > y) - (x < y);
}

static struct look look(void)
{
	struct look l = {0};
	DIR *d = opendir("/proc");
	struct dirent *ent;
	while (d && (ent = readdir(d)) && l.n < PROCS_MAX) {
		if (ent->d_name[0] < '0' || ent->d_name[0] > '9')
			continue;
		if (!(l.n & (l.n - 1)))
			l.v = xrealloc(l.v, (l.n ? l.n * 2 : 1) * sizeof *l.v);
		if (read_stat(ent->d_name, &l.v[l.n]))
			l.n++;
	}
	if (d)
		closedir(d);
	if (l.n)
		qsort(l.v, l.n, sizeof *l.v, by_pid);
	return l;
}

static struct seen *find(const struct look *l, pid_t pid)
{
	struct seen key = {.pid = pid};
	return l->n ? bsearch(&key, l->v, l->n, sizeof key, by_pid) : NULL;
}

static uint64_t us_of(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

// Of all that lives, and of all that pid 1 has buried, with what those had waited for.
static uint64_t used_us(const struct look *l)
{
	struct rusage r;
	uint64_t ticks = 0;
	getrusage(RUSAGE_CHILDREN, &r);
	for (size_t i = 0; i < l->n; i++)
		ticks += l->v[i].all;
	return us_of(r.ru_utime) + us_of(r.ru_stime) + ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

// --- whom ---

static bool is_hot(const struct seen *s)
{
	const struct seen *before = find(&self.last, s->pid);
	return !before || before->start != s->start ? s->own || s->state == 'R' : s->own > before->own;
}

static int depth_of(const struct look *l, const struct seen *s)
{
	int depth = 0;
	while (s && s->parent > 1 && depth < 1000) {
		s = find(l, s->parent);
		depth++;
	}
	return s && depth < 1000 ? depth : -1;
}

// It and its ancestors.
static void mark(struct look *l, struct seen *s)
{
	for (; s && s->depth < 0; s = find(l, s->parent))
		s->depth = depth_of(l, s);
}

// The hexadecimal number behind the key; of a decimal one whether it is 0.
static uint64_t status_of(pid_t pid, const char *key)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(8192);
	if (fmt_to(path, sizeof path, "/proc/%d/status", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return 0;
	const char *at = strstr(buf_cstr(&b), key);
	uint64_t v = 0;
	for (at = at ? at + strlen(key) : ""; *at == '\t' || *at == ' '; at++)
		;
	for (; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
		v = v << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return v;
}

static bool is_stopped(pid_t pid)
{
	char name[16];
	struct seen s;
	return fmt_to(name, sizeof name, "%d", (int)pid) || !read_stat(name, &s) || strchr("TtZX", s.state);
}

// --- stopping and going on ---

static void hold_one(struct seen *s)
{
	bool leave = strchr("TtZX", s->state) || status_of(s->pid, "TracerPid:");
	leave = leave || is_stopped(s->pid); // by ^Z, since we looked: it must not go on with the others
	if (leave || kill(s->pid, SIGSTOP))
		s->depth = -1;
	else
		self.held[self.n_held++] = s->pid;
}

// A process that does not stop (it waits in the kernel for a child between vfork and exec, say) would see its children do so.
static void wait_for(struct look *l, int depth)
{
	bool all = false;
	for (int i = 0; i < STOP_LOOKS && !all; i++) {
		if (i)
			poll(NULL, 0, 1);
		all = true;
		for (size_t k = 0; k < l->n && all; k++)
			all = l->v[k].depth != depth || is_stopped(l->v[k].pid);
	}
}

static bool parent_sees(const struct look *l, const struct seen *s)
{
	const struct seen *parent = s->parent > 1 ? find(l, s->parent) : NULL;
	return parent && !is_stopped(parent->pid);
}

static void hold(struct look *l)
{
	int deepest = -1;
	for (size_t i = 0; i < l->n; i++)
		if (is_hot(&l->v[i]))
			mark(l, &l->v[i]);
	for (size_t i = 0; i < l->n; i++)
		deepest = l->v[i].depth > deepest ? l->v[i].depth : deepest;
	self.held = xcalloc(l->n + 1, sizeof *self.held);
	for (int depth = 0; depth <= deepest; depth++) {
		for (size_t i = 0; i < l->n; i++)
			if (l->v[i].depth == depth && !parent_sees(l, &l->v[i]))
				hold_one(&l->v[i]);
		wait_for(l, depth);
	}
}

static void release_one(pid_t pid)
{
	static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
	uint64_t pending = status_of(pid, "ShdPnd:") | status_of(pid, "SigPnd:");
	kill(pid, SIGCONT); // throws pending stops away
	for (size_t i = 0; i < countof(stops); i++)
		if (pending & 1ULL << (stops[i] - 1))
			kill(pid, stops[i]);
}

static void release(void)
{
	while (self.n_held)
		release_one(self.held[--self.n_held]);
	free(self.held);
	self.held = NULL;
}

bool throttle_holds(pid_t pid)
{
	for (size_t i = 0; i < self.n_held; i++)
		if (self.held[i] == pid)
			return true;
	return false;
}

// --- the account ---

static void settle(const struct look *l)
{
	uint64_t now = clock_us(), used = used_us(l);
	int64_t spent = used > self.used_us ? (int64_t)(used - self.used_us) : 0;
	int64_t given = (int64_t)((now - self.last_us) * self.cpus_milli / 1000), saved = (int64_t)(SAVED_US * self.cpus_milli / 1000);
	if (self.last_us)
		self.debt_us += spent - given;
	if (self.debt_us < -saved)
		self.debt_us = -saved;
	self.last_us = now;
	self.used_us = used;
}

static void on_time(struct timer *t)
{
	struct look l = look();
	settle(&l);
	release();
	uint64_t next = RUN_MS + l.n / 4, rest = self.debt_us > 0 ? (uint64_t)self.debt_us / self.cpus_milli + 1 : 0;
	if (rest) {
		hold(&l);
		next = rest < HOLD_MS ? rest : HOLD_MS;
	}
	free(self.last.v);
	self.last = l;
	if (l.n)
		timer_set(self.loop, t, next);
	else
		self.last_us = 0; // nobody is there: the next command begins anew
}

void throttle_init(struct loop *l, uint64_t cpus_milli)
{
	self.loop = l;
	self.cpus_milli = cpus_milli;
	self.timer.fn = on_time;
}

void throttle_wake(void)
{
	if (self.cpus_milli && !self.timer.at_ms)
		timer_set(self.loop, &self.timer, RUN_MS);
}

void throttle_rest(void)
{
	if (!self.cpus_milli)
		return;
	timer_clear(self.loop, &self.timer);
	release();
	self.last_us = 0;
}

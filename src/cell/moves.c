// SPDX-License-Identifier: Apache-2.0
#include "cell/moves.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/look.h"
#include "cell/owned.h"
#include "cell/rights.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OVERLAY 0x794c7630
#define NOREPLACE 1u
#define EXCHANGE 2u

struct move {
	struct seccomp_event ev;
	int stage; // 0: its source; 1: its target, which an exchange moves too
	struct move *next;
};

// One at a time: two at work in one tree would move each other's entries away.
static struct {
	struct cell *cell; // one process, one cell
	int listener;
	struct move *first, **end; // the first is at work
	uint32_t id;		   // of what init was asked last
} self;

// --- what a call names ---

static bool has_dirs(const struct seccomp_event *ev)
{
#ifdef SYS_rename
	return ev->nr != SYS_rename;
#else
	(void)ev;
	return true;
#endif
}

static unsigned flags_of(const struct seccomp_event *ev)
{
	return ev->nr == SYS_renameat2 ? (unsigned)ev->args[4] : 0;
}

static int open_arg(const struct seccomp_event *ev, int i, struct look *out)
{
	return has_dirs(ev) ? look_open(ev, 2 * i, 2 * i + 1, out) : look_open(ev, -1, i, out);
}

static bool is_overlay_dir(int fd, const struct stat *st)
{
	struct statfs fs;
	return S_ISDIR(st->st_mode) && !fstatfs(fd, &fs) && fs.f_type == OVERLAY;
}

// The only thing that most renames wait for.
static bool needs_help(const struct cell *c, const struct seccomp_event *ev, int i)
{
	struct look l;
	struct stat st;
	bool files = owned_in(c);
	int fd = open_arg(ev, i, &l) || (!files && look_is_plain(&l)) ? -1 : look_file(&l, &st);
	bool yes = fd >= 0 && (is_overlay_dir(fd, &st) || (files && owned_is_foreign(c, fd, &st)));
	close_fd(&fd);
	look_done(&l);
	return yes;
}

static uint64_t mount_of(int fd)
{
	struct statx st;
	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID) ? 0 : st.stx_mnt_id;
}

static bool is_below(int fd, int top)
{
	char link[2][48], path[2][4096];
	ssize_t n[2];
	for (int i = 0; i < 2; i++) {
		if (fmt_to(link[i], sizeof link[i], "/proc/self/fd/%d", i ? top : fd))
			return false;
		n[i] = readlink(link[i], path[i], sizeof path[i]);
	}
	return n[1] > 0 && n[0] >= n[1] && !memcmp(path[0], path[1], (size_t)n[1]) && (n[0] == n[1] || path[0][n[1]] == '/');
}

// What the kernel refuses anyway shall not cost a copy of the tree.
static bool may_succeed(const struct seccomp_event *ev, int source, struct look *to)
{
	struct stat st;
	unsigned flags = flags_of(ev);
	auto_fd int dir = look_dir(to);
	if (dir < 0 || !look_name(to) || mount_of(dir) != mount_of(source) || is_below(dir, source))
		return false;
	auto_fd int there = look_file(to, &st);
	if (there < 0)
		return errno == ENOENT && !(flags & EXCHANGE);
	return !(flags & NOREPLACE) && (S_ISDIR(st.st_mode) || flags & EXCHANGE);
}

// --- one after the other ---

static void go_on(const struct seccomp_event *ev)
{
	struct err e;
	if (seccomp_answer(self.listener, ev, &e))
		log_line(LOG_WARN, "sandbox=%s %s", self.cell->spec.sandbox, e.msg);
}

// In the default profile everybody in the cell is the one user, and has no capability.
static int add_rights(const struct seccomp_event *ev, enum move_verb verb, struct buf *b)
{
	const struct cell *c = self.cell;
	struct rights r = {0};
	if (c->profile == PROFILE_ROOT && (rights_find(c, ev->pid, &r) || (verb != MOVE_DIRECTORY && !owned_may(&r))))
		return -1;
	wire_u8(b, c->profile == PROFILE_ROOT);
	if (c->profile == PROFILE_ROOT)
		rights_write(b, &r);
	return 0;
}

// Everything above was found by the caller's number. It is still the caller's if it waits still: only then is what was
// opened surely the cell's own.
static bool ask(const struct move *m, struct look *l, enum move_verb verb)
{
	auto_buf struct buf b = BUF_INIT(4096);
	auto_fd int dir = look_dir(l);
	if (dir < 0 || !look_name(l))
		return false;
	wire_str(&b, look_name(l));
	wire_u8(&b, verb);
	if (add_rights(&m->ev, verb, &b) || b.overflow || !seccomp_is_waiting(self.listener, &m->ev))
		return false;
	return chan_send_fd(&self.cell->init, M_MOVABLE, ++self.id, b.p, b.n, dir);
}

// False when this stage needs no help, or could not get any.
static bool begin_stage(const struct move *m)
{
	struct look l[2];
	struct stat st;
	bool asked = false;
	int rc = open_arg(&m->ev, 0, &l[0]);
	rc = open_arg(&m->ev, 1, &l[1]) || rc;
	auto_fd int fd = rc ? -1 : look_file(&l[m->stage], &st);
	if (fd >= 0 && is_overlay_dir(fd, &st) && may_succeed(&m->ev, fd, &l[!m->stage]))
		asked = ask(m, &l[m->stage], MOVE_DIRECTORY);
	else if (fd >= 0 && owned_in(self.cell) && owned_is_foreign(self.cell, fd, &st))
		asked = ask(m, &l[m->stage], MOVE_OWN);
	look_done(&l[0]);
	look_done(&l[1]);
	return asked;
}

static bool begin_owned(const struct move *m)
{
	struct look l;
	bool follow;
	auto_fd int fd = owned_find(self.cell, &m->ev, &l, &follow);
	bool asked = fd >= 0 && ask(m, &l, follow ? MOVE_OWN_TARGET : MOVE_OWN);
	look_done(&l);
	return asked;
}

static bool begin(struct move *m)
{
	if (!seccomp_is_rename(&m->ev))
		return !m->stage && seccomp_is_waiting(self.listener, &m->ev) && begin_owned(m);
	for (; m->stage < (flags_of(&m->ev) & EXCHANGE ? 2 : 1); m->stage++)
		if (seccomp_is_waiting(self.listener, &m->ev) && begin_stage(m))
			return true;
	return false;
}

static void work(void)
{
	while (self.first && !begin(self.first)) {
		struct move *done = self.first;
		go_on(&done->ev);
		self.first = done->next;
		free(done);
	}
	if (!self.first)
		self.end = &self.first;
}

static void move_queue(const struct seccomp_event *ev)
{
	struct move *m = xcalloc(1, sizeof *m);
	bool idle = !self.first;
	m->ev = *ev;
	self.end = idle ? &self.first : self.end;
	*self.end = m;
	self.end = &m->next;
	if (idle)
		work();
}

void moves_call(struct cell *c, int listener, const struct seccomp_event *ev)
{
	self.cell = c;
	self.listener = listener;
	if (needs_help(c, ev, 0) || (flags_of(ev) & EXCHANGE && needs_help(c, ev, 1)))
		move_queue(ev);
	else
		go_on(ev);
}

void moves_owning(struct cell *c, int listener, const struct seccomp_event *ev)
{
	struct look l;
	bool follow;
	self.cell = c;
	self.listener = listener;
	auto_fd int fd = ev->pid == c->init_pid ? -1 : owned_find(c, ev, &l, &follow); // pid 1 can not wait for itself
	if (ev->pid != c->init_pid)
		look_done(&l);
	if (fd >= 0)
		move_queue(ev);
	else
		go_on(ev);
}

void moves_answer(uint32_t id)
{
	if (!self.first || id != self.id)
		return;
	self.first->stage++;
	work();
}

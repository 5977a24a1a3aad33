// SPDX-License-Identifier: Apache-2.0
#include "cell/mold.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define MOLD_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
#define CELL_NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
#define WAIT_MS 2000

// --- the process that keeps it ---

static _Noreturn void hatch(struct contain *c, struct chan *mold, int fd)
{
	struct chan ch;
	struct err e;
	close(mold->fd);
	close_fd(&c->scratch);
	close_fd(&c->state.dir);
	net_sockets_close(&c->net);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, "skep-cell");
	proc_stretch(0, 0); // nobody waits for it yet
	chan_init(&ch, fd);
	if (fault(FAULT_CELL_PREPARE, &e) || contain_enter(c, &e)) {
		err_wrap(&e, "prepare a cell");
		slot_give_up(&ch, &e);
	}
	slot_serve(c, &ch);
}

static void answer_clone(struct contain *c, struct chan *ch, struct frame *f)
{
	auto_fd int fd = take_fd(&f->fd), pidfd = -1;
	auto_buf struct buf b = BUF_INIT(16);
	struct err e;
	pid_t pid = (pid_t)syscall(SYS_clone, CELL_NAMESPACES | CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
	if (!pid)
		hatch(c, ch, take_fd(&fd));
	if (pid < 0) {
		err_sys(&e, "new namespaces (see: skep doctor)");
		slot_give_up(ch, &e);
	}
	wire_u32(&b, (uint32_t)pid);
	if (!f->stream) {
		slot_send_sockets(ch, &c->net);
		chan_send_fd_on(ch, M_SCRATCH, 0, c->scratch);
	}
	chan_send_fd(ch, M_OK, 0, b.p, b.n, pidfd);
}

static void keep(const struct cell *cell, int fd)
{
	struct contain c = slot_contain(cell);
	int trees[TREES_MAX], n;
	struct chan ch;
	struct frame f;
	struct err e;
	chan_init(&ch, fd);
	prctl(PR_SET_NAME, "skep-mold");
	n = slot_recv_trees(&ch, trees, TREES_MAX, &e); // after them maps and cgroup are in place
	if (n < 0)
		_exit(1);
	if (contain_mold(&c, trees, n, &e)) {
		err_wrap(&e, "prepare a place");
		slot_give_up(&ch, &e);
	}
	while (n)
		close(trees[--n]);
	signal(SIGCHLD, SIG_IGN); // the supervisor watches the cell
	chan_send(&ch, M_OK, 0, 0, NULL, 0);
	while (!chan_recv(&ch, &f, &e)) {
		if (f.type == M_CLONE && f.fd >= 0)
			answer_clone(&c, &ch, &f);
		else if (f.type == M_CLEAN)
			chan_send(&ch, contain_clean(&c, &e) ? M_ERR : M_OK, 0, 0, NULL, 0);
		else if (f.type == M_FIT)
			chan_send(&ch, contain_fit(&c, &e) ? M_ERR : M_OK, 0, 0, NULL, 0);
		else
			break;
	}
	_exit(0); // nobody has the other end
}

// --- supervisor ---

// Its answer: M_OK, or what went wrong in it.
static int answer(struct cell *c, struct frame *f, struct err *e)
{
	do {
		if (chan_recv(&c->mold.chan, f, e))
			return err_set(e, ERR_SYSTEM, "the cell died while it was prepared");
		if (f->type == M_SOCKET)
			slot_take_socket(&c->net, f);
		if (f->type == M_SCRATCH) {
			close_fd(&c->mold.scratch);
			c->mold.scratch = take_fd(&f->fd);
		}
	} while (f->type == M_SOCKET || f->type == M_SCRATCH);
	if (f->type == M_OK)
		return 0;
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t kind = wire_get_u32(&w), sys = wire_get_u32(&w);
	auto_free char *msg = wire_get_str(&w);
	err_set(e, kind && !w.bad ? (enum err_kind)kind : ERR_BUG, "%s", msg ? msg : "unexpected message while preparing");
	e->sys = (int)sys;
	return -1;
}

// A write below a directory that was empty changes the directory itself: the uppers are all that has to be looked at.
static int root_times(int layer, struct timespec *out, struct err *e)
{
	int fd = openat(layer, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	*out = (struct timespec){0};
	if (!d)
		return err_sys(e, "root");
	while ((ent = readdir(d)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, "..") && !fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			out->tv_sec += st.st_ctim.tv_sec;
			out->tv_nsec += st.st_ctim.tv_nsec;
		}
	closedir(d);
	return 0;
}

// Rootless the directories above a workspace in /tmp are the cell's own, and stay when /tmp is emptied: one that was changed
// would tell the next cell something, or keep it out.
static struct timespec way_times(int scratch, const char *ws)
{
	static const char *const parts[][2] = {{"/tmp/", "tmp"}, {"/run/", "run"}, {"/dev/shm/", "shm"}};
	struct timespec sum = {0};
	for (size_t i = 0; i < countof(parts); i++) {
		if (!str_has_prefix(ws, parts[i][0]))
			continue;
		auto_free char *path = xasprintf("%s/%s", parts[i][1], ws + strlen(parts[i][0]));
		for (struct stat st; strchr(path, '/'); *strrchr(path, '/') = 0)
			if (!fstatat(scratch, path, &st, AT_SYMLINK_NOFOLLOW)) { // one that is gone changes the sum, too
				sum.tv_sec += st.st_ctim.tv_sec;
				sum.tv_nsec += st.st_ctim.tv_nsec;
			}
	}
	return sum;
}

// What is in it is in its three directories; a file that came and went changed one of them.
static int scratch_times(const struct cell *c, struct timespec out[MOLD_TIMES], struct err *e)
{
	static const char *const parts[] = {"tmp", "run", "run/lock", "shm"};
	static_assert(MOLD_LAYER + countof(parts) == MOLD_WAY, "a time for each");
	int scratch = c->mold.scratch;
	struct statfs fs;
	struct stat st;
	for (size_t i = 0; i < countof(parts); i++) {
		if (fstatat(scratch, parts[i], &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "scratch space: %s", parts[i]);
		out[MOLD_LAYER + i] = st.st_ctim;
	}
	out[MOLD_WAY] = way_times(scratch, c->place->spec.ws_path);
	if (fstatfs(scratch, &fs))
		return err_sys(e, "scratch space");
	out[MOLD_TIMES - 1] = (struct timespec){(time_t)fs.f_ffree, (long)fs.f_bfree};
	return 0;
}

static int change_times(const char *layer, struct timespec out[MOLD_LAYER], struct err *e)
{
	static const char *const parts[] = {"ws", "home"};
	auto_fd int dir = fs_open(AT_FDCWD, layer, O_RDONLY | O_DIRECTORY, 0, e);
	for (int i = 0; i < 2 && dir >= 0; i++) {
		struct stat st;
		if (fstatat(dir, parts[i], &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "%s/%s", layer, parts[i]);
		out[i] = st.st_ctim;
	}
	return dir < 0 ? -1 : root_times(dir, &out[2], e);
}

int mold_make(struct cell *c, struct err *e)
{
	pid_t pid;
	struct frame f;
	if (slot_clone(c, MOLD_NAMESPACES, keep, &c->mold.chan, &pid, e) || answer(c, &f, e))
		return -1;
	c->mold.pidfd = loop_pidfd(pid, e);
	return c->mold.pidfd < 0 ? -1 : change_times(c->fresh_layer, c->mold.made, e);
}

int mold_cell(struct cell *c, struct err *e)
{
	int sv[2];
	struct frame f;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return err_sys(e, "socketpair");
	chan_init(&c->init, sv[0]);
	bool sent = chan_send_fd_on(&c->mold.chan, M_CLONE, c->net.tcp >= 0, sv[1]);
	close(sv[1]);
	if (!sent || answer(c, &f, e))
		return sent ? -1 : err_set(e, ERR_SYSTEM, "the mold of the cell is gone");
	struct wire w = {.p = f.p, .n = f.n};
	c->init_pid = (pid_t)wire_get_u32(&w);
	c->init_pidfd = take_fd(&f.fd);
	if (!c->mold.made[MOLD_LAYER].tv_sec && scratch_times(c, c->mold.made, e)) // before its first command
		return -1;
	return c->init_pidfd < 0 ? err_set(e, ERR_BUG, "no descriptor of the cell's process came") : 0;
}

void mold_leave(struct cell *c)
{
	if (c->mold.chan.fd >= 0)
		chan_close(&c->mold.chan);
	close_fd(&c->mold.pidfd);
	close_fd(&c->mold.scratch);
	close_fd(&c->back);
}

// A short question to the mold.
static bool ask(struct cell *c, uint8_t type)
{
	struct timeval wait = {.tv_sec = 1}, ever = {0};
	struct frame f;
	struct err e;
	setsockopt(c->mold.chan.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	bool yes = chan_send(&c->mold.chan, type, 0, 0, NULL, 0) && !answer(c, &f, &e);
	setsockopt(c->mold.chan.fd, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof ever);
	return yes;
}

#define LITTLE 64 // files; a mold with more is not worth the time

// Commands leave files in /tmp. When those are gone there is as much room as before, or something is still there.
static bool scratch_is_as_it_was(struct cell *c)
{
	struct timespec now[MOLD_TIMES], *made = c->mold.made;
	struct err e;
	if (scratch_times(c, now, &e))
		return false;
	if (!memcmp(now + MOLD_LAYER, made + MOLD_LAYER, (MOLD_TIMES - MOLD_LAYER) * sizeof *now))
		return true;
	if (made[MOLD_TIMES - 1].tv_sec - now[MOLD_TIMES - 1].tv_sec > LITTLE || !ask(c, M_CLEAN) || scratch_times(c, now, &e) ||
	    memcmp(now + MOLD_WAY, made + MOLD_WAY, (MOLD_TIMES - MOLD_WAY) * sizeof *now))
		return false;
	memcpy(made + MOLD_LAYER, now + MOLD_LAYER, (MOLD_TIMES - MOLD_LAYER) * sizeof *now);
	return true;
}

static bool is_as_it_was(struct cell *c)
{
	struct timespec now[MOLD_LAYER];
	struct err e;
	if (c->limits_changed || change_times(c->ending_layer, now, &e) || memcmp(now, c->mold.made, sizeof now))
		return false;
	return scratch_is_as_it_was(c) && ask(c, M_FIT);
}

static void wait_for_end(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	while (pidfd >= 0 && poll(&p, 1, WAIT_MS) < 0 && errno == EINTR)
		;
}

// The layer waits again, under the name of one that does. Its lock, or -1; *out is its path.
static int rest_layer(struct cell *c, char **out)
{
	const char *slash = strrchr(c->ending_layer, '/');
	auto_free char *layer = xasprintf("%.*s/.fresh-%s", (int)(slash - c->ending_layer), c->ending_layer,
					  slash + strlen("/.ending-"));
	if (rename(c->ending_layer, layer))
		return -1;
	auto_fd int lock = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB))
		return -1;
	*out = take(&layer);
	return take_fd(&lock);
}

bool mold_keep(struct cell *c)
{
	char *layer;
	if (!is_as_it_was(c))
		return false;
	c->fresh_lock = rest_layer(c, &layer);
	if (c->fresh_lock < 0)
		return false;
	free(c->layer_path);
	c->fresh_layer = c->layer_path = layer;
	return true;
}

static bool send_mold(struct cell *c, const char *layer, int lock)
{
	struct chan to;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_u32(&b, c->seat.n);
	wire_str(&b, layer);
	wire_u64(&b, c->base_dev);
	wire_u64(&b, c->base_ino);
	wire_u64(&b, c->lowers_mark);
	for (int i = 0; i < MOLD_TIMES; i++) {
		wire_u64(&b, (uint64_t)c->mold.made[i].tv_sec);
		wire_u64(&b, (uint64_t)c->mold.made[i].tv_nsec);
	}
	buf_add(&b, c->place->p, c->place->n);
	chan_init(&to, take_fd(&c->back));
	bool ok = chan_send_fd(&to, M_MOLD, 0, NULL, 0, c->mold.chan.fd) && chan_send_fd(&to, M_MOLD, 1, NULL, 0, c->mold.pidfd) &&
		  chan_send_fd(&to, M_MOLD, 2, NULL, 0, lock) && chan_send_fd(&to, M_MOLD, 3, b.p, b.n, c->seat.lock);
	chan_close(&to);
	return ok;
}

bool mold_give_back(struct cell *c)
{
	if (c->mold.chan.fd < 0)
		return false;
	if (c->back >= 0 && c->told && is_as_it_was(c)) {
		auto_free char *layer = NULL;
		auto_fd int lock = rest_layer(c, &layer);
		if (lock >= 0 && send_mold(c, layer, lock))
			return true;
	}
	close_fd(&c->mold.chan.fd);
	wait_for_end(c->mold.pidfd); // it has the layer mounted
	return false;
}

// --- nursery ---

int mold_read(struct frame *f, struct mold *m, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	int *const into[] = {&m->chan.fd, &m->pidfd, &m->lock, &m->seat.lock};
	if (f->type != M_MOLD || f->id >= countof(into) || f->fd < 0 || *into[f->id] >= 0)
		return err_set(e, ERR_INVALID, "malformed mold");
	*into[f->id] = take_fd(&f->fd);
	if (f->id + 1 < countof(into))
		return 0;
	m->seat.n = wire_get_u32(&w);
	m->layer = wire_get_str(&w);
	m->base_dev = (dev_t)wire_get_u64(&w);
	m->base_ino = (ino_t)wire_get_u64(&w);
	m->lowers_mark = wire_get_u64(&w);
	for (int i = 0; i < MOLD_TIMES; i++) {
		m->made[i].tv_sec = (time_t)wire_get_u64(&w);
		m->made[i].tv_nsec = (long)wire_get_u64(&w);
	}
	if (w.bad || !m->layer || m->chan.fd < 0 || m->pidfd < 0 || m->lock < 0)
		return err_set(e, ERR_INVALID, "malformed mold");
	m->place = xcalloc(1, w.n + 1);
	memcpy(m->place, w.p, w.n);
	m->place_n = w.n;
	m->since_ms = clock_ms();
	return 1;
}

bool mold_fits(const struct mold *m, const void *place, size_t n)
{
	struct pollfd p = {.fd = m->pidfd, .events = POLLIN};
	return m->place_n == n && !memcmp(m->place, place, n) && !poll(&p, 1, 0);
}

void mold_close_fds(struct mold *m)
{
	close_fd(&m->chan.fd);
	close_fd(&m->pidfd);
	close_fd(&m->lock);
	close_fd(&m->seat.lock);
}

void mold_free(struct mold *m)
{
	mold_close_fds(m);
	free(m->layer);
	free(m->place);
	free(m);
}

static void end(struct mold *m)
{
	struct err e;
	wait_for_end(m->pidfd); // it has the layer mounted
	if (fs_remove_tree(AT_FDCWD, m->layer, &e))
		log_line(LOG_WARN, "%s", e.msg);
}

void mold_drop(struct mold *m, bool beside)
{
	close_fd(&m->chan.fd);
	if (m->layer && !beside) {
		end(m);
	} else if (m->layer && !fork()) {
		end(m);
		_exit(0);
	}
	seat_leave(&m->seat);
	mold_free(m);
}

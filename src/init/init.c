// SPDX-License-Identifier: Apache-2.0
#include "init/init.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "init/agent.h"
#include "init/collect.h"
#include "init/dial.h"
#include "init/exec.h"
#include "init/listening.h"
#include "init/moving.h"
#include "init/spawn.h"
#include "init/throttle.h"
#include "init/sudo.h"
#include "init/tree.h"
#include "init/watch.h"
#include "init/who.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct init {
	struct init_opts *opts;
	struct loop loop;
	struct chan chan;
	struct exec *execs;
	struct watch signals;
	struct chore over;
	struct timer grace;
	bool ending, walk;
	uint64_t peak; // memory of the largest process that ended since somebody asked
	bool walking;
	pid_t walker;
	struct watch walk_pipe;
	struct buf walked; // of the child that walks
	struct known known;  // by the last walk
	struct timespec start;
	struct timer stopping;
	uint64_t stop_until, killed_ms;
	bool released; // some were let go on for a moment
};

#define STOP_MS 2000
#define DYING_MS 500
#define WALKED_MAX (24u << 20)

static struct init self; // pid 1 is one

static struct exec *find(uint32_t id)
{
	struct exec *x = self.execs;
	while (x && x->id != id)
		x = x->next;
	return x;
}

static _Noreturn void finish(bool last);

static void sweep(void)
{
	for (struct exec **p = &self.execs; *p;) {
		struct exec *x = *p;
		if (!exec_is_over(x)) {
			p = &x->next;
			continue;
		}
		if (x->last) {
			self.walk = true;
			finish(true);
		}
		*p = x->next;
		loop_bury(&self.loop, x, (void (*)(void *))exec_free);
	}
}

static void on_over(struct chore *t)
{
	(void)t;
	sweep();
}

static void send_err(uint8_t type, uint32_t id, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(&self.chan, type, id, &b);
}

static void reap(void);

// Who was just killed counts until it is reaped. A tree that had taken all the places is gone in a moment: whoever killed it
// can expect to go on.
static struct exec *start_exec(uint32_t id, struct exec_spec *s, struct err *e)
{
	struct exec *x = exec_start(self.opts, &self.loop, &self.chan, id, s, e);
	uint64_t until = self.killed_ms + DYING_MS;
	while (!x && e->sys == EAGAIN && clock_ms() < until) {
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
		reap();
		x = exec_start(self.opts, &self.loop, &self.chan, id, s, e);
	}
	return x;
}

static void do_exec(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec_spec s;
	struct err e;
	if (exec_spec_read(&w, &s, &e)) {
		send_err(M_ERR, f->id, &e);
		return;
	}
	struct exec *x = start_exec(f->id, &s, &e);
	if (x) {
		auto_buf struct buf b = BUF_INIT(16);
		x->next = self.execs;
		self.execs = x;
		throttle_wake();
		wire_u32(&b, (uint32_t)x->group);
		if (x->ends) // a short one is over before anybody needs to know
			chan_send_later(&self.chan, M_BEGUN, 0, f->id, b.p, b.n);
		else
			chan_send_buf(&self.chan, M_BEGUN, f->id, &b);
	} else {
		send_err(M_ERR, f->id, &e);
	}
	exec_spec_done(&s);
}

// To take a cell's namespaces apart takes the kernel a millisecond, which others may need more urgently just now.
static void park(void)
{
	char byte;
	ssize_t n = fcntl(self.chan.fd, F_SETFL, 0) ? 0 : 1;
	while (n > 0 || (n < 0 && errno == EINTR))
		n = read(self.chan.fd, &byte, 1);
}

static _Noreturn void finish(bool last)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	if (self.walk && !changes_walk(&self.opts->changes, &self.known, &b, NULL))
		chan_send_buf(&self.chan, M_CHANGES, 0, &b);
	loop_flush(&self.loop);
	if (chan_queued(&self.chan) && !fcntl(self.chan.fd, F_SETFL, 0)) { // the last output, while somebody reads slowly
		self.chan.blocked = false;
		chan_flush(&self.chan);
	}
	if (last && self.opts->parks)
		park();
	_exit(0); // the kernel ends whatever is left
}

static void on_grace(struct timer *t)
{
	(void)t;
	moving_end();
	kill(-1, SIGKILL);
	finish(false);
}

static void do_end(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t grace = wire_get_u32(&w);
	self.walk = wire_get_u8(&w);
	if (self.ending)
		return;
	self.ending = true;
	if (tree_is_empty()) // which for a short command is the rule
		finish(false);
	if (!grace) {
		moving_end();
		kill(-1, SIGKILL); // nothing may write behind the walk
		finish(false);
	}
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
	self.grace.fn = on_grace;
	timer_set(&self.loop, &self.grace, grace);
}

static void do_signal(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec *x = find(f->id);
	int sig = (int)wire_get_u32(&w);
	if (sig == SIGKILL)
		self.killed_ms = clock_ms();
	if (x)
		exec_signal(x, sig, f->stream == 1);
	else if (!f->id)
		kill(-1, sig); // no exec's: everybody's
}

// In a child: the layer may be large. It sends the answer's payload, and what there is to learn from it, through a pipe.
static void on_walked(struct watch *w, uint32_t events)
{
	char bytes[16384];
	ssize_t n = read(w->fd, bytes, sizeof bytes);
	size_t len;
	(void)events;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) { // piece by piece: it waits for us, others do not
		buf_add(&self.walked, bytes, (size_t)n);
		return;
	}
	int fd = w->fd;
	loop_del(&self.loop, w);
	close(fd);
	struct wire all = {.p = (const uint8_t *)self.walked.p, .n = self.walked.overflow ? 0 : self.walked.n};
	const uint8_t *answer = wire_get_bytes(&all, &len);
	if (answer) {
		chan_send(&self.chan, M_CHANGES, 0, 1, answer, len);
		changes_learn(&self.known, all.p, all.n);
		self.known.since = (struct timespec){0};
	}
	buf_done(&self.walked);
	self.walked = BUF_INIT(WALKED_MAX);
	self.walking = false;
}

static _Noreturn void walk_child(int fd)
{
	struct err e;
	auto_buf struct buf answer = BUF_INIT(FRAME_MAX), news = BUF_INIT(WALKED_MAX - FRAME_MAX - 64), head = BUF_INIT(4);
	if (changes_walk(&self.opts->changes, &self.known, &answer, &news))
		_exit(1);
	wire_u32(&head, (uint32_t)answer.n);
	_exit(fs_write_all(fd, head.p, head.n, &e) || fs_write_all(fd, answer.p, answer.n, &e) || fs_write_all(fd, news.p, news.n, &e) ? 1 : 0);
}

static void do_walk(struct frame *f)
{
	int p[2];
	struct err e;
	if (f->n && f->p[0])
		self.known.since = self.start;
	if (self.walking || pipe2(p, O_CLOEXEC))
		return;
	pid_t pid = fork();
	if (!pid)
		walk_child(p[1]);
	close(p[1]);
	self.walk_pipe.fn = on_walked;
	if (pid < 0 || loop_add(&self.loop, &self.walk_pipe, p[0], LOOP_IN, &e))
		close(p[0]);
	else
		self.walking = true;
	self.walker = pid;
}

static void answer_freeze(uint8_t done)
{
	chan_send(&self.chan, M_FREEZE, 0, 0, &done, 1);
}

// A stop is only sent by then: whoever is in the kernel (a write, say) first comes out of it.
static void on_stopping(struct timer *t)
{
	uint64_t now = clock_ms();
	if (self.released)
		tree_stop_again();
	if (tree_all_stopped()) {
		answer_freeze(true);
		return;
	}
	if (now >= self.stop_until) {
		tree_continue_all();
		throttle_wake();
		answer_freeze(false);
		return;
	}
	self.released = !self.released && now + STOP_MS - self.stop_until >= 5;
	if (self.released)
		tree_release_children();
	timer_set(&self.loop, t, 1);
}

static void do_freeze(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	timer_clear(&self.loop, &self.stopping);
	if (wire_get_u8(&w)) {
		throttle_rest(); // what it stopped is not what somebody else had stopped before
		tree_stop_all();
		self.stop_until = clock_ms() + STOP_MS;
		self.released = false;
		self.stopping.fn = on_stopping;
		on_stopping(&self.stopping);
	} else {
		tree_continue_all();
		throttle_wake();
		answer_freeze(true);
	}
}

static void do_members(struct frame *f)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u32(&b, (uint32_t)tree_count(self.walking ? self.walker : 0)); // a look of our own is nobody's work
	chan_send_buf(&self.chan, M_MEMBERS, f->id, &b);
}

// For the supervisor, which may not look at it by way of /proc.
static void do_root(void)
{
	struct err e;
	auto_fd int root = fs_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, &e);
	if (root >= 0)
		chan_send_fd(&self.chan, M_ROOT, 0, NULL, 0, root);
}

static void do_usage(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	auto_buf struct buf b = BUF_INIT(32);
	pid_t killed = 0;
	uint64_t most = wire_get_u64(&w), unnamed = wire_get_u64(&w), used = tree_memory(most, unnamed, &killed);
	if (used < self.peak) // one that met its own limit is gone before a look can find it
		used = self.peak;
	self.peak = 0;
	wire_u64(&b, used);
	wire_u32(&b, (uint32_t)killed);
	wire_u32(&b, (uint32_t)tree_tasks());
	chan_send_buf(&self.chan, M_USAGE, f->id, &b);
}

// We were built before anybody asked: now it is known for what.
static void do_turn(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	self.opts->ends_with_exec = wire_get_u8(&w);
	bool alone = wire_get_u8(&w);
	self.opts->parks = wire_get_u8(&w);
	if (alone && (prctl(PR_SET_PDEATHSIG, 0) || !chan_send(&self.chan, M_TURN, 0, 0, NULL, 0)))
		_exit(1);
	clock_gettime(CLOCK_REALTIME_COARSE, &self.start);
}

static void on_frame(struct chan *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec *x;
	(void)c;
	switch ((enum msg_type)f->type) {
	case M_EXEC:
		do_exec(f);
		break;
	case M_DATA:
		if ((x = find(f->id)))
			exec_input(x, f->p, f->n);
		break;
	case M_EOF:
		if ((x = find(f->id)) && f->stream)
			exec_output_close(x, f->stream);
		else if (x)
			exec_input_eof(x);
		break;
	case M_CREDIT:
		if ((x = find(f->id)))
			exec_credit(x, f->stream, wire_get_u64(&w));
		break;
	case M_WINSIZE: {
		uint32_t rows = wire_get_u32(&w), cols = wire_get_u32(&w);
		if ((x = find(f->id)))
			exec_resize(x, rows, cols);
		break;
	}
	case M_SIGNAL:
		do_signal(f);
		break;
	case M_WALK:
		do_walk(f);
		break;
	case M_FREEZE:
		do_freeze(f);
		break;
	case M_MEMBERS:
		do_members(f);
		break;
	case M_USAGE:
		do_usage(f);
		break;
	case M_MOVABLE:
		moving_ask(&self.chan, f);
		break;
	case M_WHO:
		who_answer(&self.chan, f);
		break;
	case M_AGENT:
		agent_answer(&self.chan, f);
		break;
	case M_ROOT:
		do_root();
		break;
	case M_PORTS:
		listening_answer(&self.chan, f);
		break;
	case M_DIAL:
		dial_ask(&self.loop, &self.chan, f);
		break;
	case M_TURN:
		do_turn(f);
		break;
	case M_END:
		do_end(f);
		break;
	default:
		_exit(1); // our own supervisor does not speak like that
	}
	sweep();
}

static void on_close(struct chan *c)
{
	(void)c;
	_exit(0); // the supervisor is gone: the cell ends with it
}

static void on_drain(struct chan *c)
{
	(void)c;
	for (struct exec *x = self.execs; x; x = x->next)
		exec_pump_all(x);
	sweep();
}

static void reap(void)
{
	int status;
	pid_t pid;
	struct rusage ru;
	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
		if ((uint64_t)ru.ru_maxrss * 1024 > self.peak)
			self.peak = (uint64_t)ru.ru_maxrss * 1024;
		if (moving_reaped(pid, status) || sudo_reaped(pid, status))
			continue;
		struct exec *x = self.execs;
		while (x && (x->pid != pid || x->tty)) // a keeper reports for itself
			x = x->next;
		if (x)
			exec_reaped(x, status);
	}
}

static void on_signal(struct watch *w, uint32_t events)
{
	(void)events;
	while (loop_signal_next(w->fd))
		;
	reap();
	sweep();
	if (self.ending && !tree_count(0))
		finish(false);
}

_Noreturn void init_run(struct init_opts *opts, const struct buf *ready, int ready_fd)
{
	static const int chld[] = {SIGCHLD};
	struct err e;
	self.opts = opts;
	spawn_score(opts->score);
	self.walked = BUF_INIT(WALKED_MAX);
	clock_gettime(CLOCK_REALTIME_COARSE, &self.start); // the clock that files are stamped with
	collect_init(&opts->changes, opts->ws_path);
	watch_init(&self.known);
	signal(SIGPIPE, SIG_IGN);
	throttle_init(&self.loop, opts->cpus_milli);
	int sig = loop_init(&self.loop, &e) ? -1 : loop_signals(chld, 1, &e);
	self.chan = *opts->channel;
	self.chan.on_frame = on_frame;
	self.chan.on_close = on_close;
	self.chan.on_drain = on_drain;
	self.signals.fn = on_signal;
	self.over.fn = on_over;
	exec_init(&self.over);
	if (sig < 0 || loop_add(&self.loop, &self.signals, sig, LOOP_IN, &e))
		_exit(1);
	if (!chan_send_fd(&self.chan, M_READY, 0, ready->p, ready->n, ready_fd))
		_exit(1);
	close(ready_fd);
	if (opts->sudo >= 0 && sudo_serve(opts, &self.loop, &e))
		_exit(1);
	if (chan_attach(&self.chan, &self.loop, &e) || loop_run(&self.loop, &e))
		_exit(1);
	_exit(0);
}

// SPDX-License-Identifier: Apache-2.0
#include "init/exec.h"

#include "base/mem.h"
#include "base/str.h"
#include "init/collect.h"
#include "init/files.h"
#include "init/tree.h"
#include "init/throttle.h"
#include "init/tty.h"
#include "init/users.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define STOPS_MAX 1000 // of a job by others
#define CHANNEL_FULL (4u << 20) // frames waiting in init's channel: read no more until they are gone

static unsigned n_execs; // that are there, over or not
static struct exec *spare; // of the one before: the next costs no page
static struct chore *over;

void exec_init(struct chore *when_over)
{
	over = when_over;
}

// --- streams ---

static void stream_close(struct exec *x, struct stream *s)
{
	if (!s->open)
		return;
	int fd = s->w.fd;
	loop_del(x->loop, &s->w);
	if (fd >= 0 && !(x->tty && fd == x->in_fd)) // a terminal is one descriptor, closed with the exec
		close(fd);
	s->open = false;
	s->quiet = true;
}

// What is at its end is closed when nothing else is to do: the result does not wait for it.
static void on_ended(struct chore *t)
{
	struct exec *x = container_of(t, struct exec, ended);
	for (int i = 0; i < 2; i++)
		if (x->out[i].ended)
			stream_close(x, &x->out[i]);
}

static void stream_end(struct exec *x, struct stream *s)
{
	s->ended = s->quiet = true;
	loop_soon(x->loop, &x->ended);
	loop_soon(x->loop, over);
}

static bool is_flowing(const struct stream *s)
{
	return s->open && !s->ended;
}

static bool exec_flows(const struct exec *x)
{
	return is_flowing(&x->out[0]) || is_flowing(&x->out[1]);
}

static void send_exit(struct exec *x)
{
	auto_buf struct buf b = BUF_INIT(64);
	wire_u32(&b, (uint32_t)x->status);
	x->last = x->ends && n_execs == 1 && !exec_flows(x) && tree_is_empty();
	chan_send(x->chan, M_EXIT, x->last, x->id, b.p, b.n);
	chan_flush(x->chan);
	x->reported = true;
	loop_soon(x->loop, over);
}

// The result follows the bytes: it is sent once every stream has been read empty after the end.
static void maybe_report(struct exec *x)
{
	bool held = x->whole && exec_flows(x);
	if (x->exited && !x->reported && x->out[0].quiet && x->out[1].quiet && !held)
		send_exit(x);
}

static void stream_pump(struct stream *s)
{
	static char chunk[CHUNK];
	struct exec *x = s->owner;
	while (is_flowing(s) && s->sent < s->credit && chan_queued(x->chan) < CHANNEL_FULL) {
		size_t want = s->credit - s->sent < CHUNK ? (size_t)(s->credit - s->sent) : CHUNK;
		ssize_t n = read(s->w.fd, chunk, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			s->quiet = true;
			break;
		}
		if (n <= 0) { // end of file; a terminal whose last user left says EIO
			stream_end(x, s);
			break;
		}
		s->quiet = false;
		chan_send(x->chan, M_DATA, s->number, x->id, chunk, (size_t)n);
		s->sent += (uint64_t)n;
	}
	if (is_flowing(s))
		loop_mod(x->loop, &s->w, s->sent < s->credit && chan_queued(x->chan) < CHANNEL_FULL ? LOOP_IN : 0);
	maybe_report(x);
}

static void on_readable(struct watch *w, uint32_t events)
{
	(void)events;
	stream_pump(container_of(w, struct stream, w));
}

static int stream_open(struct exec *x, int i, int fd, struct err *e)
{
	struct stream *s = &x->out[i];
	s->w.fn = on_readable;
	if (loop_add(x->loop, &s->w, fd, LOOP_IN, e))
		return -1;
	s->open = true;
	return 0;
}

void exec_output_close(struct exec *x, uint8_t stream)
{
	if (stream < 1 || stream > 2 || x->tty)
		return;
	stream_close(x, &x->out[stream - 1]);
	maybe_report(x);
}

void exec_credit(struct exec *x, uint8_t stream, uint64_t upto)
{
	if (stream < 1 || stream > 2)
		return;
	x->out[stream - 1].credit = upto;
	stream_pump(&x->out[stream - 1]);
}

void exec_pump_all(struct exec *x)
{
	stream_pump(&x->out[0]);
	stream_pump(&x->out[1]);
}

// --- input ---

static void grant_input(struct exec *x)
{
	uint64_t upto = x->in_taken + LIMIT_STDIN_WINDOW;
	auto_buf struct buf b = BUF_INIT(16);
	if (x->in_fd < 0)
		upto = UINT64_MAX; // nobody reads: let the sender throw its bytes away quickly
	if (upto <= x->in_granted)
		return;
	x->in_granted = upto;
	wire_u64(&b, upto);
	chan_send(x->chan, M_CREDIT, 0, x->id, b.p, b.n);
}

static void input_close(struct exec *x)
{
	if (x->in_fd < 0)
		return;
	loop_del(x->loop, &x->in);
	if (!x->tty)
		close(x->in_fd);
	if (!x->tty)
		x->in_fd = -1;
	buf_done(&x->in_data);
}

static void input_pump(struct exec *x)
{
	size_t done = 0;
	while (x->in_fd >= 0 && done < x->in_data.n) {
		ssize_t n = write(x->in_fd, x->in_data.p + done, x->in_data.n - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { // the reader closed its end
			input_close(x);
			grant_input(x);
			return;
		}
		done += (size_t)n;
	}
	buf_cut(&x->in_data, done);
	x->in_taken += done;
	if (x->in_data.n && x->in.fd < 0) {
		struct err e;
		if (loop_add(x->loop, &x->in, x->in_fd, LOOP_OUT, &e))
			input_close(x);
	} else if (!x->in_data.n && x->in.fd >= 0) {
		loop_del(x->loop, &x->in);
	}
	if (x->in_eof && !x->in_data.n)
		input_close(x);
	grant_input(x);
}

static void on_writable(struct watch *w, uint32_t events)
{
	(void)events;
	input_pump(container_of(w, struct exec, in));
}

void exec_input(struct exec *x, const void *p, size_t n)
{
	if (x->in_fd < 0 || x->in_eof)
		return;
	buf_add(&x->in_data, p, n); // bounded by what was granted
	if (x->in_data.overflow)
		input_close(x);
	input_pump(x);
}

void exec_input_eof(struct exec *x)
{
	if (x->tty)
		return; // the line's own ^D is what ends input there
	x->in_eof = true;
	input_pump(x);
}

// --- life ---

void exec_unstop(struct exec *x)
{
	if (x->job && !x->exited && spawn_is_stopped(x->pid) && !throttle_holds(x->pid))
		kill(x->pid, ++x->stops < STOPS_MAX ? SIGCONT : SIGKILL);
}

void exec_resize(struct exec *x, uint32_t rows, uint32_t cols)
{
	struct winsize ws = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
	if (x->tty && x->in_fd >= 0)
		ioctl(x->in_fd, TIOCSWINSZ, &ws); // a wrong size is not worth failing for
}

void exec_signal(struct exec *x, int sig, bool tree)
{
	if (sig < 1 || sig > 64)
		return;
	if (sig == SIGTERM || sig == SIGKILL) // whoever got away does not hold up the answer
		x->whole = false;
	if (tree)
		tree_signal(x->pid, x->name, sig);
	else if (!x->exited && x->group > 0)
		kill(-x->group, sig);
	maybe_report(x);
}

// A stream that was read empty before the end (by exec_pump_all, say) may have got bytes since: it counts as quiet only
// once it has been read empty again. Without that, the first stream's pump would send the exit ahead of the second one's bytes.
void exec_reaped(struct exec *x, int status)
{
	if (!x->tty || !x->exited)
		x->status = status;
	x->exited = true;
	for (int i = 0; i < 2; i++)
		x->out[i].quiet = !is_flowing(&x->out[i]);
	stream_pump(&x->out[0]);
	stream_pump(&x->out[1]);
	maybe_report(x);
}

bool exec_is_over(const struct exec *x)
{
	return x->reported && !exec_flows(x);
}

void exec_free(struct exec *x)
{
	n_execs--;
	loop_forget(x->loop, &x->ended);
	for (int i = 0; i < 2; i++) {
		int fd = x->out[i].w.fd;
		loop_del(x->loop, &x->out[i].w);
		if (x->out[i].open && fd >= 0 && fd != x->in_fd)
			close(fd);
	}
	loop_del(x->loop, &x->in);
	loop_del(x->loop, &x->keeper);
	close_fd(&x->in_fd);
	close_fd(&x->keeper_fd);
	buf_done(&x->in_data);
	free(spare);
	spare = x;
}

static struct exec *exec_alloc(void)
{
	struct exec *x = spare ? spare : xcalloc(1, sizeof *x);
	spare = NULL;
	n_execs++;
	return x;
}

static void on_keeper(struct watch *w, uint32_t events)
{
	struct exec *x = container_of(w, struct exec, keeper);
	struct tty_report r;
	(void)events;
	if (read(x->keeper_fd, &r, sizeof r) != sizeof r) {
		loop_del(x->loop, w);
		if (!x->exited) // the keeper was killed: take its fate for the command's
			exec_reaped(x, SIGKILL);
		return;
	}
	if (r.what == TTY_SUSPENDED)
		chan_send(x->chan, M_SUSPENDED, 0, x->id, NULL, 0);
	if (r.what == TTY_ENDED)
		exec_reaped(x, r.status);
}

// Waits for the keeper's first word, so that a command that is not there is told like any other.
static int keeper_started(struct exec *x, struct spawn *s, struct err *e)
{
	struct tty_report r;
	ssize_t n;
	while ((n = read(x->keeper_fd, &r, sizeof r)) < 0 && errno == EINTR)
		;
	if (n != sizeof r)
		return err_set(e, ERR_SYSTEM, "the terminal's keeper died");
	if (r.what == TTY_FAILED) {
		static char failed[32];
		memcpy(failed, r.failed, sizeof failed);
		s->error = r.status;
		s->failed = failed;
		return 1;
	}
	x->group = r.group;
	x->keeper.fn = on_keeper;
	return loop_add(x->loop, &x->keeper, x->keeper_fd, LOOP_IN, e);
}

static int start_tty(struct exec *x, struct spawn *sp, const struct exec_spec *s, struct err *e)
{
	auto_fd int slave = -1;
	int master;
	if (tty_open(s->rows, s->cols, &master, &slave, e))
		return -1;
	x->tty = true;
	x->in_fd = master;
	if (sp->switch_user && fchown(slave, sp->uid, sp->gid))
		return err_sys(e, "terminal");
	x->pid = tty_keep(sp, slave, &x->keeper_fd, e);
	if (x->pid < 0)
		return -1;
	int rc = keeper_started(x, sp, e);
	if (rc > 0)
		return spawn_error(sp, e);
	x->out[1].quiet = true;
	return rc || stream_open(x, 0, master, e) ? -1 : 0;
}

static pid_t fork_job(struct spawn *sp)
{
	spawn_doomed();
	pid_t pid = fork();
	int why = errno;
	if (pid) {
		spawn_spared();
		errno = why;
		return pid;
	}
	for (int i = 0; i < 3; i++) {
		int high = fcntl(sp->fds[i], F_DUPFD_CLOEXEC, 10);
		if (high < 0 || dup2(high, i) < 0)
			_exit(1);
	}
	// Whoever holds the layers' descriptors stays pid 1's equal: a change of user could make it open to others' eyes.
	bool layers = collect_is(sp->argv);
	syscall(SYS_close_range, layers ? collect_keep(3) : 3, ~0U, 0);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	umask((mode_t)sp->umask_bits);
	if (!layers && sp->switch_user && (syscall(SYS_setgroups, 0, NULL) || setresgid(sp->gid, sp->gid, sp->gid) ||
					   setresuid(sp->uid, sp->uid, sp->uid)))
		_exit(1);
	_exit(files_job(sp->argv));
}

// Kept open: most commands read from it.
static int nothing(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd;
}

static int start_pipes(struct exec *x, struct spawn *sp, const struct exec_spec *s, struct err *e)
{
	int in[2] = {-1, -1}, out[2], err[2];
	if (pipe2(out, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int out_r = out[0], out_w = out[1];
	if (pipe2(err, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int err_r = err[0], err_w = err[1];
	if (s->want_stdin ? pipe2(in, O_CLOEXEC) : nothing() < 0)
		return err_sys(e, "standard input");
	auto_fd int in_r = in[0];
	x->in_fd = in[1];
	if (x->in_fd >= 0)
		fcntl(x->in_fd, F_SETFL, O_NONBLOCK);
	fcntl(out_r, F_SETFL, O_NONBLOCK);
	fcntl(err_r, F_SETFL, O_NONBLOCK);
	sp->fds[0] = s->want_stdin ? in_r : nothing(), sp->fds[1] = out_w, sp->fds[2] = err_w;
	if (s->kind == EXEC_JOB) {
		x->pid = fork_job(sp);
		x->job = true;
		if (x->pid < 0)
			return err_sys(e, "new process");
	} else {
		x->pid = spawn_process(sp);
		if (x->pid < 0)
			return spawn_error(sp, e);
	}
	x->group = x->pid;
	if (stream_open(x, 0, out_r, e))
		return -1;
	take_fd(&out_r);
	if (stream_open(x, 1, err_r, e))
		return -1;
	take_fd(&err_r);
	return 0;
}

const char *exec_env(char *const *env, const char *key)
{
	size_t n = strlen(key);
	for (; env && *env; env++)
		if (!strncmp(*env, key, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

int exec_choose_user(const struct init_opts *o, const struct exec_spec *s, struct spawn *sp, struct err *e)
{
	sp->uid = o->uid;
	sp->gid = o->gid;
	if (!s->user)
		return 0;
	struct user u;
	uint64_t n;
	if (users_find(s->user, &u)) {
		sp->uid = u.uid;
		sp->gid = u.gid;
		user_done(&u);
	} else if (!str_to_u64(str_of(s->user), 0, 65534, &n)) {
		sp->uid = sp->gid = (uint32_t)n;
	} else {
		return err_set(e, ERR_NOT_FOUND, "no user %s in this sandbox", s->user);
	}
	if (sp->uid == o->uid)
		return 0;
	if (o->profile != PROFILE_ROOT)
		return err_set(e, ERR_DENIED, "only a --root sandbox can run commands as another user");
	sp->switch_user = true;
	return 0;
}

struct exec *exec_start(const struct init_opts *o, struct loop *l, struct chan *c, uint32_t id, struct exec_spec *s,
			struct err *e)
{
	struct exec *x = exec_alloc();
	*x = (struct exec){
		.loop = l, .chan = c, .id = id, .in_fd = -1, .keeper_fd = -1, .in.fd = -1, .in.fn = on_writable, .keeper.fd = -1, .ended.fn = on_ended,
		.in_data = BUF_INIT(LIMIT_STDIN_WINDOW * 2), .ends = o->ends_with_exec && id == 1, .whole = s->whole && !s->tty,
	};
	memcpy(x->name, s->id, sizeof x->name);
	for (int i = 0; i < 2; i++)
		x->out[i] = (struct stream){.w.fd = -1, .owner = x, .number = (uint8_t)(i + 1), .credit = LIMIT_OUTPUT_WINDOW};
	struct spawn sp = {
		.argv = s->argv, .env = s->env, .cwd = s->cwd ? s->cwd : o->ws_path, .path_var = exec_env(s->env, "PATH"),
		.umask_bits = s->umask_bits, .terminal = -1,
	};
	if (exec_choose_user(o, s, &sp, e) || (s->tty ? start_tty(x, &sp, s, e) : start_pipes(x, &sp, s, e))) {
		if (x->pid > 0)
			kill(x->pid, SIGKILL); // half started: a watch could not be had
		exec_free(x);
		return NULL;
	}
	if (x->in_fd >= 0) // else the supervisor knows
		grant_input(x);
	return x;
}

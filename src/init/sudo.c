// SPDX-License-Identifier: Apache-2.0
#include "init/sudo.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "init/exec.h"
#include "init/spawn.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
#define ASKERS_MAX 64
#define REQUEST_MAX (2u << 20) // arguments and environment: what the kernel would take
#define SUDO_UID 1000

struct asker {
	struct chan chan;
	struct asker *next;
	int fds[3];
	bool asked;
	pid_t pid; // 0 = nothing runs
};

static struct {
	const struct init_opts *opts;
	struct loop *loop;
	struct watch w;
	struct asker *askers;
	size_t n;
} self; // pid 1 is one

int sudo_listen(struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = SUDO_SOCKET};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || chmod(SUDO_SOCKET, 0666) || listen(fd, BACKLOG))
		return err_sys(e, "socket for sudo");
	return take_fd(&fd);
}

// --- who asks ---

// The value of one line of /proc/PID/status, with its tab; false: there is none.
static bool status_line(const char *text, const char *key, struct str *out)
{
	struct str rest = str_of(text), line;
	size_t n = strlen(key);
	while (str_next(&rest, '\n', &line))
		if (line.n > n && !strncmp(line.p, key, n)) {
			*out = (struct str){line.p + n, line.n - n};
			return true;
		}
	return false;
}

static bool read_of(pid_t pid, const char *name, struct buf *out)
{
	struct err e;
	auto_free char *path = xasprintf("/proc/%d/%s", (int)pid, name);
	return !fs_read(AT_FDCWD, path, out, &e) && out->n;
}

// A process of another user namespace has another map, one of another pid namespace more than one number. What is read belongs to
// the pid that connected: one that ended meanwhile, and whose number was taken at once, could be mistaken for its successor. That
// gains nobody more than its own user has outside of whatever it was shut into.
static bool is_as_free_as_we(pid_t pid)
{
	auto_buf struct buf map = BUF_INIT(4096), our_map = BUF_INIT(4096), status = BUF_INIT(16384), ours = BUF_INIT(16384);
	struct str pids, filters, our_filters;
	if (!read_of(pid, "uid_map", &map) || !read_of(getpid(), "uid_map", &our_map) || strcmp(buf_cstr(&map), buf_cstr(&our_map)))
		return false;
	if (!read_of(pid, "status", &status) || !read_of(getpid(), "status", &ours) || !status_line(buf_cstr(&status), "NSpid:\t", &pids) ||
	    memchr(pids.p, '\t', pids.n))
		return false;
	return status_line(buf_cstr(&status), "Seccomp_filters:", &filters) && status_line(buf_cstr(&ours), "Seccomp_filters:", &our_filters) &&
	       filters.n == our_filters.n && !memcmp(filters.p, our_filters.p, filters.n);
}

static int judge(int fd, struct err *e)
{
	struct ucred who;
	socklen_t n = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n))
		return err_sys(e, "who asks");
	if (who.uid && who.uid != SUDO_UID)
		return err_set(e, ERR_DENIED, "uid %u may not use sudo: only root and uid %d of a sandbox may", who.uid, SUDO_UID);
	if (who.pid <= 0 || !is_as_free_as_we(who.pid))
		return err_set(e, ERR_DENIED, "sudo does not lead out of a sandbox that was made in here");
	return 0;
}

// --- one who asks ---

static void asker_free(void *obj)
{
	struct asker *a = obj;
	for (int i = 0; i < 3; i++)
		close_fd(&a->fds[i]);
	chan_close(&a->chan);
	free(a);
}

static void forget(struct asker *a)
{
	struct asker **p = &self.askers;
	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	self.n--;
	loop_bury(self.loop, a, asker_free);
}

static void refuse(struct chan *c, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(c, M_ERR, 0, &b);
}

static int start(struct asker *a, const struct exec_spec *s, struct err *e)
{
	struct spawn sp = {
		.argv = s->argv, .env = s->env, .cwd = s->cwd ? s->cwd : "/", .path_var = exec_env(s->env, "PATH"), .umask_bits = s->umask_bits & 0777,
		.terminal = -1, .takes_terminal = true, .fds = {a->fds[0], a->fds[1], a->fds[2]},
	};
	if (a->asked || a->fds[0] < 0 || a->fds[1] < 0 || a->fds[2] < 0)
		return err_set(e, ERR_INVALID, "sudo asks once, with three streams");
	a->asked = true;
	if (exec_choose_user(self.opts, s, &sp, e))
		return -1;
	pid_t pid = spawn_process(&sp);
	if (pid < 0)
		return spawn_error(&sp, e);
	a->pid = pid;
	for (int i = 0; i < 3; i++)
		close_fd(&a->fds[i]);
	return 0;
}

static void on_exec(struct asker *a, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec_spec s;
	struct err e;
	if (exec_spec_read(&w, &s, &e)) {
		refuse(&a->chan, &e);
		return;
	}
	if (start(a, &s, &e))
		refuse(&a->chan, &e);
	else
		chan_send(&a->chan, M_BEGUN, 0, 0, NULL, 0);
	exec_spec_done(&s);
}

static void on_frame(struct chan *c, struct frame *f)
{
	struct asker *a = container_of(c, struct asker, chan);
	struct wire w = {.p = f->p, .n = f->n};
	if (f->type == M_SOCKET && f->stream < 3 && f->fd >= 0 && !a->asked) {
		close_fd(&a->fds[f->stream]);
		a->fds[f->stream] = take_fd(&f->fd);
	} else if (f->type == M_EXEC) {
		on_exec(a, f);
	} else if (f->type == M_SIGNAL) {
		int sig = (int)wire_get_u32(&w);
		if (a->pid && sig > 0 && sig <= 64)
			kill(-a->pid, sig); // not reaped yet: the number is still its own
	}
}

// As when a terminal's line is lost.
static void on_close(struct chan *c)
{
	struct asker *a = container_of(c, struct asker, chan);
	if (a->pid) {
		kill(-a->pid, SIGHUP);
		kill(-a->pid, SIGCONT);
	}
	forget(a);
}

bool sudo_reaped(pid_t pid, int status)
{
	struct asker *a = self.askers;
	auto_buf struct buf b = BUF_INIT(16);
	while (a && a->pid != pid)
		a = a->next;
	if (!a)
		return false;
	a->pid = 0;
	wire_u32(&b, (uint32_t)status);
	chan_send_buf(&a->chan, M_EXIT, 0, &b);
	return true;
}

static void on_asker(struct watch *w, uint32_t events)
{
	struct err e;
	(void)events;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct asker *a = xcalloc(1, sizeof *a);
	*a = (struct asker){.fds = {-1, -1, -1}};
	chan_init(&a->chan, fd);
	a->chan.in.max = REQUEST_MAX;
	a->chan.on_frame = on_frame;
	a->chan.on_close = on_close;
	if (judge(fd, &e) || (self.n >= ASKERS_MAX && err_set(&e, ERR_LIMIT, "%d commands run by sudo at once are the most", ASKERS_MAX)) ||
	    chan_attach(&a->chan, self.loop, &e)) {
		refuse(&a->chan, &e);
		chan_flush(&a->chan);
		asker_free(a);
		return;
	}
	a->next = self.askers;
	self.askers = a;
	self.n++;
}

int sudo_serve(const struct init_opts *o, struct loop *l, struct err *e)
{
	self.opts = o;
	self.loop = l;
	self.w.fn = on_asker;
	return loop_add(l, &self.w, o->sudo, LOOP_IN, e);
}

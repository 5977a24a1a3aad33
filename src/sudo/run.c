// SPDX-License-Identifier: Apache-2.0
#include "sudo/run.h"

#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/msg.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define CHUNK 4096

static struct {
	struct loop loop;
	struct chan chan;
	struct watch signals, keys, master;
	int terminal; // -1, or the master of the command's own
	struct termios before;
	bool raw;
	struct buf typed; // what the terminal has not taken yet
	int status;
	bool over;
	struct err refusal;
} self; // one command, one process

// --- its terminal ---

static void resize(void)
{
	struct winsize ws;
	if (self.terminal >= 0 && !ioctl(STDIN_FILENO, TIOCGWINSZ, &ws))
		ioctl(self.terminal, TIOCSWINSZ, &ws); // a wrong size is not worth failing for
}

// Only who is in the foreground may take over the keys. Behind a pipe, or in the background, the command gets our streams as
// they are: no terminal of theirs controls it, so it may read and write them.
static bool wants_terminal(bool background)
{
	return !background && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static int open_terminal(int *out_slave, struct err *e)
{
	char name[64];
	auto_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || unlockpt(master) || ptsname_r(master, name, sizeof name) || tcgetattr(STDIN_FILENO, &self.before))
		return err_sys(e, "new terminal");
	auto_fd int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios raw = self.before;
	if (slave < 0 || tcsetattr(slave, TCSANOW, &self.before))
		return err_sys(e, "new terminal");
	self.terminal = take_fd(&master);
	resize();
	cfmakeraw(&raw);
	if (fcntl(self.terminal, F_SETFL, O_NONBLOCK) || tcsetattr(STDIN_FILENO, TCSADRAIN, &raw))
		return err_sys(e, "terminal");
	self.raw = true;
	*out_slave = take_fd(&slave);
	return 0;
}

static void leave_terminal(void)
{
	if (self.raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &self.before); // nobody is left to tell
	self.raw = false;
}

static void show(void)
{
	char chunk[CHUNK];
	struct err e;
	ssize_t n;
	while ((n = read(self.terminal, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && fs_write_all(STDOUT_FILENO, chunk, (size_t)n, &e))
			return;
	if (!n || errno != EAGAIN) // its last user left
		loop_del(&self.loop, &self.master);
}

static void type(void)
{
	ssize_t n = self.typed.n ? write(self.terminal, self.typed.p, self.typed.n) : 0;
	if (n > 0)
		buf_cut(&self.typed, (size_t)n);
	if (self.keys.fd >= 0)
		loop_mod(&self.loop, &self.keys, self.typed.n ? 0 : LOOP_IN);
	if (self.master.fd >= 0)
		loop_mod(&self.loop, &self.master, LOOP_IN | (self.typed.n ? LOOP_OUT : 0));
}

static void on_keys(struct watch *w, uint32_t events)
{
	char chunk[CHUNK];
	ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
	(void)events;
	if (n > 0)
		buf_add(&self.typed, chunk, (size_t)n);
	else if (!n || errno != EINTR)
		loop_del(&self.loop, w);
	type();
}

static void on_master(struct watch *w, uint32_t events)
{
	(void)w;
	if (events & LOOP_OUT)
		type();
	show();
}

// --- pid 1 ---

static void on_frame(struct chan *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	(void)c;
	if (f->type == M_EXIT) {
		self.status = (int)wire_get_u32(&w);
	} else if (f->type == M_ERR) {
		enum err_kind kind = wire_get_u32(&w);
		int sys = (int)wire_get_u32(&w);
		auto_free char *msg = wire_get_str(&w);
		err_set(&self.refusal, kind, "%s", msg ? msg : "refused");
		self.refusal.sys = sys;
	} else {
		return;
	}
	self.over = true;
	loop_stop(&self.loop);
}

static void on_close(struct chan *c)
{
	(void)c;
	if (!self.over)
		err_set(&self.refusal, ERR_UNAVAILABLE, "the sandbox ends");
	loop_stop(&self.loop);
}

static void on_signal(struct watch *w, uint32_t events)
{
	int sig;
	(void)events;
	while ((sig = loop_signal_next(w->fd))) {
		auto_buf struct buf b = BUF_INIT(16);
		wire_u32(&b, (uint32_t)sig);
		if (sig == SIGWINCH)
			resize();
		else
			chan_send_buf(&self.chan, M_SIGNAL, 0, &b);
	}
}

static int ask(const struct exec_spec *s, int slave, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	exec_spec_write(&b, s);
	if (b.overflow)
		return err_set(e, ERR_LIMIT, "arguments and environment are too long");
	for (uint8_t i = 0; i < 3; i++)
		chan_send_fd_on(&self.chan, M_SOCKET, i, slave >= 0 && (i < 2 || isatty(i)) ? slave : i);
	chan_send_buf(&self.chan, M_EXEC, 0, &b);
	return 0;
}

static int watch_all(struct err *e)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};
	int fd = loop_init(&self.loop, e) ? -1 : loop_signals(signals, (int)countof(signals), e);
	self.signals.fn = on_signal;
	self.keys.fn = on_keys;
	self.master.fn = on_master;
	if (fd < 0 || loop_add(&self.loop, &self.signals, fd, LOOP_IN, e) || chan_attach(&self.chan, &self.loop, e))
		return -1;
	if (self.terminal < 0)
		return 0;
	return loop_add(&self.loop, &self.keys, STDIN_FILENO, LOOP_IN, e) || loop_add(&self.loop, &self.master, self.terminal, LOOP_IN, e) ? -1 : 0;
}

static int begin(struct exec_spec *s, bool background, struct err *e)
{
	char cwd[4096];
	auto_fd int slave = -1;
	int fd = fs_unix_connect(AT_FDCWD, SUDO_SOCKET, e);
	if (fd < 0)
		return err_wrap(e, "pid 1 of the sandbox");
	chan_init(&self.chan, fd);
	self.chan.on_frame = on_frame;
	self.chan.on_close = on_close;
	if (!s->cwd)
		s->cwd = xstrdup(getcwd(cwd, sizeof cwd) ? cwd : "/");
	s->umask_bits = umask(022);
	if (wants_terminal(background) && open_terminal(&slave, e))
		return -1;
	return watch_all(e) || ask(s, slave, e) ? -1 : 0;
}

int sudo_run(struct exec_spec *s, bool background, int *out_status, struct err *e)
{
	self.terminal = self.signals.fd = self.keys.fd = self.master.fd = -1;
	self.typed = BUF_INIT(CHUNK * 2);
	int rc = begin(s, background, e) || loop_run(&self.loop, e) ? -1 : 0;
	if (!rc && self.terminal >= 0)
		show();
	leave_terminal();
	if (!rc && self.refusal.msg[0]) {
		*e = self.refusal;
		rc = -1;
	}
	if (!rc)
		*out_status = self.status;
	return rc;
}

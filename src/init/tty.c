// SPDX-License-Identifier: Apache-2.0
#include "init/tty.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int tty_open(uint32_t rows, uint32_t cols, int *out_master, int *out_slave, struct err *e)
{
	char name[32];
	unsigned n;
	int unlock = 0;
	struct winsize ws = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
	auto_fd int master = fs_open(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK, 0, e);
	if (master < 0)
		return -1;
	if (ioctl(master, TIOCSPTLCK, &unlock) || ioctl(master, TIOCGPTN, &n) || fmt_to(name, sizeof name, "/dev/pts/%u", n))
		return err_sys(e, "new terminal");
	auto_fd int slave = fs_open(AT_FDCWD, name, O_RDWR | O_NOCTTY, 0, e);
	if (slave < 0)
		return -1;
	if (rows && cols && ioctl(master, TIOCSWINSZ, &ws))
		return err_sys(e, "size of the terminal");
	*out_master = take_fd(&master);
	*out_slave = take_fd(&slave);
	return 0;
}

static void report(int fd, struct tty_report r)
{
	while (write(fd, &r, sizeof r) < 0 && errno == EINTR)
		; // init gone means the cell is gone
}

static _Noreturn void keeper(struct spawn *s, int slave, int out)
{
	static const int deaf[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGHUP, SIGPIPE};
	int status;
	for (size_t i = 0; i < countof(deaf); i++)
		signal(deaf[i], SIG_IGN);
	if (setsid() < 0 || ioctl(slave, TIOCSCTTY, 0)) {
		report(out, (struct tty_report){.what = TTY_FAILED, .status = errno, .failed = "terminal"});
		_exit(1);
	}
	s->terminal = slave;
	pid_t pid = spawn_process(s);
	if (pid < 0) {
		struct tty_report r = {.what = TTY_FAILED, .status = s->error};
		strncpy(r.failed, s->failed, sizeof r.failed - 1);
		report(out, r);
		_exit(1);
	}
	report(out, (struct tty_report){.what = TTY_STARTED, .group = pid});
	for (;;) {
		pid_t got = waitpid(-1, &status, WUNTRACED);
		if (got < 0 && errno != EINTR)
			_exit(1);
		if (got != pid)
			continue;
		if (!WIFSTOPPED(status))
			break;
		report(out, (struct tty_report){.what = TTY_SUSPENDED, .group = pid});
	}
	report(out, (struct tty_report){.what = TTY_ENDED, .group = pid, .status = status});
	_exit(0);
}

pid_t tty_keep(struct spawn *s, int slave, int *out_reports, struct err *e)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	spawn_doomed();
	pid_t pid = fork();
	int why = errno;
	if (pid)
		spawn_spared();
	errno = why;
	if (pid < 0)
		return err_sys(e, "new process");
	if (!pid) {
		spawn_score(-1);
		// Keep only what the keeper needs: init's channel must not live on in here.
		int keep_w = dup2(w, 3), keep_slave = dup2(slave, 4);
		(void)keep_w;
		(void)keep_slave;
		syscall(SYS_close_range, 5, ~0U, 0);
		fcntl(3, F_SETFD, FD_CLOEXEC);
		fcntl(4, F_SETFD, FD_CLOEXEC);
		s->fds[0] = s->fds[1] = s->fds[2] = 4;
		keeper(s, 4, 3);
	}
	*out_reports = take_fd(&r);
	return pid;
}

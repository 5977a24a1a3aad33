// SPDX-License-Identifier: Apache-2.0
#include "cli/term.h"

#include "base/mem.h"
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

// Static because a signal handler must find it: a terminal left raw by a crash is unusable.
static struct {
	int fd;
	struct termios before;
	volatile sig_atomic_t raw;
} term;

bool term_is_all(void)
{
	return isatty(0) && isatty(1) && isatty(2);
}

void term_size(uint32_t *out_rows, uint32_t *out_cols)
{
	*out_rows = 24;
	*out_cols = 80;
	for (int fd = 0; fd < 3; fd++) {
		struct winsize ws;
		if (!ioctl(fd, TIOCGWINSZ, &ws) && ws.ws_row && ws.ws_col) {
			*out_rows = ws.ws_row;
			*out_cols = ws.ws_col;
			return;
		}
	}
}

void term_restore(void)
{
	int keep = errno;
	if (term.raw)
		tcsetattr(term.fd, TCSANOW, &term.before);
	term.raw = 0;
	errno = keep;
}

static void on_fault(int sig)
{
	term_restore();
	raise(sig); // SA_RESETHAND: this time it kills
}

int term_raw(int fd, struct err *e)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct termios t;
	if (term.raw)
		return 0;
	if (tcgetattr(fd, &t))
		return err_sys(e, "read the terminal's settings");
	for (size_t i = 0; i < countof(faults); i++)
		sigaction(faults[i], &(struct sigaction){.sa_handler = on_fault, .sa_flags = SA_RESETHAND}, NULL);
	term.fd = fd;
	term.before = t;
	term.raw = 1; // before the change: a fault in between restores what is already there
	cfmakeraw(&t);
	return tcsetattr(fd, TCSANOW, &t) ? err_sys(e, "make the terminal raw") : 0;
}

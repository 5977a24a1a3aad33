// SPDX-License-Identifier: Apache-2.0
#include "cli/term.h"

#include "base/fs.h"
#include "base/mem.h"
#include "cli/prompt.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

bool term_is_dumb(void)
{
	const char *t = getenv("TERM");
	return !t || !*t || !strcmp(t, "dumb");
}

bool term_colour(const char *when)
{
	const char *no = getenv("NO_COLOR");
	if (when && strcmp(when, "auto"))
		return !strcmp(when, "always");
	return isatty(STDOUT_FILENO) && !term_is_dumb() && !(no && *no);
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

static volatile sig_atomic_t got_signal;

static void on_signal(int sig)
{
	got_signal = sig;
}

static int read_line(int fd, struct buf *out, struct err *e)
{
	for (char c;;) {
		ssize_t n = read(fd, &c, 1);
		if (n < 0 && errno == EINTR && !got_signal)
			continue;
		if (n < 0)
			return got_signal ? err_set(e, ERR_DENIED, "interrupted") : err_sys(e, "read the terminal");
		if (!n || c == '\n')
			return 0;
		buf_add(out, &c, 1);
	}
}

static int say(const char *text)
{
	struct err ignored;
	return fs_write_all(STDERR_FILENO, text, strlen(text), &ignored);
}

// A signal must find the terminal showing again what is typed: it is held back until that is so.
int term_ask_hidden(const char *prompt, struct buf *out, struct err *e)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
	struct sigaction before[countof(ends)];
	struct termios shown, hidden;
	if (tcgetattr(STDIN_FILENO, &shown))
		return err_sys(e, "read the terminal's settings");
	prompt_begin();
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	got_signal = 0;
	for (size_t i = 0; i < countof(ends); i++)
		sigaction(ends[i], &(struct sigaction){.sa_handler = on_signal}, &before[i]);
	// What was typed before was shown already and is dropped; after the prompt nothing is.
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden))
		return err_sys(e, "hide what is typed");
	int rc = say(prompt) ? err_sys(e, "ask") : read_line(STDIN_FILENO, out, e);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &shown);
	for (size_t i = 0; i < countof(ends); i++)
		sigaction(ends[i], &before[i], NULL);
	prompt_end();
	if (!say("\n") && got_signal)
		raise(got_signal);
	return rc;
}

bool term_ask_yes(const char *prompt)
{
	struct err ignored;
	auto_buf struct buf line = BUF_INIT(256);
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	prompt_begin();
	got_signal = 0;
	bool answered = !say(prompt) && !read_line(STDIN_FILENO, &line, &ignored);
	prompt_end();
	return answered && (!strcmp(buf_cstr(&line), "y") || !strcmp(buf_cstr(&line), "yes"));
}

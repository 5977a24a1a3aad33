// SPDX-License-Identifier: Apache-2.0
// Signals, and a terminal that is given back while we are stopped.
#include "cli/pump_int.h"

#include "base/mem.h"
#include "cli/term.h"
#include <signal.h>
#include <unistd.h>

void pump_take_terminal(struct pump *p)
{
	struct err e;
	if (!p->s->tty || p->exited)
		return;
	pump_ask_redraw(p);
	if (p->s->in < 0 || !isatty(p->s->in) || !term_raw(p->s->in, &e)) // one that is gone will say so when it is read
		pump_put_winsize(p);
}

static void resume(struct pump *p)
{
	pump_take_terminal(p);
	if (p->s->forward || p->s->tty)
		pump_put_signal(p, SIGCONT);
}

// ^Z. SIGTSTP and not SIGSTOP: where no shell could ever continue us (an orphaned process group) the
// kernel drops it, and we go on at once.
void pump_suspend(struct pump *p)
{
	sigset_t tstp;
	sigemptyset(&tstp);
	sigaddset(&tstp, SIGTSTP);
	pump_flush_last_words(p);
	term_restore();
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &tstp, NULL); // here we stop
	sigprocmask(SIG_BLOCK, &tstp, NULL);
	resume(p);
}

void pump_on_signal(struct pump *p, int sig)
{
	if (sig == SIGWINCH) {
		if (p->s->tty)
			pump_put_winsize(p);
	} else if (sig == SIGCONT) {
		resume(p); // also after a SIGSTOP that we did not see coming
	} else if (sig == SIGTSTP) {
		if (!p->s->tty)
			pump_put_signal(p, SIGSTOP);
		pump_suspend(p);
	} else {
		if (p->s->forward)
			pump_put_signal(p, sig);
		// With a pty ^C is a byte; a signal to us means us. And after the end nobody is left to ask.
		if (p->s->tty || p->exited)
			p->fatal = sig;
	}
}

int pump_open_signals(struct pump *p)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
	int set[countof(all)], n = 0;
	struct sigaction was;
	if (!p->s->forward && !p->s->tty)
		return 0;
	// What our starter had us ignore (nohup, a background job of a script) stays ignored.
	for (size_t i = 0; i < countof(all); i++)
		if (!sigaction(all[i], NULL, &was) && was.sa_handler != SIG_IGN)
			set[n++] = all[i];
	p->sigfd = loop_signals(set, n, p->e);
	return p->sigfd < 0 ? -1 : 0;
}

void pump_die_of(struct pump *p)
{
	sigset_t set;
	pump_flush_last_words(p);
	term_restore();
	signal(p->fatal, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, p->fatal);
	raise(p->fatal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + p->fatal);
}

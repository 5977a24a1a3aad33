// SPDX-License-Identifier: Apache-2.0
#include "cli/hold.h"

#include "base/mem.h"
#include <signal.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static struct sigaction before[countof(signals)];
static volatile sig_atomic_t kept;

static void on_signal(int sig)
{
	if (kept) {
		signal(sig, SIG_DFL);
		raise(sig); // counts when this handler returns
	}
	kept = sig;
}

void hold_begin(void)
{
	struct sigaction keep = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	kept = 0;
	for (size_t i = 0; i < countof(signals); i++) {
		sigaction(signals[i], &keep, &before[i]);
		if (before[i].sa_handler == SIG_IGN) // what our starter had us ignore stays ignored
			sigaction(signals[i], &before[i], NULL);
	}
}

static void block(int how)
{
	sigset_t all;
	sigemptyset(&all);
	for (size_t i = 0; i < countof(signals); i++)
		sigaddset(&all, signals[i]);
	sigprocmask(how, &all, NULL);
}

// Blocked first: between two handlers a signal would find neither.
void hold_end(bool started)
{
	block(SIG_BLOCK);
	for (size_t i = 0; i < countof(signals); i++)
		sigaction(signals[i], &before[i], NULL);
	if (kept)
		raise(kept);
	if (!started)
		block(SIG_UNBLOCK);
}

void hold_over(void)
{
	block(SIG_UNBLOCK);
}

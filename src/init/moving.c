// SPDX-License-Identifier: Apache-2.0
#include "init/moving.h"

#include "base/mem.h"
#include "init/movable.h"
#include "init/owned.h"
#include "model/msg.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES 3 // a helper that was killed left a directory in two halves: the next one puts them together
#define END_MS 2000

static struct {
	struct chan *chan;
	uint32_t id;
	pid_t pid; // 0: none
	int tries, dir;
	char *name;
	enum move_verb verb;
	bool as_other;
	struct rights rights;
} self = {.dir = -1};

static void answer(void)
{
	chan_send(self.chan, M_MOVABLE, 0, self.id, NULL, 0);
	close_fd(&self.dir);
	free(take(&self.name));
	self.pid = 0;
}

static _Noreturn void help(void)
{
	int dir = dup2(self.dir, 3);
	syscall(SYS_close_range, 4, ~0U, 0);
	setsid(); // no signal meant for a command's group
	umask(0);
	movable_stop_on(SIGTERM);
	if (dir < 0 || (self.as_other && movable_become(&self.rights)))
		_exit(1);
	int rc = self.verb == MOVE_DIRECTORY ? movable_make(dir, self.name) : owned_make(dir, self.name, self.verb == MOVE_OWN_TARGET);
	_exit(rc ? 1 : 0);
}

static void start(void)
{
	self.tries++;
	self.pid = fork();
	if (!self.pid)
		help();
	if (self.pid < 0)
		answer();
}

void moving_ask(struct chan *c, struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	if (self.pid || f->fd < 0)
		return;
	self.chan = c;
	self.id = f->id;
	self.name = wire_get_str(&w);
	self.verb = wire_get_u8(&w);
	self.as_other = wire_get_u8(&w);
	self.dir = take_fd(&f->fd);
	self.tries = 0;
	if (!self.name || self.verb >= MOVE_VERBS || (self.as_other && rights_read(&w, &self.rights)) || w.bad)
		answer();
	else
		start();
}

bool moving_reaped(pid_t pid, int status)
{
	if (!self.pid || pid != self.pid)
		return false;
	if (WIFSIGNALED(status) && self.tries < TRIES)
		start();
	else
		answer();
	return true;
}

void moving_end(void)
{
	const struct timespec step = {.tv_nsec = 1000000};
	if (!self.pid)
		return;
	self.tries = TRIES;
	kill(self.pid, SIGTERM);
	kill(self.pid, SIGCONT);
	for (int i = 0; i < END_MS && !waitpid(self.pid, NULL, WNOHANG); i++)
		nanosleep(&step, NULL);
	self.pid = 0;
}

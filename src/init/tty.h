// SPDX-License-Identifier: Apache-2.0
// Terminals. The command of a terminal exec has a keeper: the session's leader, which owns the terminal and waits for
// the command. Without it the command's process group would be an orphan and ^Z would do nothing.
#pragma once
#include "init/spawn.h"

// What the keeper writes to its pipe, whole.
struct tty_report {
	enum { TTY_STARTED, TTY_FAILED, TTY_SUSPENDED, TTY_ENDED } what;
	pid_t group;
	int status; // wait status, or errno
	char failed[32];
};

int tty_open(uint32_t rows, uint32_t cols, int *out_master, int *out_slave, struct err *e) MUST_USE;
// Forks the keeper, which spawns s on the slave. *out_reports: read end of its reports. Returns its pid or -1.
pid_t tty_keep(struct spawn *s, int slave, int *out_reports, struct err *e) MUST_USE;

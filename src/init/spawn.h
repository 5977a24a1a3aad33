// SPDX-License-Identifier: Apache-2.0
// One process from one description. The child shares init's memory until it executes (as vfork does), so a
// failure is simply a value in this struct and no pipe is needed.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct spawn {
	char *const *argv, *const *env;
	const char *cwd;
	const char *path_var; // PATH of env, for argv[0] without a slash
	int fds[3];
	uint32_t uid, gid;
	bool switch_user;
	uint32_t umask_bits;
	bool takes_terminal; // a new session: a terminal among fds that is nobody's yet becomes its own
	int terminal; // -1, or the slave: own process group in the foreground of this terminal
	// out
	int error;		// errno of the failing step
	const char *failed; // its name
};

// When memory ends the kernel takes the largest process, which in a crowd of small ones could be pid 1, and the cell with
// it. So commands and what they start go first, also before anything of the host's: whoever is forked between these two
// calls is marked from its first instruction on, as scores are inherited. The borrowed descriptor is pid 1's own score, -1 = there
// is none to change (a process that is marked itself).
void spawn_score(int fd);
// A filter of system calls that every command gets, for good; NULL = none. Borrowed.
struct sock_fprog;
void spawn_filter(const struct sock_fprog *program);
bool spawn_is_stopped(pid_t child);
void spawn_doomed(void);
void spawn_spared(void);

// What went wrong, as an error: kind NOT_FOUND (no such command), DENIED (not executable) or SYSTEM. Always -1.
int spawn_error(const struct spawn *s, struct err *e);
pid_t spawn_process(struct spawn *s); // -1 and error/failed set on failure; 127/126 are the caller's to tell

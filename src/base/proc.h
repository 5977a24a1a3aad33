// SPDX-License-Identifier: Apache-2.0
// Starting a child program without fork. The child gets exactly the listed descriptors, a clean signal
// state, the given environment, and nothing else.
#pragma once
#include "base/buf.h"
#include <sys/types.h>

struct proc_fd {
	int from, to; // from: borrowed
};

struct proc_spec {
	const char *path; // absolute
	char *const *argv, *const *env;
	const struct proc_fd *fds; // others are closed; 0-2 not listed become /dev/null
	int n_fds;
	bool new_session;
};

pid_t proc_spawn(const struct proc_spec *spec, struct err *e) MUST_USE; // -1 on failure
// Runs to the end and collects stdout (bounded by out->max); stderr goes to ours. Blocking: not for daemons' paths.
int proc_run(const char *path, char *const *argv, struct buf *out, int *out_status, struct err *e) MUST_USE;
// Where the directories of path (as in PATH; NULL = none) have a program of this name; only absolute ones count. Owned; NULL: nowhere.
char *proc_find(const char *path, const char *name);
char *proc_beside(const char *name, struct err *e) MUST_USE; // path of the program of that name in our own one's directory; owned
bool proc_is_stopped(pid_t pid);       // by a signal or a debugger
uint64_t proc_start_time(pid_t pid); // field 22 of /proc/PID/stat: with the pid, an identity. 0 = no such process

// How long a process (pid 0 = this one) and the children it will have run at a stretch. A process with a short stretch that wakes
// up takes the processor from one with a longer one at once (Linux 6.12 and later; older kernels know no difference). Ours have
// the same: among themselves each works to the end of what it has, as the one interrupted would be the one waited for. 0 = the usual.
#define PROC_QUICK_NS 300000
void proc_stretch(pid_t pid, uint64_t ns);

// SPDX-License-Identifier: Apache-2.0
// The system call filter of a cell (made at build time from syscalls.def) and the supervisor's end of it.
//
// Five kinds of calls wait for the supervisor. execve and execveat are reported for the journal only and always go on:
// nothing is decided on what seccomp_read_argv saw, because the caller's memory can change after the look. What the
// filter refuses is reported too, and never goes on: the supervisor answers with the error and records it. Renames
// wait until a directory that they name can be moved (cell/moves.h), and always go on; so do calls that change a
// file, where the host's files are nobody's (cell/owned.h), and listen, which says that a port may be open. Which of these a call is depends on its number alone. With no supervisor behind the listener all fail with ENOSYS.
#pragma once
#include "base/buf.h"
#include <sys/types.h>

struct sock_fprog;

struct seccomp_opts {
	bool root;   // chroot and setgroups
	bool trace;  // ptrace, process_vm_*, kcmp
	bool nested; // namespaces, and mounts in them
	bool owns;   // calls that change a file named by its path wait
};

// Binds the filter to this process and all it starts, for good. no_new_privs must be set, every mount made and
// every capability dropped. The listener (owned, close-on-exec) goes to the supervisor; until that reads it, a call it
// would be asked about waits. Fails when a filter with a listener is in force already.
int seccomp_load(const struct seccomp_opts *o, int *out_listener, struct err *e) MUST_USE;

unsigned seccomp_allowed_count(const struct seccomp_opts *o);		     // system calls it lets through
void seccomp_program(const struct seccomp_opts *o, struct sock_fprog *out); // borrowed, constant
void seccomp_print_plan(struct buf *b);					     // text: counts and names

// --- supervisor ---

void seccomp_listen(int listener); // once, before the first seccomp_recv: caller and supervisor hand over one processor

struct seccomp_event {
	uint64_t id;
	pid_t pid;	  // the calling thread, as our own pid namespace sees it
	int nr;
	int error;	  // what it is refused with; 0: it goes on
	const char *name; // of a refused call
	uint64_t args[6];
};

// The next call that waits for us; to be called when the listener is readable. 1: none after all, its caller is gone.
int seccomp_recv(int listener, struct seccomp_event *out, struct err *e) MUST_USE;
// The one answer there is to it: the error, or go on. A caller that is gone is no failure.
int seccomp_answer(int listener, const struct seccomp_event *ev, struct err *e) MUST_USE;
bool seccomp_is_rename(const struct seccomp_event *ev);
bool seccomp_is_owning(const struct seccomp_event *ev); // OWN in syscalls.def
bool seccomp_is_listen(const struct seccomp_event *ev);
// False: the caller is gone, and what was read of that pid may have been another process's.
bool seccomp_is_waiting(int listener, const struct seccomp_event *ev);

// Path and argv of a waiting call: at most max bytes of each. 1 when argv was cut there. Fails when the caller died
// meanwhile (what was read may be another process's), and when its memory is closed to us: a process that is not
// dumpable needs CAP_SYS_PTRACE over it. *out_argv is owned.
int seccomp_read_argv(int listener, const struct seccomp_event *ev, size_t max, struct buf *out_path, char ***out_argv,
		      struct err *e) MUST_USE;
// Appends the string that an argument points to, at most max bytes. 1 when cut, -1 when it can not be read. Check with
// seccomp_is_waiting afterwards.
int seccomp_read_u64(const struct seccomp_event *ev, int arg, uint64_t *out) MUST_USE; // what an argument points to
int seccomp_read_str(const struct seccomp_event *ev, int arg, size_t max, struct buf *out) MUST_USE;

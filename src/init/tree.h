// SPDX-License-Identifier: Apache-2.0
// Which processes belong to an exec: its leader, its session, all descendants, and orphans that still carry
// SKEP_EXEC in their environment. (A process can hide from this by clearing its environment and leaving the
// session; it is still in the cell and ends with it.)
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

void tree_signal(pid_t leader, const char *exec_id, int sig); // SIGKILL: until none is left
size_t tree_count(pid_t but);				     // processes beside pid 1 and this one (0: none)
size_t tree_tasks(void);				     // what a limit of processes counts, beside pid 1: threads, and who is dead and not buried
bool tree_is_empty(void);					     // not even a zombie is there
void tree_stop_all(void);   // SIGSTOP to all; remembers who was stopped before
bool tree_all_stopped(void); // nothing of theirs runs any more, not even in the kernel
void tree_stop_again(void);  // those that go on
// A parent in vfork can not stop before its child has run on to its exec: stopped children of what waits in the kernel go on.
void tree_release_children(void);
void tree_continue_all(void);

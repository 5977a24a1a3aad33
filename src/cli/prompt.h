// SPDX-License-Identifier: Apache-2.0
// A question on a terminal that other programs of skep may write to, too: a sandbox's command in the background of the same
// terminal could draw another question over it. Whoever asks locks the terminal's device (a write lock of fcntl); whoever
// passes on a sandbox's output holds a read lock while it writes, and keeps the output while it gets none.
//
// The lock of a stopped process does not count: nobody can answer its question.
#pragma once
#include <stdbool.h>

// For prompt_try and prompt_may_write: an opening of the terminal that fd is, or -1. No other opening of it may be closed
// while a lock is held (the kernel drops a process's locks then).
int prompt_open(int fd);
bool prompt_try(int lock);	 // to ask; false: another question stands
void prompt_over(int lock);
bool prompt_may_write(int lock); // true: prompt_wrote follows
void prompt_wrote(int lock);

// For a verb that asks on stdin and stderr: waits until no other question stands, and resets the terminal. Without
// terminals: nothing.
void prompt_begin(void);
void prompt_end(void);

// SPDX-License-Identifier: Apache-2.0
// `sudo` in a sandbox with a root of its own. Nothing inside gains rights by running a program (no_new_privs), so skep-sudo
// asks pid 1, which starts the command itself: as an exec for that user would be started, with the cell's bounding set, filter and
// Landlock domain, and with the asker's streams. Nobody gets what `skep exec --user root` would not give.
//
// Who may ask is judged by what the kernel says of the peer: the cell's root or its ordinary user (uid 1000), in the cell's own user
// and pid namespace, under no more filters than pid 1 itself. A sandbox that somebody made inside the cell is no way to its root.
#pragma once
#include "init/init.h"

int sudo_listen(struct err *e) MUST_USE; // as the cell's root, before its filter is in force
int sudo_serve(const struct init_opts *o, struct loop *l, struct err *e) MUST_USE;
bool sudo_reaped(pid_t pid, int status); // true: it was a command of ours

// SPDX-License-Identifier: Apache-2.0
// Changing names so that nothing is ever overwritten unseen. File systems that can not exchange names or keep one from being
// replaced (NFS, 9p, some FUSE) do it with a second hard link, in steps; each may be the last before a crash.
#pragma once
#include <stdbool.h>

// temp and name change places; name is one or the other at any instant. 0, or -1 with errno (EOPNOTSUPP: no way here).
int swap_exchange(int temp_dir, const char *temp, int dir, const char *name);
// from becomes to, which must be free (EEXIST).
int swap_move(int from_dir, const char *from, int dir, const char *to);
// Brings an exchange that was cut off to an end or back to its start: temp holds one of the two again.
int swap_settle(int temp_dir, const char *temp);
// Was a move between these two cut off in the middle?
bool swap_is_half(int a_dir, const char *a, int b_dir, const char *b);

// SPDX-License-Identifier: Apache-2.0
// Makes a directory of an overlay one that rename can move.
//
// overlayfs without redirects (there are none for an unprivileged mount) moves a directory only if no lower layer has a part
// in it. So each such directory of the tree is replaced by a new one of the same name, owner, mode, attributes and times,
// with the same entries: files are moved, not copied, and keep what they are (the kernel copies them up as it does for any
// change); open files stay valid. Deepest first, and one directory at a time:
//
//   1. every file of the tree is copied up. This is what takes time and may fail; nothing has changed by then.
//   2. beside the directory a hidden one is made (MOVABLE_PREFIX and its name), the entries move there, and it takes the
//      place of the empty directory. In between its entries are missing, for some 20 us each.
//
// A process killed in 2 leaves the entries in both; doing it again completes it, and loses nothing but perhaps the times and
// the write protection of that one directory.
#pragma once
#include "base/err.h"
#include "model/move.h"

#define MOVABLE_PREFIX ".skep-rename."

// With the caller's rights, in a process of its own that may be stopped (movable_stop_on). 0: it can be moved now.
int movable_make(int dir, const char *name) MUST_USE;
void movable_stop_on(int sig); // from this signal on: stops where nothing is half done
int movable_become(const struct rights *r) MUST_USE; // never more than this process has
// The hidden name for name, whatever its length. out: NAME_MAX + 1 bytes.
void movable_name(const char *name, char out[256]);

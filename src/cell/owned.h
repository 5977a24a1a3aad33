// SPDX-License-Identifier: Apache-2.0
// Files of the host in a --root cell of an ordinary user. They belong to ids that the cell has no numbers for, so the kernel
// refuses each change of them, also to the cell's root (EPERM), and can not copy them up to be linked or renamed (EOVERFLOW).
// Where such a file is named by a call that changes it, pid 1 first puts a copy in its place that belongs to the cell's root
// (init/owned.h); then the call goes on, with the caller's own rights. Only root gets that help: another user of the cell may
// not change the system's files.
//
// Calls on descriptors are not helped (fchmod of a file that was opened for reading): the copy would be another file.
#pragma once
#include "cell/look.h"
#include "model/move.h"

struct cell;

bool owned_in(const struct cell *c); // it has files like that
// The file that an owning call changes, O_PATH, if it may be one that the cell has no number for; else -1. look_done is due in
// any case. follow: also where a symbolic link that it names leads to.
int owned_find(const struct cell *c, const struct seccomp_event *ev, struct look *l, bool *follow) MUST_USE;
bool owned_is_foreign(const struct cell *c, int fd, const struct stat *st); // perhaps: "nobody" can be either
bool owned_may(const struct rights *r);					   // is somebody who could change it if it were the cell's

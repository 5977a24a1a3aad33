// SPDX-License-Identifier: Apache-2.0
// A stream of files for copying between a cell and the host: one format, one code, both ends. Blocking.
// Regular files, directories and symbolic links; modes without setuid, setgid and sticky; mtimes.
// The reader trusts nothing: paths are relative, beneath the target, no link is ever followed.
#pragma once
#include "base/err.h"

// Writes name (a file or a tree, below dirfd) to out_fd. The stream's root is called `as`.
int pack_write(int out_fd, int dirfd, const char *name, const char *as, struct err *e) MUST_USE;
// Unpacks into the directory dirfd; the root keeps the name it has in the stream. Fails on the first
// entry it refuses or can not make; what came before stays.
int pack_read(int in_fd, int dirfd, struct err *e) MUST_USE;

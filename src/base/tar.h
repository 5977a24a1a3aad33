// SPDX-License-Identifier: Apache-2.0
// tar archives (POSIX pax; GNU's long names are read too), streamed both ways. Blocking.
//
// The reader trusts nothing. Names are relative and without "..", each directory on the way is opened by us and is no link, what is
// in the way of a file is removed rather than written through. Refused by name: absolute names, "..", a link or a file in the
// place of a directory, devices, FIFOs, setuid and setgid files, sparse files, hard links to anything that is not a regular file
// below the target. Owners are left to whoever unpacks.
#pragma once
#include "base/err.h"

// name (a file or a tree, below dirfd), whose root is called `as`.
int tar_write(int out_fd, int dirfd, const char *name, const char *as, struct err *e) MUST_USE;
// Unpacks into the directory dirfd; gzip is noticed. Fails at the first entry it refuses; what came before stays.
int tar_read(int in_fd, int dirfd, struct err *e) MUST_USE;

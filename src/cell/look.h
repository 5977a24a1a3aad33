// SPDX-License-Identifier: Apache-2.0
// A path that a waiting system call names, as its caller sees it: looked at from outside, by descriptors only. Nothing is
// decided on what is found (the caller's memory may change after the look); it says where help may be of use.
#pragma once
#include "isolate/seccomp.h"
#include <sys/stat.h>

struct look {
	pid_t pid;
	int dirfd;	 // the caller's number, or AT_FDCWD
	int start;	 // O_PATH: the caller's root, working directory or the directory it named
	bool absolute;	 // start is its root
	struct buf path; // without slashes at its end
};

#define LOOK_NONE ((struct look){.start = -1})

// dir: which argument holds the directory, -1 for none; path: which one the string. look_done is due in any case.
int look_open(const struct seccomp_event *ev, int dir, int path, struct look *out) MUST_USE;
void look_done(struct look *l);
bool look_is_plain(struct look *l);			   // surely no directory: what takes the fewest calls to know
int look_file(struct look *l, struct stat *out) MUST_USE; // O_PATH of the thing itself, never of what a link points to
int look_target(struct look *l, struct stat *out) MUST_USE; // O_PATH of what it leads to
int look_dir(struct look *l) MUST_USE;			   // O_PATH of the directory it is in
const char *look_name(struct look *l);			   // its name in there, NULL for one that no rename takes

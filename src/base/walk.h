// SPDX-License-Identifier: Apache-2.0
// Writes a file or a tree to a descriptor, in one form or another (base/pack.h, base/tar.h). Blocking. Regular files, directories and
// symbolic links, a directory before what is in it; other things below the root are left out. No link is followed.
#pragma once
#include "base/buf.h"
#include <time.h>

#define WALK_PATH 4096 // bytes of a path or link target
#define WALK_DEPTH 500 // one descriptor per level, within the usual 1024

struct walk_entry {
	char type; // 'f' file, 'd' directory, 'l' link
	uint32_t mode; // permissions, without setuid, setgid and sticky
	struct timespec mtime;
	const char *path, *target; // not terminated: n_path, n_target bytes
	size_t n_path, n_target;
	uint64_t size; // of a file, whose bytes follow
};

struct walk_form {
	const char *begin, *end;
	size_t n_begin, n_end;
	void (*entry)(struct buf *out, const struct walk_entry *en); // its head
	size_t block; // what a file's bytes are filled up to, with zeroes; 0 = they are not
};

// name below dirfd; the root is called `as`, and what is in it as/….
int walk_write(int out_fd, int dirfd, const char *name, const char *as, const struct walk_form *form, struct err *e) MUST_USE;

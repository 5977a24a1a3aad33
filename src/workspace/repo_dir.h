// SPDX-License-Identifier: Apache-2.0
// Directories that are whole or absent: made as NAME.partial, which is locked while somebody works in it, and renamed.
// What a killed one left is emptied by the next; who waits for another's work finds it done.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/stat.h>

struct repo_dir {
	char *path, *partial;
	int fd; // of the partial directory; the lock is on it
};

// 1: out is an empty partial directory of ours; 0: path is there already; -1.
int repo_dir_begin(const char *path, struct repo_dir *out, struct err *e) MUST_USE;
// Puts it in its place.
int repo_dir_commit(struct repo_dir *d, struct err *e) MUST_USE;
void repo_dir_drop(struct repo_dir *d); // removes what was not committed; safe twice

// name in dirfd becomes a copy of the open file, sharing its blocks where the file system can, holes kept, with the
// given permissions and time of modification.
// Bytes on the disk of everything below; what can not be looked at counts nothing.
uint64_t repo_disk_bytes(int dirfd, const char *name);
int repo_copy_fd(int from, int dirfd, const char *name, mode_t mode, struct timespec mtime, struct err *e) MUST_USE;

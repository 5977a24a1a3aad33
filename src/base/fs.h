// SPDX-License-Identifier: Apache-2.0
// Files, always relative to a directory fd (AT_FDCWD where the path is our own).
// Paths that something untrusted could have touched go through openat2: fs_open_beneath for anything
// written on the host, fs_open_in_root for reads on behalf of a cell.
#pragma once
#include "base/buf.h"
#include <sys/types.h>

int fs_open(int dirfd, const char *path, int flags, mode_t mode, struct err *e) MUST_USE; // adds O_CLOEXEC
int fs_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *e) MUST_USE;
int fs_open_in_root(int dirfd, const char *path, int flags, struct err *e) MUST_USE;

int fs_read(int dirfd, const char *path, struct buf *out, struct err *e) MUST_USE; // past out->max: LIMIT
int fs_read_fd(int fd, struct buf *out, struct err *e) MUST_USE;
int fs_write(int dirfd, const char *path, const void *p, size_t n, mode_t mode, struct err *e) MUST_USE;
int fs_write_all(int fd, const void *p, size_t n, struct err *e) MUST_USE;
// For kernel files (/proc, cgroup): one write, no creation.
int fs_put(int dirfd, const char *path, const char *text, struct err *e) MUST_USE;
// Old or new at any instant, also across a power cut: temporary file, fsync, rename, fsync of the directory.
int fs_replace(int dirfd, const char *path, const void *p, size_t n, mode_t mode, struct err *e) MUST_USE;

int fs_mkdirs(int dirfd, const char *path, mode_t mode, struct err *e) MUST_USE; // existing is fine
// The same where something untrusted has written: a link on the way is an error. Opens the last one.
int fs_mkdirs_beneath(int dirfd, const char *path, mode_t mode, struct err *e) MUST_USE;
// Removes name and all below it without following any link; directories it may not enter are made
// accessible first. Absent is fine.
int fs_remove_tree(int dirfd, const char *name, struct err *e) MUST_USE;
// Asks ext file systems to put each new subdirectory of this one in another part of the disk. Where directories come and
// go quickly, ext4 without a journal else searches through every inode freed in the last five seconds. Only a wish.
void fs_spread(int dirfd);
bool fs_exists(int dirfd, const char *path);

// Unix socket whose path may be longer than the kernel's 108 bytes: addressed through its directory.
int fs_unix_listen(int dirfd, const char *name, struct err *e) MUST_USE; // replaces a stale one, mode 0600
int fs_unix_connect(int dirfd, const char *name, struct err *e) MUST_USE;

// Open files of this process: how many it may have, and the number that the next one would get.
uint64_t fd_limit(void);
uint64_t fd_lowest_free(void); // UINT32_MAX: none is free

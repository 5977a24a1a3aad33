// SPDX-License-Identifier: Apache-2.0
// A user of the cell by name, as the owner of what a file operation is about: whose home relative paths begin in, and to
// whom belongs what is made. The operation itself keeps the rights it was started with.
#pragma once
#include "base/err.h"
#include <sys/types.h>

#define ACCOUNT_WORDS 2100 // of one operation: a file may have many notes

// Of this process, which does one operation. Fails with EUSERS for a name that the cell's passwd does not know.
int account_enter(const char *user, struct err *e) MUST_USE;
// Absolute, without . and ..: "" and ~ are the home, what is relative begins there. Owned.
char *account_path(const char *path);
int account_own(int dir, const char *name, struct err *e) MUST_USE; // gives it to the account, where we may
// Makes what is missing of the directory, parents too, for the account. EEXIST: nothing is missing; ENOTDIR: something else is there.
int account_mkdirs(const char *path, struct err *e) MUST_USE;

// for USER OP PATH…: one of these operations, its paths as USER means them (account_path). An entry is the wire form of struct
// entry (model/entry.h).
//
//   home DIR NAME=VALUE…   str home, str DIR's path. ENOENT, ENOTDIR: of DIR. Makes /run/e2b/.NAME where it is not yet
//   entry PATH             one entry               entries DIR DEPTH   depth first, by name; links are not entered
//   make DIR               with its parents; then its entry. EEXIST where it is
//   move FROM TO           with TO's parents; one record, then TO's entry
//   fill PATH NOTE…        stdin, in place, with parents; NAME=value replace its notes; then its entry
//   fetch PATH             the bytes until there are no more
//   fetch PATH from=… len=…   as get does (init/files.h)
//   compose PATH PATH…     the first from all others, which go; then its entry
//   remove PATH  inotify DIR [recursive]   as in init/files.h
int op_for(char *const *a, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// To the disk: a list of things below one directory, in the order in which they must get there.
#pragma once
#include "base/buf.h"

enum durable {
	DURABLE_FILE = 'f',  // its bytes
	DURABLE_DIR = 'd',   // the names in it
	DURABLE_FILES = 'a', // the files that lie in it, and the names; what is below other directories is not looked at
	DURABLE_TREE = 't',  // everything below it
};

// Appends one entry. path: below the directory that durable_sync gets, "." for itself.
void durable_add(struct buf *list, enum durable what, const char *path);
// What is not there (any more) is passed over. The first failure ends it.
int durable_sync(int dirfd, const struct buf *list, struct err *e) MUST_USE;

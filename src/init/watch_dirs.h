// SPDX-License-Identifier: Apache-2.0
// The directories the job `watch` has an eye on: each of the writable layer twice, in the layer and as it is seen inside.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIRTY_MAX 512 // paths of one burst looked at one by one; more: everything is walked

struct dirty {
	char *path;
	bool tree;   // a directory
	bool closed; // somebody who could write closed it: its times may not tell
};

struct dirs {
	int fd, top;
	const char *ws;
	char **path; // by watch number; NULL: none
	int n_paths, n_watches;
	bool blind; // not every directory is watched: the kernel allows no more
	struct dirty dirty[DIRTY_MAX];
	size_t n_dirty;
	bool all; // more changed, or news were lost
};

// top: the layer's directory, which becomes the working directory. Without inotify it is blind, not an error.
int dirs_open(struct dirs *d, int top, const char *ws, struct err *e) MUST_USE;
void dirs_read(struct dirs *d);	 // what there is of news becomes dirty
void dirs_clean(struct dirs *d); // nothing is dirty
bool dirs_any(const struct dirs *d);

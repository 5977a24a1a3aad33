// SPDX-License-Identifier: Apache-2.0
// The entries of a git index file (versions 2, 3 and 4), read without git. The bytes are whoever's wrote them: every length is
// checked, and a file that makes no sense has no entries.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GITINDEX_MAX (256u << 20) // bytes of a file that is looked into

struct gitindex_entry {
	const char *path;
	const uint8_t *id;
};

struct gitindex {
	struct gitindex_entry *v; // by path, as strcmp orders them; a conflict has one for each side
	size_t n;
	unsigned id_size; // 20 or 32
	char *bytes, **paths;
	size_t n_paths;
};

// -1: no index, or one that can not be read. fd is not closed.
int gitindex_read(struct gitindex *out, int fd) __attribute__((warn_unused_result));
int gitindex_parse(struct gitindex *out, const char *bytes, size_t n) __attribute__((warn_unused_result)); // copies
void gitindex_done(struct gitindex *g);
const struct gitindex_entry *gitindex_find(const struct gitindex *g, const char *path);
bool gitindex_covers(const struct gitindex *g, const char *path); // the path, or something below it, is an entry

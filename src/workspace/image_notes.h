// SPDX-License-Identifier: Apache-2.0
// What is remembered while an image is unpacked: which paths the current layer brought, and what the image
// says of its directories. Both are bounded by the number of entries and by a byte limit.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

// Paths as 64-bit hashes: 8 bytes each instead of a name. Two names made to collide only spare one of the
// image's own files from the image's own whiteout.
struct image_seen {
	uint64_t *slot;
	size_t n, cap;
};
void image_seen_add(struct image_seen *s, const char *path); // with every directory on its way
bool image_seen_has(const struct image_seen *s, const char *path);
void image_seen_clear(struct image_seen *s);

struct image_meta {
	mode_t mode;
	uint64_t uid, gid;
	struct timespec mtime;
};
uint32_t image_owner(uint64_t id); // ids past 65535 become 0: no cell maps them

struct image_dir;
struct image_dirs {
	struct image_dir *v;
	size_t n, cap, bytes;
};
int image_dirs_add(struct image_dirs *d, const char *path, const struct image_meta *m, struct err *e) MUST_USE;
// Puts owner, mode and time on each directory that still is one, deepest first; the newest word counts.
int image_dirs_apply(struct image_dirs *d, int root, bool keep_owners, struct err *e) MUST_USE;
void image_dirs_done(struct image_dirs *d);

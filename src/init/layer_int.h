// SPDX-License-Identifier: Apache-2.0
// Inside the work on layers.
//
//   layer.c       what is asked: partial names, sizes, syncing       layer_entry.c  one file or directory, byte-exact
//   layer_copy.c  a copy, sharing with an earlier one                layer_merge.c  several as one
//   layer_seen.c  inodes met so far; the manifest of a copy           layer_trim.c   what a setup leaves
#pragma once
#include "base/buf.h"
#include "init/layer.h"
#include <sys/stat.h>

#define LAYER_DEPTH 1000 // directories below each other; descriptors are the reason
extern const char *const layer_parts[]; // ws home root

int layer_trim(int layer, const char *base, struct err *e) MUST_USE; // layer_trim.c

// --- layer_seen.c: a map from inode numbers of one file system ---

struct seen {
	uint64_t ino, ctime_ns, size;
	bool flushed;
	char *path; // below the layer; owned
};

struct seen_map {
	struct seen *slots;
	size_t n, cap; // cap: a power of two
};
struct seen *seen_find(const struct seen_map *m, uint64_t ino);
struct seen *seen_add(struct seen_map *m, uint64_t ino); // found or new, zeroed
void seen_done(struct seen_map *m);

// The manifest of a copy: for each file that could be told unchanged later, what it was in the source.
struct manifest {
	int fd; // -1: none is written
	struct buf b;
	uint64_t sum;
};
int manifest_open(struct manifest *m, int layer, struct err *e) MUST_USE;
int manifest_add(struct manifest *m, const struct seen *s, struct err *e) MUST_USE;
int manifest_close(struct manifest *m, struct err *e) MUST_USE; // complete only with this
void manifest_done(struct manifest *m);
void manifest_load(int layer, struct seen_map *out); // absent or damaged: nothing is known

// --- layer_entry.c ---

uint64_t entry_ctime(const struct stat *st); // ns
int entry_open_dir(int dir, const char *name, struct err *e) MUST_USE;
// Anything but a directory, under the same name.
int entry_copy(int from, const char *name, const struct stat *st, int to, struct err *e) MUST_USE;
// Owner, mode, attributes, times of a directory, once what is in it is made. overlay: with overlay's own marks.
int entry_finish_dir(int from, int to, bool overlay, struct err *e) MUST_USE;
bool entry_same_bytes(int a_dir, const char *a, int b_dir, const char *b);

// --- verbs ---

int layer_copy(int from, int to, int like, struct layer_result *r, struct err *e) MUST_USE;
// below, base: descriptors of what lies below; base -1 = nothing.
#define LAYER_BASE_GONE -2 // there was one, and it can not be looked at now
int layer_merge(const int *from, int n, const int *below, int n_below, int base, int to, struct layer_result *r, struct err *e) MUST_USE;

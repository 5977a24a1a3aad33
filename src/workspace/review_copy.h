// SPDX-License-Identifier: Apache-2.0
// The copy of what a sandbox made: everything later (diff, risk, digest, apply) sees only this, never the layer.
// One file SHADOW/skep/s, replaced as a whole by every collect: contents one behind the other, then the list.
// A reader holds the version it opened.
#pragma once
#include "base/delta.h"

#define COPY_FILE_MAX (1ULL << 30)  // longer ones are kept by hash only, and can not be applied
#define COPY_TOTAL_MAX (8ULL << 30) // of all contents; what comes behind is kept by hash only
#define COPY_ENTRIES 1000000u

struct copy_entry {
	char kind; // as in base/delta.h: f l d o x h s g u r
	bool exec, torn, kept;
	uint64_t off, size; // content (of a link: its target) within the map, if kept
	uint8_t sha[32];    // of the content
	char *path;
};

struct review_copy {
	struct copy_entry *v; // sorted by review_path_cmp
	size_t n;
	char *map;
	size_t map_len;
};

struct collect_result {
	uint64_t entries, files, bytes, torn, unkept, discarded;
};

// shadow: the directory of the shadow repository. Refused entries (git's own data in any spelling, special files) are
// kept in the list as discarded, without content.
int review_collect(int shadow, struct delta_in *in, uint64_t file_max, uint64_t total_max, struct collect_result *out,
		   struct err *e) MUST_USE;
int review_copy_open(int shadow, struct review_copy *out, struct err *e) MUST_USE; // NOT_FOUND before the first collect
void review_copy_done(struct review_copy *c);
// Of an entry that no review lands: its name as it is told, and why it is left out.
const char *review_copy_left_name(const struct copy_entry *en);
const char *review_copy_left_why(const struct copy_entry *en);
const struct copy_entry *review_copy_find(const struct review_copy *c, const char *path);
const char *review_copy_bytes(const struct review_copy *c, const struct copy_entry *en); // borrowed; NULL if not kept
size_t review_copy_lower(const struct review_copy *c, const char *path); // index of the first entry >= path

// '/' sorts before every other byte: what is below a directory follows it at once.
int review_path_cmp(const char *a, const char *b);
bool review_path_below(const char *path, const char *dir); // strictly

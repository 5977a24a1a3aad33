// SPDX-License-Identifier: Apache-2.0
// The copy of what a sandbox made: everything later (diff, risk, digest, apply) sees only this, never the layer.
// Contents are kept once for each file, however many names it has, and with their holes; a collect takes over the content
// of every file that did not change since the last one. A reader holds the version it opened.
#pragma once
#include "base/delta.h"
#include "workspace/review_shadow.h"

#define COPY_FILE_MAX (1ULL << 30)  // longer ones are named only, and can not be applied
#define COPY_TOTAL_MAX (4ULL << 30) // of all contents; what comes behind is named only
#define COPY_KEEP_FREE (1ULL << 30) // bytes of disk that a copy leaves free
#define COPY_ENTRIES 1000000u

struct copy_entry {
	char kind; // as in base/delta.h: f l d o x h s g u n r
	bool exec, torn, kept;
	bool hashed;	    // oid is known
	uint64_t off, size; // content (of a link: its target) within the map, if kept
	uint8_t sha[32];    // of the content, if kept
	uint8_t oid[SHADOW_OID];
	struct delta_mark mark;
	char *path, *as; // as: while it is collected, the first name of an '='
};

struct review_copy {
	struct copy_entry *v; // sorted by review_path_cmp
	size_t n;
	bool scoped; // only some contents were asked for; the others are 'n'
	uint64_t length;
	char *map;
	size_t map_len;
	int lock;
};

// What one collect may take.
struct collect_spec {
	uint64_t file_max, total_max, keep_free;
	char **paths; // contents that are wanted; NULL = all. Borrowed
};

struct collect_result {
	uint64_t entries, files, bytes, torn, unkept, discarded;
	uint64_t copied, unasked; // files whose content came now; files that were not asked for
	uint64_t disk;		  // bytes that the copy takes
};

// The last copy, for a sender that leaves out what is in it.
struct collect_known {
	struct review_copy copy;
	struct delta_mark *marks;
	uint32_t *places; // of the copy's entries, by mark
	size_t n;
	bool wasteful; // too much of it is unused: all is copied again
};
void collect_known_open(int shadow, struct collect_known *k); // empty where there is none
void collect_known_done(struct collect_known *k);

// shadow: the directory of the shadow repository. Refused entries (git's own data in any spelling, special files) are
// kept in the list as discarded, without content. A collect that fails leaves the last copy.
int review_collect(int shadow, struct delta_in *in, const struct collect_spec *spec, const struct collect_known *known,
		   struct collect_result *out, struct err *e) MUST_USE;
int review_copy_open(int shadow, struct review_copy *out, struct err *e) MUST_USE; // NOT_FOUND before the first collect
void review_copy_unlock(struct review_copy *c); // its list stays, its contents can not be read any more
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

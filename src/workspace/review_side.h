// SPDX-License-Identifier: Apache-2.0
// What one path is on one side of a review, and reading the host's side of it: beneath the target directory, through no
// link, no mount point, no FIFO.
#pragma once
#include "base/buf.h"
#include "workspace/review_shadow.h"
#include <sys/types.h>

enum side_type {
	SIDE_NONE,
	SIDE_FILE,
	SIDE_LINK,
	SIDE_DIR,
	SIDE_OTHER, // a device, a FIFO, something behind a link or mount point, unreadable, too long: never equal to anything
};

struct side {
	enum side_type type;
	bool exec;
	bool hashed;   // sha is known
	bool objected; // oid is known
	uint32_t perm, uid, gid;
	uint64_t size, ino;
	int64_t ctime_ns;
	uint8_t sha[32], oid[SHADOW_OID];
};

bool side_same(const struct side *a, const struct side *b);	   // type, x-bit, content
bool side_same_content(const struct side *a, const struct side *b); // type and content
void side_hash(struct side *s, const void *p, size_t n);	   // fills sha, oid, size
const char *side_name(enum side_type t);

// path beneath dir as it is now; its content (a link's target) into *out_bytes, at most out_bytes->max.
// What can not be had safely is SIDE_OTHER, with the reason in *e and 0 returned.
int side_look(int dir, const char *path, struct side *out, struct buf *out_bytes, struct err *e) MUST_USE;
// Does this directory take a name in other letters for the same? As far as its own entries tell.
bool side_folds_case(int dir);
bool side_has_exact(int root, const char *path); // is the last component listed in these very letters?
// Calls fn for everything below dir: files, links, directories (after what is in them). Skips what is git's own.
int side_walk(int root, const char *dir, int (*fn)(void *arg, const char *path, const struct side *s), void *arg,
	      struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// The shadow repository of a sandbox: git objects only. It is bare and ours; no work tree, no configuration and no
// attribute is ever read. refs/skep/p names tree P: what the sandbox was based on plus everything reviewed since.
// The only file of this room's review part that knows libgit2's objects (review_lines.c uses its line diff).
#pragma once
#include "base/buf.h"

#define SHADOW_OID 20

struct shadow;

struct shadow_entry {
	uint32_t mode; // 0100644, 0100755, 0120000, 040000, 0160000
	uint8_t oid[SHADOW_OID];
};

struct shadow_bytes {
	const char *p;
	size_t n;
	void *object;
};

// One path of a tree to be: mode 0 takes it out.
struct shadow_update {
	const char *path;
	uint32_t mode;
	uint8_t oid[SHADOW_OID];
};

void shadow_warm(void); // does ahead what the first open would do
int shadow_open(const char *path, struct shadow **out, struct err *e) MUST_USE;
void shadow_close(struct shadow *s);
int shadow_dir(const struct shadow *s); // borrowed fd of the directory

// Objects of another repository are found, too, as long as s is open.
int shadow_borrow(struct shadow *s, const char *objects, struct err *e) MUST_USE;
// Tree P as refs/skep/p names it (a tree, or a commit); before the first apply what was pinned, or the empty tree. NOT_FOUND:
// its objects are gone with the repository that they were borrowed from.
int shadow_base(struct shadow *s, uint8_t out[SHADOW_OID], struct err *e) MUST_USE;
int shadow_base_set(struct shadow *s, const uint8_t oid[SHADOW_OID], struct err *e) MUST_USE; // durable
// 1 found, 0 not there.
int shadow_lookup(struct shadow *s, const uint8_t tree[SHADOW_OID], const char *path, struct shadow_entry *out,
		  struct err *e) MUST_USE;
// Calls fn for every file, link and submodule below dir ("" = the whole tree), with the path from the tree's top.
int shadow_walk(struct shadow *s, const uint8_t tree[SHADOW_OID], const char *dir,
		int (*fn)(void *arg, const char *path, const struct shadow_entry *en), void *arg, struct err *e) MUST_USE;
// updates: sorted by review_path_cmp, no path twice. A file may take a directory's place when all below it goes.
int shadow_update(struct shadow *s, const uint8_t tree[SHADOW_OID], const struct shadow_update *v, size_t n,
		  uint8_t out[SHADOW_OID], struct err *e) MUST_USE;

int shadow_read(struct shadow *s, const uint8_t oid[SHADOW_OID], struct shadow_bytes *out, struct err *e) MUST_USE;
void shadow_bytes_done(struct shadow_bytes *b);
int shadow_write(struct shadow *s, const void *p, size_t n, uint8_t out[SHADOW_OID], struct err *e) MUST_USE;
int shadow_empty_tree(struct shadow *s, uint8_t out[SHADOW_OID], struct err *e) MUST_USE;
// The tree of a commit. INVALID when it is none, NOT_FOUND when it is not to be had.
int shadow_commit_tree(struct shadow *s, const uint8_t commit[SHADOW_OID], uint8_t out[SHADOW_OID], struct err *e) MUST_USE;
int shadow_write_commit(struct shadow *s, const char *text, size_t n, uint8_t out[SHADOW_OID], struct err *e) MUST_USE;
int shadow_ref_set(struct shadow *s, const char *ref, const uint8_t oid[SHADOW_OID], struct err *e) MUST_USE; // refs/skep/…, durable
void shadow_hash(const void *p, size_t n, uint8_t out[SHADOW_OID]); // of a blob with these bytes
int shadow_sync(struct shadow *s, struct err *e) MUST_USE; // everything written is on disk
void shadow_hex(const uint8_t oid[SHADOW_OID], char out[41]);
int shadow_unhex(const char *hex, uint8_t out[SHADOW_OID]) MUST_USE;

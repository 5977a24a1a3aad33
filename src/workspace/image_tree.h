// SPDX-License-Identifier: Apache-2.0
// The directory an image is unpacked into. The one place that decides what an entry may do there.
//
// Invariants: every path is relative, free of "..", and walked with openat2 beneath the root with no link
// followed, so whatever earlier entries planted, nothing outside is ever touched. No device, FIFO or
// socket is made; no setuid, setgid or extended attribute is kept. While unpacking every directory is
// open to its owner; the modes of the image are put on at the end.
#pragma once
#include "base/buf.h"
#include "workspace/image.h"
#include "workspace/image_notes.h"

#define IMAGE_PATH 4097 // with the NUL
#define IMAGE_DEPTH 256 // components of a path

struct image_tree {
	int root;
	bool keep_owners; // unpacking as root
	struct image_result made;
	uint64_t entries, unchecked; // unchecked: bytes and entries since free space was last looked at
	int parent;		     // the directory the last entry was made in
	struct buf parent_path;
	bool has_parent;
	struct image_dirs dirs;
	bool layered;
	struct image_seen seen; // what the current layer brought
};

int image_tree_open(struct image_tree *t, const char *into, struct err *e) MUST_USE; // makes it, exclusively
void image_tree_close(struct image_tree *t);

// The normal form of an entry's name: leading slashes, "." and empty components go; "" is the root itself.
// INVALID: "..", too long, too deep, not there.
int image_path(const char *raw, char out[IMAGE_PATH], struct err *e) MUST_USE;
// A name as it may stand in a message: no control characters, not too long.
const char *image_show(const char *name, char out[200]);

// Entries, by normal path. What stands there already is replaced; a directory over a directory stays.
int image_tree_dir(struct image_tree *t, const char *path, const struct image_meta *m, struct err *e) MUST_USE;
int image_tree_file(struct image_tree *t, const char *path, struct err *e) MUST_USE; // an empty one, to be written
int image_tree_file_end(struct image_tree *t, int fd, const struct image_meta *m, struct err *e) MUST_USE;
int image_tree_symlink(struct image_tree *t, const char *path, const char *target, const struct image_meta *m,
		       struct err *e) MUST_USE;
int image_tree_link(struct image_tree *t, const char *path, const char *target, struct err *e) MUST_USE;
int image_tree_skip(struct image_tree *t, struct err *e) MUST_USE;

// Layers: a whiteout removes what earlier layers brought, never what its own layer did.
void image_tree_layer(struct image_tree *t); // the next one begins
int image_tree_whiteout(struct image_tree *t, const char *path, struct err *e) MUST_USE;
int image_tree_opaque(struct image_tree *t, const char *path, struct err *e) MUST_USE;

// Bytes about to be written: LIMIT when the image or the disk has no room for them.
int image_tree_charge(struct image_tree *t, uint64_t bytes, struct err *e) MUST_USE;
// Last: mount points a cell needs are made, or INVALID where the image has something else there; then modes.
int image_tree_finish(struct image_tree *t, struct err *e) MUST_USE;

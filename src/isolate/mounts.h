// SPDX-License-Identifier: Apache-2.0
// Mount plans: what a cell's file tree is made of, as data. Built by pure code (rootfs.c), applied by one
// short loop, printed by `skep doctor --plan`.
//
// Destinations are paths below a root descriptor. They are walked one component at a time without following
// any link, so that a directory an image or a workspace controls can not lead a mount elsewhere.
#pragma once
#include "base/buf.h"

enum mount_kind {
	MOUNT_DIR,     // make the directory; data = octal mode
	MOUNT_FILE,    // write data into a new file
	MOUNT_PROGRAM, // copy of the file src, for everybody to run
	MOUNT_LINK,    // symbolic link dst -> data
	MOUNT_COPY,    // copy the world-readable part of directory src; data = paths in it that are left out, a:b/c
	MOUNT_BIND,    // recursive bind of src
	MOUNT_NODE,    // bind of the character device src, checked to be one
	MOUNT_TMPFS,   // data = options
	MOUNT_PROC,
	MOUNT_DEVPTS,
	MOUNT_MQUEUE,
	MOUNT_OVERLAY, // data = options, lowerdir first, names relative to the directory src; lowers that are absent are left out
	MOUNT_MASK,    // nothing readable there: an empty file or directory over dst, which may be absent
	MOUNT_RDONLY,  // make what is there read-only, if it is there
	MOUNT_RESIZE,  // of a tmpfs that is there; data = options
	MOUNT_PART,    // a directory of what is mounted there already (src, below the root) is seen at dst, too
	MOUNT_DETACH,  // what is mounted at dst goes
	MOUNT_KINDS,
};

enum mount_flags {
	MF_WRITE = 1,	 // else read-only
	MF_DEV = 2,	 // else nodev
	MF_NOEXEC = 4,
	MF_OPTIONAL = 8, // an absent source is fine; of an overlay: a target that is no directory
	MF_OURS = 16,	// of a file: nobody else can have put something in its place
};

struct mount_op {
	enum mount_kind kind;
	char *src, *dst, *data;
	unsigned flags;
};

struct plan {
	struct mount_op *ops;
	size_t n;
};

void plan_add(struct plan *p, enum mount_kind kind, const char *src, const char *dst, const char *data, unsigned flags);
void plan_done(struct plan *p);
void plan_print(const struct plan *p, struct buf *out);

// Masks need an empty file and an empty directory that existed before anything untrusted did.
struct mount_env {
	int root;	// what destinations are below
	int null_file;	// /dev/null, opened and checked early
	int empty_dir; // an empty directory
	// The root is "/", sealed and our own in every part, with /dev/null and an empty /mnt: names are used as they are,
	// which saves half of the calls for what every cell mounts.
	bool own_root;
};
int plan_apply(const struct plan *p, const struct mount_env *env, struct err *e) MUST_USE;

// Single steps, for the ordered list in contain.c.
int mount_private(struct err *e) MUST_USE; // receive the host's mounts, send none
int mount_clone(int dirfd, const char *path, bool recursive, struct err *e) MUST_USE; // detached copy, as fd
int mount_idmap(int tree, int userns, struct err *e) MUST_USE;
int mount_move(int tree, int target, struct err *e) MUST_USE;
int mount_tmpfs_at(int target, const char *options, struct err *e) MUST_USE;
int mount_seal(int target, struct err *e) MUST_USE;			// read-only, this mount only
int mount_target(int root, const char *path, bool dir, struct err *e) MUST_USE; // makes it, returns an O_PATH fd
// The overlay at path forgets which names it looked up below, where nobody holds them: nothing else makes it see what the host
// renamed, replaced or added there. Anything but the root of an overlay is left alone.
int mount_refresh(int root, const char *path, struct err *e) MUST_USE;
int mount_pivot(int newroot, struct err *e) MUST_USE;			// newroot becomes /, the old tree is gone

// SPDX-License-Identifier: Apache-2.0
// Archives and directories as streams of entries, put into an image_tree. The only user of libarchive.
#pragma once
#include "base/sha256.h"
#include "workspace/image_tree.h"

enum layer_check {
	CHECK_NONE,
	CHECK_BLOB,  // of the bytes as stored (OCI digest)
	CHECK_PLAIN, // of the tar itself (docker diff id): only where it is stored uncompressed
};

struct layer_sum {
	enum layer_check kind;
	char hex[SHA256_HEX];
};

// A tar, compressed or not, read from fd to its end. layered: whiteouts count. The sum is compared after
// the last entry: INVALID means that what was unpacked must go.
int image_layer_apply(struct image_tree *t, int fd, bool layered, const struct layer_sum *sum, struct err *e) MUST_USE;

// A directory as it is, without what is mounted in it.
int image_layer_copy(struct image_tree *t, const char *source, struct err *e) MUST_USE;

// Does the tar hold an OCI layout or a `docker save`, and not a root file system? 1, 0 or -1. Reads no
// further than it must; fd is at its start again.
int image_layer_is_layout(int fd, struct err *e) MUST_USE;

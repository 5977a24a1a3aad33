// SPDX-License-Identifier: Apache-2.0
// The directory that a pull fills: an OCI layout, in which each blob comes in as NAME.part and gets its name when its
// digest was compared. What is there when a pull ends early is where the next one of the same reference goes on.
//
//   oci-layout  index.json         written last: only a whole pull has them
//   blobs/sha256/HEX               whole, compared with its digest
//   blobs/sha256/HEX.part          the first bytes of one
#pragma once
#include "base/sha256.h"
#include "pull/manifest.h"
#include "pull/session.h"

struct pull_layout {
	int dir, blobs; // descriptors; blobs: of blobs/sha256
};
// dir is taken. Makes what is missing. CONFLICT when another process works in it.
int pull_layout_open(int dir, struct pull_layout *out, struct err *e) MUST_USE;
void pull_layout_close(struct pull_layout *l);
int pull_layout_put(struct pull_layout *l, const struct pull_blob *b, const struct buf *bytes, struct err *e) MUST_USE;
int pull_layout_finish(struct pull_layout *l, const struct pull_manifest *m, const struct pull_blob *manifest, struct err *e) MUST_USE;
int pull_layout_room(const struct pull_layout *l, uint64_t wanted, struct err *e) MUST_USE; // on the disk

// One blob on its way in.
struct pull_incoming {
	struct pull_layout *layout;
	struct pull_blob blob;
	int fd;
	uint64_t at;	// bytes that are there
	uint64_t kept;	// of them those of an earlier pull
	uint64_t moved; // bytes that came in over the network
	struct sha256 sum;
	bool resumed, done;
};
// Reads in what an earlier pull left. With done set nothing is to be fetched.
int pull_incoming_open(struct pull_layout *l, const struct pull_blob *b, struct pull_incoming *out, struct err *e) MUST_USE;
void pull_incoming_close(struct pull_incoming *in);
struct pull_sink pull_incoming_sink(struct pull_incoming *in);

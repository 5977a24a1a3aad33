// SPDX-License-Identifier: Apache-2.0
// Work on whole layers outside of cells, where files of subordinate uids can be read.
//
// A layer is a directory with one subtree per overlay (its parts: ws, home, root/NAME) and, while it is writable, work/.
// A sealed one is never written to again. Names are directories below layers/ of SKEP_HOME. What is made appears under
// its name only when it is complete (until then NAME.partial); a request for a name that exists already is answered as
// done, so that it can be repeated by whoever did not hear the answer.
#pragma once
#include "model/limits.h"

enum layer_verb {
	// `from` (one) to `to`: byte-exact in names, contents, holes, modes, owners, times, attributes, links and overlay's
	// marks. The source is sealed, or its cell is paused. `like`: an earlier copy of the same source, or NULL; what did not
	// change since shares its files.
	LAYER_COPY,
	LAYER_MERGE, // `from` (all sealed, newest first) to `to`: one that shows the same; their files are shared
	LAYER_SIZE,  // of `from` (one)
	// `from` (one) and its name are on the disk when this is done; COPY and MERGE leave that to it.
	LAYER_SYNC,
	// From the workspace in `from` (one, which nothing has mounted) goes what the directory `base` has as well, and .git.
	LAYER_TRIM,
	LAYER_VERBS,
};

struct layer_op {
	enum layer_verb verb;
	char *const *from; // NULL-terminated
	const char *to, *like;
	// LAYER_MERGE: what lies below, newest first: layers of the base, and its directory or NULL; absolute. A whiteout of
	// something that nothing below has would be listed by a directory that has no other layer.
	char *const *below;
	const char *base;
	bool sealed; // LAYER_SYNC: no cell has it mounted as its writable layer: overlay's scratch directories go
};

struct layer_result {
	uint64_t bytes, files; // of the layer made or looked at: on the disk, links counted once; whiteouts not
	uint64_t shared;       // files it shares with `like` or with what was merged
};

void layer_op_write(struct buf *b, const struct layer_op *op);
int layer_op_read(struct wire *w, struct layer_op *out, struct err *e) MUST_USE; // then layer_op_done
void layer_op_done(struct layer_op *op);					 // of one that was read
void layer_result_write(struct buf *b, const struct layer_result *r);
int layer_result_read(struct wire *w, struct layer_result *out) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// Volumes: directories that skep keeps apart from sandboxes and shows in as many of them as wanted. What is asked of their files
// from outside is done by a child of the nursery, which sees them with the ids that cells have in the root profile.
//
// A volume lies in volumes/ID of SKEP_HOME. Cells write to it at any time, so paths of an operation are resolved by the kernel
// below that directory: reads follow links that stay inside the volume, writes follow none.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "model/limits.h"
#include <stdbool.h>
#include <stdint.h>

#define VOLUME_NAME_MAX 64
#define VOLUME_DEPTH_MAX 10
#define VOLUME_LIST_MAX 10000 // entries of one list
#define VOLUME_KEEP UINT32_MAX // uid, gid, mode: not said

enum volume_verb {
	VOLUME_LIST,   // what is in the directory `path`, `depth` levels deep
	VOLUME_STAT,   // a link itself, not what it leads to
	VOLUME_OPEN,   // a regular file to read
	VOLUME_PUT,    // the bytes of the descriptor that comes along, under `path`, at once when they are whole; force: replaces, and makes parents
	VOLUME_MKDIR,  // force: makes parents, and a directory that is there is fine
	VOLUME_SET,    // owner and mode
	VOLUME_REMOVE, // with all below it
	VOLUME_SIZE,   // of the whole volume
	VOLUME_VERBS,
};

// The answer is a descriptor: the file (OPEN), else memory with JSON: a list of entries, one entry, {"bytes","files"}, {}.
struct volume_op {
	enum volume_verb verb;
	char volume[ID_SIZE];
	char *path; // volume_path_clean's form
	uint32_t depth, uid, gid, mode;
	bool force;
};

bool volume_name_is(const char *s);
// "/a/b" or "a//b/" as "a/b", "" for the top. Owned; NULL: it has .. in it, is too long, or names nothing.
char *volume_path_clean(const char *path);

// NAME:/path/inside[:ro|:rw], as it is asked for.
struct volume_wish {
	char *name, *dst;
	bool writable;
};
int volume_wish_parse(const char *text, struct volume_wish *out, struct err *e) MUST_USE;
void volume_wish_done(struct volume_wish *w);

void volume_op_write(struct buf *b, const struct volume_op *op);
int volume_op_read(struct wire *w, struct volume_op *out, struct err *e) MUST_USE; // then volume_op_done
void volume_op_done(struct volume_op *op);

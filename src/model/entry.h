// SPDX-License-Identifier: Apache-2.0
// A file as a user of the cell finds it by a path: the file itself, where a link leads, and the notes that lie with it.
#pragma once
#include "model/file.h"

#define ENTRY_NOTE "user.e2b." // extended attributes with this prefix are its notes

struct entry {
	struct file_record file; // of the path itself, links not followed; name: the last part of the path
	char *path;		 // absolute, as it was asked for
	char *target;		 // a link: what it leads to, resolved; its own path where that is nothing. Else NULL
	uint32_t target_mode;	 // 0 = there is nothing
	char **notes;		 // NAME=value; never NULL after a read
};
void entry_done(struct entry *n);
void entry_write(struct buf *b, const struct entry *n);
int entry_read(struct wire *w, struct entry *out) MUST_USE;

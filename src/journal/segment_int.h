// SPDX-License-Identifier: Apache-2.0
// Segments of a journal and the lines in them, for writer and readers.
#pragma once
#include "journal/journal.h"

#define JOURNAL_ZERO_HASH "0000000000000000000000000000000000000000000000000000000000000000"

// Opens segment n. -1 with e->sys == ENOENT when there is none.
int segment_open(int dirfd, unsigned n, int flags, struct err *e) MUST_USE;

struct line_head {
	uint64_t seq;
	struct str prev, type; // views into the line; type as written, escapes kept
};
// Strict: exactly the form our writer gives, members in its order. line: without the newline.
bool line_parse(struct str line, struct line_head *out);

// Walks the lines of all segments.
struct scan {
	int dirfd; // borrowed
	int fd;
	unsigned segment;
	struct buf in;
	size_t at;
	bool torn;	    // at the end: an incomplete last line stands there
	const char *broken; // at the end: why it can not be read on, a line too long or cut inside the journal
};
int scan_open(struct scan *s, int dirfd, struct err *e) MUST_USE; // NOT_FOUND: there is no journal
void scan_close(struct scan *s);
int scan_next(struct scan *s, struct str *out, struct err *e) MUST_USE; // 1 = a line, 0 = end, -1 = failed

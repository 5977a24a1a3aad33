// SPDX-License-Identifier: Apache-2.0
// Changes of a sandbox as they happen: the stream of init's job `watch`, through the cell to whoever watches.
//
//   record: u32 length of the body, u8 type, body, u64 number
//     'B' body: a state, as it was before: what the next change of that path is compared with
//     'C' body: a change: the state it has now
//     'E' body: JSON of a command's start or end (the cell's words, which the job passes on behind what changed before)
//     'K' no body: the end of a burst. Changes of one burst belong together: a rename is a D and an A
//   number: 0 from the job; the cell puts in the journal's newest event number, which for 'C' is the one just recorded
//
// The reader trusts nothing: lengths are bounded and paths are bytes.
#pragma once
#include "base/buf.h"

#define LIVE_CONTENT (1u << 20)			// a longer file is told without its content
#define LIVE_PATH 4096u
#define LIVE_HEAD (LIVE_PATH + 256u)		// a state's body without its content fits in here
#define LIVE_RECORD (LIVE_CONTENT + LIVE_HEAD) // longest body
#define LIVE_FRAME 13u				// bytes of a record around its body

enum { LIVE_BEGAN = 1, LIVE_ENDED = 2 }; // what a note to the job is about

struct live_state {
	char type; // 'B', 'C'
	char kind; // of a change: 'A' it is new, 'M' changed, 'D' gone
	bool base; // it is as the base has it again
	char what; // 'f' file, 'l' link, 'd' directory, 'x' nothing, 's' something else, 'u' can not be read
	bool exec, whole; // whole: p, n is its content or its target
	bool has_before, has_after;
	uint8_t before[32], after[32]; // SHA-256 of the contents
	uint64_t size;
	const char *path; // as read: owned by whoever has the record
	const char *p;
	size_t n;
};

void live_put(struct buf *b, char type, const void *body, size_t n);
void live_put_state(struct buf *b, const struct live_state *s);
// Of a body; what it points to stays in it. -1: malformed. A body cut off behind the path: n = 0.
int live_read_state(const void *body, size_t n, struct live_state *out) MUST_USE;

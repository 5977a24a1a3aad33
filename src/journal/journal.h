// SPDX-License-Identifier: Apache-2.0
// The record of a sandbox: one JSON object per line, each line carrying the hash of the one before it.
//
// It lives in the sandbox's directory as `journal`, `journal.1`, `journal.2` ...: a segment that has
// reached its size is left alone and the next one begins; sequence numbers and the chain run through.
// There is one writer at a time: whoever holds the OFD write lock on `journal`. Readers take no lock and
// see whole lines only. A line is one write(), so our own death leaves either all of it or, after a full
// disk or a power cut, a piece without a newline, which the next writer cuts off and records.
#pragma once
#include "base/buf.h"
#include "base/sha256.h"
#include "base/str.h"

#define JOURNAL_LINE_MAX (64u << 10) // with the newline
#define JOURNAL_SEGMENT (64ULL << 20)

struct journal {
	bool is_open;
	int fd;			// newest segment
	int lock;		// the first segment, which carries the lock
	int dirfd;
	unsigned segment;
	uint64_t seq;		// of the last line; 0 = none yet
	char head[SHA256_HEX];	// hash of the last line
	uint64_t bytes;		// of all segments
	uint64_t segment_bytes; // of the newest
	uint64_t segment_max;	// JOURNAL_SEGMENT; tests make it smaller
	bool unclean;		// a failed write left a piece of a line that could not be cut yet
	bool unsynced_dir;	// a file was made whose name no durable append has secured yet
};

// dirfd: the sandbox's directory, borrowed. CONFLICT while another holds the journal, INVALID when its last
// line is not ours to continue. An incomplete last line is cut and a journal.recovered event says so.
int journal_open(struct journal *j, int dirfd, struct err *e) MUST_USE;
// Of what state.db last knew of it: when the end up to there is cut off or was changed, goes on behind the anchor and not behind
// what is left. So the gap stays in the chain, and journal_verify finds it however much is appended; a journal.recovered event
// says how many are missing, or that the last one was changed. For the one who has the journal open.
int journal_go_on(struct journal *j, uint64_t anchor_seq, const char *anchor_hash, struct err *e) MUST_USE;
void journal_close(struct journal *j); // gives the lock up; safe on a zeroed or closed one

// body: NULL, or JSON members without the braces, in one line. One that makes the line too long is replaced
// by "truncated":true. After a failed write (LIMIT: disk full) nothing of the line stays and the next append
// may work again. After a failed sync of a durable event the line is there but may not survive a power cut.
int journal_append(struct journal *j, const char *type, const char *by, const char *body, bool durable,
		   struct err *e) MUST_USE;

struct journal_report {
	bool ok;
	bool torn;	      // ok, but an incomplete line stands at the end: a writer died, or is writing now
	uint64_t events;      // whole events before the first bad one
	uint64_t line;	      // when not ok: number of the first bad line, counted over all segments
	char reason[200];     // when not ok, or torn
};

// Reads everything. Finds changed, removed, repeated and reordered lines, and an end cut off before the
// anchor: the event number and hash that state.db keeps (anchor_seq 0: none). A bad journal is not a
// failure: 0 with ok = false.
int journal_verify(int dirfd, uint64_t anchor_seq, const char *anchor_hash, struct journal_report *out,
		   struct err *e) MUST_USE;

// Appends to out the lines from an absolute offset on (over all segments), as many whole ones as fit in
// out->max. *out_end: where the next call goes on. INVALID when offset lies past the end.
int journal_tail(int dirfd, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e) MUST_USE;

// Calls fn with each line of that type (NULL: every line), oldest first, without the newline, until it
// returns false. The text is borrowed for the call. Does not verify the chain.
int journal_find(int dirfd, const char *type, bool (*fn)(struct str line, void *arg), void *arg,
		 struct err *e) MUST_USE;

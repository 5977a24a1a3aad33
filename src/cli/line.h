// SPDX-License-Identifier: Apache-2.0
// The connection of an attached exec. On this machine it ends with the cell. From another one (SKEP_HOST) it may break at any
// time, and costs nothing: the cell knows us by a key of our own (model/msg.h, M_HELLO), keeps what we have not said to have
// seen, and tells which bytes of stdin it has; we keep those it may not have. Tries are bounded by time, which counts from
// the last frame that came.
#pragma once
#include "base/buf.h"
#include "base/id.h"

#define LINE_ALIVE_MS 25000 // of silence; then the other side is told that we are there
#define LINE_SIGNALS 32 // of more than that the oldest are not repeated

struct line {
	const char *exec;	   // its id, or NULL: there is no other way back
	char *socket, *ticket;	   // as skepd named them; ticket "" once it was used
	char key[KEY_SIZE];	   // "" = it does not come back
	uint64_t retry_ms;
	uint64_t until_ms, delay_ms; // of the tries under way; 0 = none
	bool stranger;		   // the cell does not know our key (any more): by a new ticket then
	uint64_t said[3];	   // by stream: what the cell was told to have come
	struct buf kept;	   // bytes of stdin it may not have
	uint64_t kept_from;	   // number of the first one, among those we sent
	uint64_t ahead;		   // bytes of others that the exec had got before ours, as far as known
	int signals[LINE_SIGNALS]; // that the cell may not have heard of, the oldest first
	unsigned n_signals;
	uint64_t signalled; // how many were sent; the number of the last one
};

// How long a broken line is tried again (SKEP_RETRY); INVALID when that is no number. 0 = not at all.
int line_retry(uint64_t *out_ms, struct err *e) MUST_USE;
int line_open(struct line *l, const char *socket, const char *ticket, const char *exec, struct err *e) MUST_USE; // its descriptor
void line_close(struct line *l);
bool line_comes_back(const struct line *l);
void line_hello(struct line *l, struct buf *b, const uint64_t got[3]); // M_HELLO's payload

// It broke: a new descriptor, for a new greeting. Blocks. -1: given up, and what to do now.
int line_again(struct line *l, struct err *e) MUST_USE;
void line_works(struct line *l); // a frame came

// stdin: what we sent (at: of ours alone), and how far the cell has it: `mine` bytes of ours, `all` of everybody's.
void line_keep(struct line *l, uint64_t at, const void *p, size_t n);
void line_taken(struct line *l, uint64_t mine, uint64_t all);
// The same to a stranger, who is told of all alone: right unless others wrote meanwhile. Ours are counted from 0 again.
void line_guess(struct line *l, uint64_t all);
// Signals, numbered from 1 so that one that is repeated counts once. The number of a new one; and how far the cell has heard.
uint64_t line_signal(struct line *l, int sig);
void line_heard(struct line *l, uint64_t upto);
// Is the cell to be told by M_SEEN that bytes up to `got` have come? idle: nothing more is on its way.
bool line_must_say(struct line *l, int stream, uint64_t got, bool idle);

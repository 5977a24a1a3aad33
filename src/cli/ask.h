// SPDX-License-Identifier: Apache-2.0
// A connection that the gate holds until the person at the terminal answers: once, for this sandbox, always, or No, which
// is also what any other key and no answer mean. While a question stands, keys belong to it and not to the command, and
// nothing of the command's output is shown (cli/pump_ask.c).
#pragma once
#include "base/buf.h"
#include "model/msg.h"

#define ASK_QUEUE 8
#define ASK_MS 60000	  // as long as the gate waits
#define ASK_TYPEAHEAD_MS 400 // keys that were on their way before anybody could read the question

struct ask {
	struct {
		uint32_t id;
		char *what; // shown
	} list[ASK_QUEUE]; // the first one stands on the screen
	unsigned n;
	bool drawn;	   // the first one was written to the terminal
	uint64_t shown_ms; // when all of it was there; 0 = not yet
};

struct ask_answer {
	uint32_t id;
	bool allow;
	enum answer_scope scope;
};

void ask_done(struct ask *a);
// M_ASK. False when it can not be taken: answer No.
bool ask_add(struct ask *a, uint32_t id, struct wire *w);
bool ask_is_due(const struct ask *a); // a question is to be drawn
// Its text; with the carriage returns a raw terminal needs. ask_seen follows when the terminal has all of it.
void ask_draw(struct ask *a, struct buf *out);
void ask_seen(struct ask *a);
void ask_redraw(struct ask *a); // the terminal was somebody else's meanwhile: it is due again
// Keys from the terminal. False: they are the command's. Else *answer is there, and what to show of it is in out.
bool ask_keys(struct ask *a, const char *p, size_t n, struct ask_answer *answer, struct buf *out);
bool ask_late(struct ask *a, struct ask_answer *answer, struct buf *out); // nobody answered in time
// Question id was answered elsewhere, or nobody waits for an answer any more (why). False: it does not stand.
bool ask_gone(struct ask *a, uint32_t id, const struct ask_answer *by, struct buf *out);
void ask_drop(struct ask *a, const char *why, struct buf *out);
int ask_wait_ms(const struct ask *a);					    // until ask_late; -1 = nothing stands

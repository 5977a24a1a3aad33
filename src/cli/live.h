// SPDX-License-Identifier: Apache-2.0
// What changes in a sandbox, as it happens (base/live.h), from the cell's socket. A line that breaks is made anew (cli/line.h), and
// the records go on where they were.
//
//   live.c        the connection and its records
//   watch.c       the verb
//   watch_show.c  a change as text and as JSON
//   watch_state.c what was shown last of each file
//   watch_ask.c   -i
#pragma once
#include "base/live.h"
#include "cli/line.h"
#include "cli/review.h"

struct live {
	int fd;
	struct line line;
	uint64_t got;	// bytes of the job's output
	bool came_back; // on a line that is not the first
	struct buf in, stream; // frames of the cell, and the bytes of the job's output in them
	size_t at; // records of it are handed out up to here
	bool ended; // nothing more comes of this job; what was missed is in the journal
};
#define LIVE_CLOSED ((struct live){.fd = -1})

struct live_record {
	char type;
	uint64_t number;
	const char *body; // borrowed until live_read
	size_t n;
};

int live_open(struct live *l, const char *socket, const char *ticket, struct err *e) MUST_USE;
void live_close(struct live *l);
// 1 and the next record that is here already, 0: none yet.
int live_next(struct live *l, struct live_record *out, struct err *e) MUST_USE;
int live_read(struct live *l, struct err *e) MUST_USE; // waits for more, also for a new line; ended is set at the end
int live_wait_ms(const struct live *l);	 // of silence; then live_alive
void live_alive(struct live *l);

// watch_state.c: a file as somebody saw it last.
struct shown {
	struct shown *next;
	char what;
	bool exec, whole;
	char *p;
	size_t n;
	uint64_t size;
	char path[];
};
struct shown *shown_find(const char *path);	 // NULL: never
void shown_put(const struct live_state *s);	 // keeps a copy, within bounds

struct watch_opts {
	bool ask, json;
	const char *color;
	uint64_t from;
};

// watch_show.c: was is NULL when it was never there. from: its name before, or NULL.
bool watch_has_diff(const struct shown *was, const struct live_state *is);
void watch_diff(struct buf *out, const struct shown *was, const struct live_state *is);
void watch_text(struct buf *b, const struct shown *was, const struct live_state *is, const char *from, bool colour);
void watch_json(struct buf *b, const struct shown *was, const struct live_state *is, const char *from, uint64_t number);

// watch_ask.c: what is pending of a path is asked about, change by change. 1: enough.
int watch_ask(const struct call *c, struct api *a, const char *id, const char *repo, const char *path, struct err *e) MUST_USE;
bool watch_ask_quits(void); // a key was pressed while nothing was asked: is it q?

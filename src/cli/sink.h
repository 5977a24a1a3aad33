// SPDX-License-Identifier: Apache-2.0
// Where output goes. Writing never blocks on a pipe, socket or terminal, so that signals are forwarded
// while a pager holds us up; what is not taken at once is queued in order. The descriptor's own flags are
// never changed: other processes share them.
#pragma once
#include "base/buf.h"
#include <sys/types.h>

struct sink {
	int fd;	 // as given, borrowed; -1 = drop everything
	int own; // our own non-blocking opening of the same thing, or -1
	enum { SINK_PLAIN, SINK_NONBLOCK, SINK_SOCKET, SINK_SMALL } how;
	dev_t dev;
	ino_t ino;
	struct buf queue;
	size_t at; // bytes of the queue already written
	bool held; // nothing is written: a question stands (cli/ask.h)
	int lock;      // for cli/prompt.h; -1 = not a terminal
	bool prompted; // another process's question stands on this terminal: try again later
};

void sink_open(struct sink *s, int fd);
void sink_close(struct sink *s);					       // fd stays
int sink_put(struct sink *s, const void *p, size_t n, struct err *e) MUST_USE; // e->sys: EPIPE when the reader is gone
int sink_flush(struct sink *s, struct err *e) MUST_USE;			       // call when poll says writable
size_t sink_waiting(const struct sink *s);
int sink_poll_fd(const struct sink *s); // -1: nothing is to be written now
bool sink_is_same(const struct sink *a, const struct sink *b); // the same pipe, file or terminal

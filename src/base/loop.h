// SPDX-License-Identifier: Apache-2.0
// One epoll loop per process: descriptors and timers. Children come as pidfds, signals as signalfds.
//
// A watch or timer is embedded in its owner (container_of finds it back). Owners never die inside an
// event batch: loop_bury frees them after it, so a stale event can not reach freed memory.
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watch {
	int fd; // -1 when not in a loop
	void (*fn)(struct watch *w, uint32_t events);
	uint32_t events; // what it waits for
};

struct timer {
	uint64_t at_ms; // 0 when not set
	void (*fn)(struct timer *t);
	struct timer *next;
};

// Work for the end of a round of events, done once however often it was asked for.
struct chore {
	void (*fn)(struct chore *t);
	struct chore *next;
	bool queued;
};

struct grave;
struct loop {
	int epfd;
	bool stop, busy; // busy: inside a round of events
	struct chore *chores;
	struct timer *timers; // sorted
	struct grave *graves;
};

// events, as in epoll; here so that only this room needs its header
#define LOOP_IN 0x001u
#define LOOP_OUT 0x004u
#define LOOP_ERR 0x008u
#define LOOP_HUP 0x010u
#define LOOP_RDHUP 0x2000u

int loop_init(struct loop *l, struct err *e) MUST_USE;
void loop_done(struct loop *l);
int loop_run(struct loop *l, struct err *e) MUST_USE; // until loop_stop
void loop_stop(struct loop *l);

int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events, struct err *e) MUST_USE;
void loop_mod(struct loop *l, struct watch *w, uint32_t events);
void loop_del(struct loop *l, struct watch *w); // does not close; w->fd = -1

void timer_set(struct loop *l, struct timer *t, uint64_t in_ms); // replaces an earlier setting
void timer_clear(struct loop *l, struct timer *t);

void loop_soon(struct loop *l, struct chore *t);
void loop_forget(struct loop *l, struct chore *t);
void loop_flush(struct loop *l); // does what waits for the end of the round now; before _exit

void loop_bury(struct loop *l, void *obj, void (*free_fn)(void *obj));

int loop_pidfd(pid_t pid, struct err *e) MUST_USE;		       // readable when the process has ended
int loop_signals(const int *signals, int n, struct err *e) MUST_USE; // blocks them, returns a signalfd
int loop_signal_next(int fd);					       // 0 when none is waiting

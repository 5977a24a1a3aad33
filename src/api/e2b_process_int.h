// SPDX-License-Identifier: Apache-2.0
// The processes that envd's callers know: e2b_process.c keeps them, e2b_process_call.c does what is asked of them.
#pragma once
#include "api/e2b_envd_int.h"
#include "base/jsonw.h"

struct process;

// One whose exec has begun. config: the JSON object of its ProcessConfig, taken, as is tag (may be NULL). NULL and *e: no tap.
struct process_new {
	struct engine *g;
	struct loop *loop;
	const char *sandbox;
	const struct exec_row *exec;
	const char *ticket;
	char *config, *tag;
	bool tty, has_stdin;
	bool later; // only what it writes from now on
};
struct process *process_add(struct process_new *n, struct err *e) MUST_USE;
// It did not start: fn is told why, then it is gone.
void process_on_failed(struct process *p, void (*fn)(void *ctx, const char *why), void *ctx);

struct process *process_by_pid(const char *sandbox, uint32_t pid); // also one that ended a little while ago
struct process *process_by_tag(const char *sandbox, const char *tag); // likewise
struct process *process_by_exec(const char *exec);
void process_each(const char *sandbox, void (*each)(void *ctx, const struct process *p), void *ctx); // that have not ended
bool process_has_ended(const struct process *p);
uint32_t process_pid(const struct process *p);
bool process_is_tty(const struct process *p);
bool process_has_stdin(const struct process *p); // open, and no terminal
void process_write_info(struct jsonw *w, const struct process *p); // ProcessInfo

// The request becomes a stream of its events: start, what it writes from now on, end. binds: the deadline ends the process.
void process_subscribe(struct process *p, struct request *r, bool binds);
// done(NULL) when all of it was taken, else the reason; input: at most what one request may carry.
void process_input(struct process *p, const void *bytes, size_t n, void (*done)(void *ctx, const char *why), void *ctx);
void process_close(struct process *p); // its stdin, behind what was given
void process_resize(struct process *p, uint32_t rows, uint32_t cols);
void process_term(struct process *p);
// done when it has ended, or after a second.
void process_kill(struct process *p, void (*done)(void *ctx), void *ctx);

// e2b_process_call.c. The process that a ProcessSelector names: then is called with it, or the call is answered.
void process_with(struct envd_call *c, const json_t *selector, void (*then)(struct envd_call *c, struct process *p));
bool process_gone(struct envd_call *c, const struct process *p); // it has ended: the call was answered

void process_end_event(struct buf *b, const struct exec_result *r); // {"event":{"end":{…}}}

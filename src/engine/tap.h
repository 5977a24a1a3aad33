// SPDX-License-Identifier: Apache-2.0
// An attached client of one exec inside skepd: for callers that can not open the cell's socket themselves (HTTP, WebSocket,
// MCP, E2B). What `skep attach` is in a process of its own, a tap is in the loop.
//
// Output comes in order, without loss, as fast as the owner takes it: tap_pause makes the writer wait. Everything here is
// called from the loop; tap_close may be called from inside a callback.
#pragma once
#include "engine/engine.h"

struct tap;
struct tap_ops {
	// stream: 1 = stdout or the terminal, 2 = stderr; offset: absolute number of the first byte
	void (*data)(void *ctx, int stream, uint64_t offset, const void *p, size_t n);
	void (*gap)(void *ctx, int stream, uint64_t from, uint64_t to); // may be NULL: bytes that were not kept
	void (*room)(void *ctx, uint64_t received); // may be NULL: stdin takes bytes again; received: how many it ever took
	// Last. r NULL: no exit status, *e says why (the cell died, the ticket was refused). The tap closes itself afterwards.
	void (*end)(void *ctx, const struct err *e, const struct exec_result *r);
};
// o: as engine_exec or engine_attach gave it to their `done`. from: offsets of the first bytes wanted.
struct tap *tap_open(struct loop *l, struct engine *g, const char *sandbox, const char *ticket, const uint64_t from[2],
		     const struct tap_ops *ops, void *ctx, struct err *e) MUST_USE;
void tap_close(struct tap *t); // the exec goes on, and gets what was sent
void tap_pause(struct tap *t, bool on);

size_t tap_room(const struct tap *t); // bytes of stdin that tap_send takes now
// How many of them were taken. They go behind what came, also from others, in the order of arrival.
size_t tap_send(struct tap *t, const void *p, size_t n);
// For who counts: `at` is the number of the first one in all of stdin; those that came before are not taken twice.
size_t tap_send_at(struct tap *t, uint64_t at, const void *p, size_t n);
void tap_eof(struct tap *t); // of stdin, behind what was sent; it ends when all who wrote have said so, or left
void tap_resize(struct tap *t, uint32_t rows, uint32_t cols);
void tap_signal(struct tap *t, uint32_t signal);

// One file operation of init (init/files.h), as `user` (NULL: the sandbox's). It fails with what it said on stderr; e.sys
// has its errno. A file operation whose client goes is ended: what it had not finished is as before.
struct job {
	const char *sandbox, *user;
	char *const *argv;
	const void *input; // engine_job only
	size_t n_input;
	size_t max; // bytes of output; engine_job only
};

// From beginning to end: the input is given whole, the output gathered.
struct job_done {
	void (*fn)(void *ctx, const struct err *e, struct buf *out); // the callee may take out's bytes; NULL with an error
	void *ctx;
};
void engine_job(struct loop *l, struct engine *g, const struct job *j, struct job_done d); // copies what it needs

// In pieces. No callback is called before job_open has returned.
struct job_run;
struct job_ops {
	void (*data)(void *ctx, const void *p, size_t n);
	void (*room)(void *ctx); // may be NULL: job_send takes bytes now
	void (*end)(void *ctx, const struct err *e); // last, e NULL = it went well; then it is gone
};
struct job_run *job_open(struct loop *l, struct engine *g, const struct job *j, const struct job_ops *ops, void *ctx);
void job_close(struct job_run *r); // ends it; no callback any more. Not in `end`
void job_pause(struct job_run *r, bool on);
size_t job_send(struct job_run *r, const void *p, size_t n); // how many of them were taken
void job_eof(struct job_run *r);

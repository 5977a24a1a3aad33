// SPDX-License-Identifier: Apache-2.0
// The streams of one exec, new or under way or long over, for surfaces: begins it or attaches to it (engine/tap.h), and where
// the cell has forgotten it, gives what was kept of its output and how it ended.
#pragma once
#include "engine/tap.h"

struct feed;
struct feed_ops {
	void (*begun)(void *ctx, const char *exec); // first; its id
	void (*data)(void *ctx, int stream, uint64_t offset, const void *p, size_t n);
	void (*gap)(void *ctx, int stream, uint64_t from, uint64_t to); // bytes that were not kept
	void (*room)(void *ctx, uint64_t received);			// may be NULL: as in struct tap_ops
	void (*end)(void *ctx, const struct err *e, const struct exec_result *r); // last; r NULL: *e says why
};
// No callback is called before these have returned.
struct feed *feed_exec(struct loop *l, struct engine *g, const char *sandbox, struct exec_request *x, // empties *x
		       const struct feed_ops *ops, void *ctx);
#define FEED_END UINT64_MAX // only what comes from now on
struct feed *feed_attach(struct loop *l, struct engine *g, const char *exec, const uint64_t from[2],
			 const struct feed_ops *ops, void *ctx);
void feed_close(struct feed *f); // the exec goes on; no callback any more. Not in `end`
void feed_pause(struct feed *f, bool on);
struct tap *feed_tap(struct feed *f); // for stdin, size and signals; NULL before `begun` and when it is over

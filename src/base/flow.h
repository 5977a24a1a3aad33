// SPDX-License-Identifier: Apache-2.0
// A byte stream in the loop: who owns it sees bytes, never the descriptor. Sending never blocks; what the kernel does not
// take waits here, and the owner stops its source when FLOW_HIGH bytes do.
#pragma once
#include "base/buf.h"
#include "base/loop.h"

#define FLOW_HIGH (256u << 10)
#define FLOW_MAX (2u << 20) // bytes that may wait; past that the flow breaks

struct flow;
struct flow_ops {
	void (*data)(void *ctx, const char *p, size_t n);
	void (*drain)(void *ctx);		     // what waited has left
	// e NULL: the other side sends nothing more. Else it is broken: last of all, also after the other.
	void (*end)(void *ctx, const struct err *e);
};

struct flow *flow_new(int fd); // takes fd; silent until flow_start
int flow_start(struct flow *f, struct loop *l, const struct flow_ops *ops, void *ctx, struct err *e) MUST_USE;
void flow_pause(struct flow *f, bool on); // no data until it is off again; may be called from inside data
bool flow_send(struct flow *f, const void *p, size_t n); // false: FLOW_HIGH bytes wait, or it is broken (end tells)
size_t flow_queued(const struct flow *f);
void flow_eof(struct flow *f);	 // we send nothing more, behind what waits
void flow_close(struct flow *f); // now, NULL is fine; may be called from inside every callback
int flow_detach(struct flow *f); // the descriptor is the caller's again, the flow is gone; what waits to be sent is lost

// SPDX-License-Identifier: Apache-2.0
// A cell that is built before its sandbox is asked for. Most creates are like the one before: same place, same limits, no
// name. A slot that is told so (M_EXPECT) takes an identity that skepd has put aside, mounts it, locks itself and waits, with
// nothing left to do but to run a command. What comes (M_SPEC) is compared byte by byte with what was built; if it is
// anything else the first process goes, and another one is cloned from the mold. Kinds that have no mold (a root of its own,
// an image, sealed layers) are built ahead in a cold slot, which has namespaces and a network and gets its layer then (struct
// cell: bare). Such a slot serves one sandbox of just that kind, or none.
#pragma once
#include "base/buf.h"
#include "model/spec.h"

struct ahead {
	struct identity who; // "": nothing was built
	struct buf shape;
	struct isolation iso;
	int listener; // of the system call filter, -1 until it is built
};
#define AHEAD_NONE ((struct ahead){.listener = -1})

struct cell;
struct frame;
int ahead_expect(struct cell *c, const struct frame *f, struct err *e) MUST_USE;
int ahead_turn(struct cell *c, struct err *e) MUST_USE; // its spec is there; 1: built, or being built, for just that; 0: it is to be built
void ahead_done(struct ahead *a);

// SPDX-License-Identifier: Apache-2.0
// The nursery's molds: what cells gave back, until a slot for the same place takes it or nobody did for half a minute.
#pragma once
#include "base/chan.h"
#include "base/loop.h"

struct back;
struct mold;
struct place;

struct shelf {
	struct loop *loop;
	struct chan *skepd; // hears of each that comes back (M_BACK)
	struct back *backs;
	struct mold *molds; // newest first
	int n;
	struct timer old;
};

void shelf_init(struct shelf *s, struct loop *loop, struct chan *skepd);
int shelf_expect(struct shelf *s, int fd, struct err *e) MUST_USE; // takes fd: the slot at its other end may send its mold
bool shelf_has(const struct shelf *s, const struct place *place);
struct mold *shelf_take(struct shelf *s, const struct place *place); // NULL: there is none for it
void shelf_close_fds(struct shelf *s); // in a child that has nothing to do with it
void shelf_drop(struct shelf *s);      // all of them, before the nursery ends

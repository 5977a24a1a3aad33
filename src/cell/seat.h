// SPDX-License-Identifier: Apache-2.0
// A cell's seat: a number that no other live cell of this machine has. It stands for a range of ids (as root) and for a
// control group. Groups are kept for the next cell with that number: making and removing five directories costs half a
// millisecond, and the kernel keeps the remains of each removed memory group for as long as a page is charged to it.
#pragma once
#include "cell/nursery.h"

struct seat {
	int lock; // holds the number until closed, also by our death
	uint32_t n;
};

int seat_take(const struct nursery *n, struct seat *out, struct err *e) MUST_USE;
void seat_leave(struct seat *s);
// The seat's group, made if need be and emptied unless it is kept. UNSUPPORTED when the host has none.
int seat_group(const struct nursery *n, const struct seat *s, bool keep, struct cgroup *out, struct err *e) MUST_USE;
void seat_sweep(const struct nursery *n); // removes the groups of seats that nobody has

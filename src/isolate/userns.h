// SPDX-License-Identifier: Apache-2.0
// User namespaces and who is who in them.
//
// Started by an ordinary user, the nursery enters one base namespace in which the caller is 0 and the caller's
// subordinate ids, where there are any, are 1 and up: newuidmap runs once per daemon, and every cell is a nested
// namespace whose map is written directly. Started by root there is no base: each cell gets 65536 ids of its own
// out of a range nobody else uses, so kernel uid 0 is never mapped and no two live cells share an id.
#pragma once
#include "base/err.h"
#include "model/spec.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct userns_host {
	bool root;	     // real root in the initial namespace
	bool subids;	     // rootless with subordinate ranges
	bool groups_dropped; // no supplementary group of the caller is left
	uint32_t uid, gid;   // the caller's
	uint32_t count;	     // ids besides 0 in the base namespace
};

struct id_range {
	uint32_t inside, outside, count;
};

int userns_enter_base(struct userns_host *out, struct err *e) MUST_USE; // once, by the nursery
// What the kernel counts for a user it counts for the one who made the user's namespace, too, up to the developer. Rootless,
// all cells together get three quarters of that, in the base namespace, and one cell half of it. As root each namespace
// belongs to the cell's own first id, so that nobody else's is touched.
#define USERNS_ALL_CELLS 6u // eighths
#define USERNS_ONE_CELL 3u
int userns_limit_watches(unsigned eighths, struct err *e) MUST_USE; // of inotify, in the caller's own namespace
pid_t userns_clone(const struct userns_host *h, int flags, uint32_t first, struct err *e) MUST_USE; // as clone(2); 0 = in the child
#define USERNS_RANGES 16384u
uint32_t userns_range(uint32_t n); // as root: first id of the n-th range
// Writes the maps of a new process in its own namespace, from outside.
int userns_map(pid_t pid, const struct userns_host *h, enum profile p, uint32_t first, struct err *e) MUST_USE;
// The ids the cell's own processes run as, inside.
void userns_inside_ids(const struct userns_host *h, enum profile p, uint32_t *out_uid, uint32_t *out_gid);
// In the root profile: the cell's own number for what we see. -1: it has none.
int userns_inside(const struct userns_host *h, uint32_t first, uint32_t *id) MUST_USE;
// A namespace that only serves to map a mount's owners: id n on disk is first+n, but the owner of the
// workspace and the cell's own user change places.
int userns_for_mount(uint32_t first, uint32_t owner_uid, uint32_t owner_gid, uint32_t user, struct err *e) MUST_USE;

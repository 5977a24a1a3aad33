// SPDX-License-Identifier: Apache-2.0
// The one ordered list by which a process becomes the first process of a cell. Runs in the child, after clone
// with every namespace new. Three stages; a step that fails means the cell does not start.
//
//   prepare  nothing of any sandbox is known: loopback, namespace limits, file tree skeleton   (warm slots wait here)
//            In a slot for a place it is two: mold, everything that another cell can use again, up to the pivot; and, in
//            a process cloned from that, enter: what is each cell's own
//   build    what is missing of mounts, identity, pivot: the host's file tree is gone afterwards
//   lock     limits, ids, capabilities, Landlock, seccomp; then a self-test of what must now be impossible
#pragma once
#include "isolate/net.h"
#include "isolate/net_state.h"
#include "isolate/rootfs.h"
#include "isolate/trust.h"
#include "isolate/userns.h"

struct contain {
	const struct rootfs_host *host;
	const struct userns_host *ids;
	enum profile profile;
	bool warm;	  // the skeleton was made in prepare
	bool nested;	  // user namespaces inside stay allowed
	bool keep_tmp;	  // /tmp is of the layer
	bool left;	  // the host's file tree is gone
	bool molded;	  // cloned from a mold
	int root;	  // O_PATH of the new root
	int null_file, empty_dir;
	struct plan own; // a mold's: what each of its cells mounts, laid out once
	enum slot_has has;
	const struct cell_spec *place; // or NULL: where the sandbox that will come works
	const struct trust_host *trust;
	bool gated;		// the network has what a gate needs
	struct net_sockets net; // made in the cell's network, for the supervisor
	struct net_state state; // a mold's: its network as it was before its first cell
	int scratch; // a mold's: what /tmp, /run and /dev/shm are parts of
	int layer, base; // directories kept open for change walks; base -1 when empty
	int lowers[LIMIT_LAYERS]; // the workspace parts of sealed layers, for the same; -1: it has none
	int homes[LIMIT_LAYERS];  // their home parts, of those that are not the base's; else -1
	int n_lowers;
	uint32_t uid, gid; // inside
	int score; // pid 1's own place in the order of the OOM killer, open after lock
};

// trees: the slot's new layer and the sources of its place, as far as it has them.
int contain_prepare(struct contain *c, const int *trees, int n_trees, struct err *e) MUST_USE;
int contain_mold(struct contain *c, const int *trees, int n_trees, struct err *e) MUST_USE;
int contain_enter(struct contain *c, struct err *e) MUST_USE;
int contain_clean(const struct contain *c, struct err *e) MUST_USE; // a mold: what its last cell left in the scratch space goes
// A mold between two cells: its network is as it was made, and what the last cell looked up in its overlays is forgotten. An
// overlay never asks the directory below again about a name that was looked up once, absent ones included: the next cell would
// see the files of before.
int contain_fit(const struct contain *c, struct err *e) MUST_USE;
// trees: detached mounts for the sources, in the order of rootfs_sources.
int contain_build(struct contain *c, const struct cell_spec *s, const int *trees, int n_trees, struct err *e) MUST_USE;
int contain_lock(struct contain *c, const struct cell_spec *s, bool supervised, struct isolation *out, int *out_listener,
		 struct err *e) MUST_USE;
// The host's system files belong to nobody whom the cell knows: to change one it has to be made the cell's own (cell/owned.h).
bool contain_owns(const struct userns_host *ids, const struct cell_spec *s);
// One source as a detached mount, from outside; namespaces that map its owners, -1 rootless.
int contain_open_source(const struct source *src, int plain_ns, int owner_ns, struct err *e) MUST_USE;

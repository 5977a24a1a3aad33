// SPDX-License-Identifier: Apache-2.0
// Between repo_fetch.c (mirrors) and repo_remote.c (talking to a remote).
#pragma once
#include "workspace/gitlayer_int.h"
#include "workspace/repo.h"
#include "workspace/repo_git.h"
#include "workspace/repo_url.h"

// What came of a fetch.
struct fetched {
	char *commit, *ref; // ref: the full name, or the commit when it was asked for by that
	bool network;	    // objects or refs came over
};
// The mirror `into` has the commit that ref (NULL: the default branch) names at url now. One at a time per mirror.
int repo_mirror(const struct repo_url *u, const char *into, const char *ref, struct fetched *out,
		struct err *e) MUST_USE;
void fetched_done(struct fetched *f);
// The URL as a caller gives it; one with a password by "-" (standard input) or "@NAME" (a variable), since everybody
// can read arguments.
int repo_read_url(const char *arg, struct repo_url *u, struct err *e) MUST_USE;

// repo_remote.c: a run of git that talks to u, and what its complaints mean.
void remote_init(struct git_run *g, const struct repo_url *u, const char *dir, int lock);
int remote_failed(struct git_run *g, const struct repo_url *u, struct err *e) MUST_USE; // always -1
// The remote's branches and tags (peeled), its HEAD; and `also`, a full ref name, or NULL.
int remote_refs(const struct repo_url *u, const char *also, int lock, struct gitrefs *out, char **out_head,
		struct err *e) MUST_USE;
// "; did you mean a, b?" or "".
void remote_near(const struct gitrefs *r, const char *ref, struct buf *out);

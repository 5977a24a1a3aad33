// SPDX-License-Identifier: Apache-2.0
// Inside the engine: pulls of images (pull.c), the logins they use (pull_login.c).
#pragma once
#include "engine/image_int.h"
#include "model/imageref.h"

// Where a login comes from, in this order: the request's own, a secret of the request, Docker's configuration.
struct pull_login {
	char *user, *password, *bearer; // NULL = none; wiped
	char *hint; // why Docker's configuration gives none although it names this registry; NULL = nothing to say
};
int pull_login_find(struct engine *g, const struct pull_wish *w, const struct image_endpoint *at, struct pull_login *out, struct err *e) MUST_USE;
void pull_login_done(struct pull_login *l);

// Directories below pulls/ that no pull works in are kept so that a later pull of the same reference goes on there.
void pulls_measure(struct engine *g);			     // after one was left or removed
uint64_t pulls_bytes(const struct engine *g);		     // of those and of the pulls under way, for the disk budget
void pulls_evict(struct engine *g);			     // removes those that nobody works in
// For gc: whether pulls/NAME goes, and why. It is renamed at once, so that a pull that begins meanwhile does not lose its
// directory: out_path, owned, is what is to be removed.
const char *pulls_forgotten(struct engine *g, const char *name, bool dry_run, char **out_path);
void pulls_free(struct engine *g);

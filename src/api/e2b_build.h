// SPDX-License-Identifier: Apache-2.0
// A build under way (e2b_build.c), its steps (e2b_step.c), and those that need not run (e2b_cache.c).
#pragma once
#include "api/e2b_int.h"
#include "base/sha256.h"

struct e2b_builder;
struct e2b_step;
enum e2b_step_outcome { STEP_DONE, STEP_RUNS, STEP_FAILED };
struct e2b_step_kind {
	const char *name;
	size_t min_args;
	bool copies; // files that were uploaded
	bool costly; // worth to be kept (e2b_cache.c)
	void (*skip)(struct e2b_builder *x, const struct e2b_step *s); // what it means for later ones where it need not run; NULL = nothing
	// RUNS: done comes later.
	enum e2b_step_outcome (*run)(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				     struct err *e);
};
const struct e2b_step_kind *e2b_step_kind(const char *name); // NULL = there is none

struct e2b_step {
	const struct e2b_step_kind *kind;
	char **args; // never NULL
	char *hash;  // of the files of a COPY; NULL
	bool force;  // neither it nor what comes after is taken from the cache
	char key[SHA256_HEX]; // "" = none can be known
};

struct e2b_builder {
	struct engine *g;
	struct e2b_template *template;
	struct e2b_build *build;
	char sandbox[ID_SIZE];
	bool provisioned; // the account is there
	struct e2b_step *steps;
	size_t n_steps, at;
	size_t cached; // of them those that need not run
	char number[24];
	const char *step; // "base", a number, "finalize"
	char **env, *user, *workdir;
	int tries;
	char *ref;	      // of the image that is pulled; NULL = none
	unsigned pulled_tenths; // said of it so far
	struct create create; // of its sandbox
	char start[ID_SIZE]; // the exec of its start command; "" = none
	struct waiter *waiters;
};
void e2b_env_put(char ***env, const char *name, const char *value); // in place of an earlier one of that name
void e2b_build_say(struct e2b_builder *x, const char *level, const char *text);

// e2b_cache.c
void e2b_cache_keys(struct e2b_builder *x, const struct e2b_base *base);
const char *e2b_cache_find(struct e2b_builder *x); // the snapshot to begin with, x->cached set; NULL = none
bool e2b_cache_wants(const struct e2b_builder *x); // the step that was done last is worth keeping

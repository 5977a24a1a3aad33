// SPDX-License-Identifier: Apache-2.0
// A build under way (e2b_build.c) and its steps (e2b_step.c).
#pragma once
#include "api/e2b_int.h"

struct e2b_builder;
struct e2b_step;
enum e2b_step_outcome { STEP_DONE, STEP_RUNS, STEP_FAILED };
struct e2b_step_kind {
	const char *name;
	size_t min_args;
	// RUNS: done comes later.
	enum e2b_step_outcome (*run)(struct e2b_builder *x, const struct e2b_step *s, void (*done)(void *ctx, const struct err *e, int status),
				     struct err *e);
};
const struct e2b_step_kind *e2b_step_kind(const char *name); // NULL = there is none

struct e2b_step {
	const struct e2b_step_kind *kind;
	char **args; // never NULL
	char *hash;  // of the files of a COPY; NULL
};

struct e2b_builder {
	struct engine *g;
	struct e2b_template *template;
	struct e2b_build *build;
	char sandbox[ID_SIZE];
	bool provisioned; // the account is there
	struct e2b_step *steps;
	size_t n_steps, at;
	char number[24];
	const char *step; // "base", a number, "finalize"
	char **env, *user, *workdir;
	int tries;
	struct waiter *waiters;
};
void e2b_build_say(struct e2b_builder *x, const char *level, const char *text);

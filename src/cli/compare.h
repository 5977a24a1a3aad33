// SPDX-License-Identifier: Apache-2.0
// Sandboxes side by side: compare looks at some that exist, race makes them.
#pragma once
#include "base/json.h"
#include "cli/api.h"
#include "cli/opt.h"

// An exec that is waited for by asking.
struct job {
	char *exec; // id; NULL = none
	bool ended;
	int64_t status;
	uint64_t started, ms; // ms: of the clock that never jumps; how long
};

struct contender {
	char *id, *name;   // owned
	struct job run, test;
	char *fork;	   // where the test runs; owned
	json_t *diff;	   // owned; NULL until it was looked at
	bool has_test, passed;
};

void contender_done(struct contender *c);
const char *contender_name(const struct contender *c); // what a person calls it
// Starts argv, detached. env: K=V, may be NULL.
int job_start(struct api *a, const char *sandbox, char *const *argv, char *const *env, struct job *out, struct err *e) MUST_USE;
int job_look(struct api *a, struct job *j, struct err *e) MUST_USE; // sets ended, status, ms
void job_kill(struct api *a, const struct job *j);
void job_done(struct job *j);

int contender_look(struct api *a, struct contender *c, struct err *e) MUST_USE; // its diff
// The test runs in a fork that is thrown away: what it writes is no change of the sandbox.
int contender_test(struct api *a, struct contender *c, const char *cmd, struct err *e) MUST_USE;
int contender_tested(struct api *a, struct contender *c, struct err *e) MUST_USE; // ended: takes its result
// Its test command: `given`, else that of the project file; NULL = none. Owned.
char *contender_command(struct api *a, const struct contender *c, const char *given, struct err *e) MUST_USE;
void box_remove(struct api *a, const char *id); // whatever it holds; failure is nobody's concern

bool compare_stopped(void); // ^C was pressed
void compare_catch(void);   // from now on it is only noted
void compare_pause(void);   // a moment between two looks

// The table, and what they have in common. rank: in the order given, with a place in front.
int compare_print(struct contender *v, size_t n, bool rank);
int compare_json(struct contender *v, size_t n);

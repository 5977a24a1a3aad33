// SPDX-License-Identifier: Apache-2.0
// From what sudo was asked for to what pid 1 is: the command, and the environment it gets.
#pragma once
#include "model/spec.h"
#include "sudo/args.h"

struct sudo_account {
	const char *name, *home, *shell;
};
struct sudo_caller {
	const char *name, *shell; // shell: "" or NULL = not known
	uint32_t uid, gid;
	char *const *env;
};
// Parts of *out are owned: exec_spec_done.
void sudo_request(const struct sudo_args *a, const struct sudo_caller *by, const struct sudo_account *as, struct exec_spec *out);

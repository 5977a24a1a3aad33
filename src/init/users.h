// SPDX-License-Identifier: Apache-2.0
// Who is who in the cell, from its own /etc/passwd and /etc/group. Read by hand: the workload may have put anything in their
// place, and the C library waits for whatever it is (a pipe), reads what has no end, and asks a socket that anybody can serve.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct user {
	char *name, *home;
	uint32_t uid, gid;
};

bool users_find(const char *name, struct user *out); // false: there is none, or the file is none that can be read
bool users_find_uid(uint32_t uid, struct user *out);
void user_done(struct user *u);
char *users_group(uint32_t gid); // its name; NULL: none

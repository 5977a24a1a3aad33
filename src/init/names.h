// SPDX-License-Identifier: Apache-2.0
// The names in several directories, sorted and with the directory each came from.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct name {
	char *name;
	int level; // which directory, as the caller counts them
};

struct names {
	struct name *list;
	size_t n;
};

#define auto_names __attribute__((cleanup(names_done)))

// Stops at max names in all. -1: it can not be read (errno).
int names_read(struct names *n, int dir, int level, size_t max) __attribute__((warn_unused_result));
void names_sort(struct names *n); // by name, then by level
bool names_have(const struct names *n, const char *name); // of sorted ones
void names_done(struct names *n);

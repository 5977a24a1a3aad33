// SPDX-License-Identifier: Apache-2.0
// A hash table from strings to pointers. Keys are borrowed: whoever puts a value keeps its key until the entry is dropped.
// A zeroed one is empty.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_entry;

struct index {
	struct index_entry **slots;
	size_t n_slots, n;
	uint64_t compared; // keys that were looked at, since it was made: what a walk costs
};

void index_put(struct index *x, const char *key, void *value); // replaces
void *index_get(struct index *x, const char *key);	       // NULL: none
void index_drop(struct index *x, const char *key);
void index_done(struct index *x);

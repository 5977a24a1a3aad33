// SPDX-License-Identifier: Apache-2.0
// What an earlier walk of the layers saw, and what is different now. An entry is a path that differs from the base; a file
// counts as changed when its content or its x-bit did, not when it was only touched.
#pragma once
#include "init/stack.h"
#include <time.h>

struct known_entry {
	struct known_entry *next;
	uint64_t mark; // inode, size, times: equal = not looked into again
	uint32_t round;
	char kind; // as the walk calls it
	bool exec, hashed, sent; // sent: whoever watches has its content
	uint8_t sha[32];
	char path[];
};

struct known {
	struct known_entry **slots;
	size_t n_slots, n;
	uint32_t round;
	struct timespec since; // while what is pending from before is not known: older changes are nobody's news. Else 0
};

#define KNOWN_MAX 100000u // paths; what is beyond is told each time

struct known_entry *known_find(const struct known *s, const char *path);
struct known_entry *known_add(struct known *s, const char *path); // NULL: full
void known_drop(struct known *s, const char *path);

void known_done(struct known *k);

// One difference. kind 0: none, but it is there (asked for with .all).
struct known_event {
	char kind; // 'A' it was not there, 'M', 'D' it is no longer there
	bool base; // as the base has it again
	bool learned; // what is remembered of it changed
	bool has_before, has_after, exec;
	uint8_t before[32], after[32];
	const char *path;
	const struct stack_change *change; // NULL with base
	struct known_entry *entry;	   // NULL with base, or when there are too many
};

struct known_look {
	struct known *known;
	void (*fn)(void *ctx, const struct known_event *ev);
	void (*git)(void *ctx, const char *path); // a .git further down, where the stack tells of them; may be NULL
	void *ctx;
	char *const *hide; // globs of what is nobody's change, or NULL
	bool all;
	uint64_t hash_bytes; // how much may be read for hashes
	uint32_t hash_files;
};

// Walks what is at a path and below it ("": everything), tells what is new and remembers it. tree: there is or was a
// directory; else nothing that was known below it is looked for.
int known_walk(const struct stack *s, const char *at, bool tree, struct known_look *l, struct err *e) MUST_USE;

// SPDX-License-Identifier: Apache-2.0
// A stack of overlay layers, looked at from outside of the mount: what the upper ones change over the lower ones.
//
// Layers are directories as overlayfs leaves them with userxattr: a whiteout (character device 0:0, or an empty file marked
// user.overlay.whiteout) hides what is below; a directory marked user.overlay.opaque = y hides everything below it, as does a
// directory over something else. Only descriptors are used; no link is followed.
#pragma once
#include "base/err.h"
#include "init/names.h"
#include "model/limits.h"
#include <stdbool.h>
#include <sys/stat.h>

#define STACK_MAX (LIMIT_LAYERS + 2) // the writable one, the sealed ones, the base directory

// Borrowed directory descriptors of one part, newest first.
struct stack {
	int upper[STACK_MAX], lower[STACK_MAX];
	int n_upper, n_lower;
	bool all; // also told: a whiteout over nothing (what was below may be gone), and as 'G' a .git further down
	bool git; // also told: as 'G' a .git further down
};
void stack_add(struct stack *s, bool lower, int fd); // -1: nothing there, not added

bool stack_is_whiteout(int dir, const char *name, const struct stat *st);
bool stack_is_opaque(int dir);

// What a change is called: 'A' added, 'M' changed, 'D' gone. path ends with / for an empty directory that was added.
typedef void stack_fn(void *ctx, char kind, const char *path);

// Every change of upper over lower, in the order of names. Files that are equal do not count; nothing called .git does (it
// never reaches the host). Looks at what is in upper, and at a directory of lower only where upper replaced it.
// What can not be looked at is told as a change; -1 when nothing could be.
int stack_changes(const struct stack *s, stack_fn *fn, void *ctx, struct err *e) MUST_USE;

// The same with what lies there, for who reads or compares it. Borrowed for the call.
struct stack_change {
	char kind;
	const char *path, *name;
	const struct stat *up, *low; // NULL: nothing on that side, or it was not looked at
	int up_dir, low_dir;	     // where name is a file, a link ...; -1: it is none there
	int parent;		     // its directory in the topmost layer that has it, or -1
};
typedef void stack_change_fn(void *ctx, const struct stack_change *c);

// at: "" for everything, or a path: only what is there and below it. A path above which a directory is gone or new tells
// that one instead.
int stack_each(const struct stack *s, const char *at, stack_change_fn *fn, void *ctx, struct err *e) MUST_USE;

// One directory as one side of a stack shows it, or both together: its descriptors, newest first.
struct stack_dir {
	int fd[STACK_MAX];
	int n;
};
enum stack_side { STACK_UPPER, STACK_LOWER, STACK_BOTH };
enum stack_entry { STACK_ABSENT, STACK_FILE, STACK_DIR, STACK_OTHER };

void stack_dir_top(const struct stack *s, enum stack_side side, struct stack_dir *out); // borrowed: not to be closed
bool stack_dir_enter(const struct stack_dir *d, const char *path, struct stack_dir *out); // false: there is none
int stack_dir_open(const struct stack_dir *d, const char *name); // a regular file, or -1
enum stack_entry stack_dir_look(const struct stack_dir *d, const char *name);
int stack_dir_names(const struct stack_dir *d, struct names *out, size_t max) MUST_USE; // sorted, each once
void stack_dir_close(struct stack_dir *d);

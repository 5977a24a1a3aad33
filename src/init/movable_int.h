// SPDX-License-Identifier: Apache-2.0
// Between movable.c, which knows the order of things, and movable_meta.c, which knows what a file and a directory are.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define BAR ".skep-rename"
#define SCRATCH ".skep-rename-scratch"

struct mover {
	int top_dir;	    // where the directory is that shall be moved
	int top;	    // the hidden one beside it
	char top_name[256]; // its name
	struct link { // files with several names in a lower layer, and the name in the hidden directory that keeps each
		dev_t dev;
		ino_t ino;
	} *links;
	size_t n_links;
};

struct level { // one directory that is being replaced
	int dir, fd, hidden_fd;
	const char *name;
	char hidden[256];
	struct stat st; // as it was before we touched anything in it
	bool unlocked;
};

int move_entry(int from, const char *name, int to, const char *new, unsigned flags); // renameat2
int move_copy_up(struct mover *m, int dir, const char *name); // makes it a file of the writable layer
int move_copy_attributes(int from, int to); // of a user, and access lists
void move_forget_links(struct mover *m);
int move_unlock(struct level *l);     // entries can be moved out of it, also if its mode says read-only
int move_look_alike(const struct level *l); // the hidden one: owner, mode, attributes, times
void move_restore(const struct level *l);   // times and mode of one that stays

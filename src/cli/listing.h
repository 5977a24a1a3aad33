// SPDX-License-Identifier: Apache-2.0
// What is the same for every kind of thing: to list all of them, to remove some.
#pragma once
#include "cli/api.h"
#include "cli/opt.h"
#include "cli/out.h"

struct listing {
	const char *path;		// of the request
	const char *member;		// of its answer: the list
	const char *id;			// of each one: what -q prints
	const char *const *heads;	// of the columns; NULL-terminated
	void (*row)(struct table *t, const json_t *one);
	bool (*skip)(const json_t *one); // not shown; NULL = all are
	bool json, quiet;
};
int listing_show(const struct call *c, struct api *a, const struct listing *l); // exit status
int listing_run(const struct call *c, const struct listing *l);			// the same, on a connection of its own
int listing_remove(const struct call *c, const char *prefix); // every word is the id of one; goes on after a failure

// SPDX-License-Identifier: Apache-2.0
// Pulling one image from a registry, for the program skep-pull: blocking, one pull per process, everything that comes in
// is hostile. skepd says what to fetch and from where; nothing is read from the home but the directory that is filled.
#pragma once
#include "base/json.h"
#include "base/jsonw.h"
#include "model/imageref.h"

#define PULL_JOB_MAX (1u << 20)
#define PULL_TOGETHER 4 // layers at a time

// What skepd wants, an object on standard input: {"ref","host","prefix","https","http","user","password","bearer","ca_file",
// "have":[digests of images that are here],"room":bytes}
struct pull_job {
	struct image_ref ref;
	struct image_endpoint at;
	char *user, *password, *bearer; // NULL = none
	char *ca_file;			// NULL = the system's authorities alone
	char **have;
	uint64_t room; // bytes that the disk budget leaves; 0 = not limited
};
int pull_job_read(const char *p, size_t n, struct pull_job *out, struct err *e) MUST_USE;
void pull_job_done(struct pull_job *j);

// said is called with one line of progress now and then: {"progress":{"bytes","total","layers","layers_done"}}.
struct pull_report {
	void (*said)(void *ctx, struct buf *line);
	void *ctx;
	// Called when all that is needed of the file system is open, before anything of the network is read.
	int (*seal)(struct err *e);
};
// Fills dir (taken). Appends the result's members to w: digest (of what the reference names), have (it is here already), config.
int pull_image(const struct pull_job *j, int dir, const struct pull_report *r, struct jsonw *w, struct err *e) MUST_USE;

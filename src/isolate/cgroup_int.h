// SPDX-License-Identifier: Apache-2.0
// Between cgroup.c, cgroup_v1.c and cgroup_v2.c, and for the unit test.
#pragma once
#include "isolate/cgroup.h"

#define CGROUP_WAIT_MS 2000 // for freezing, dying and removal

struct cgroup_mount {
	char *type, *root, *point, *opts; // of one line of /proc/self/mountinfo
};

// Detection from given texts; cgroup_detect passes the kernel's.
void cgroup_detect_from(struct cgroup_host *out, const char *mountinfo, const char *self_cgroup);

int cgroup_dir(const struct cgroup *c, enum cgroup_ctl ctl);	     // -1 when absent
bool cgroup_has_word(const char *list, const char *word, const char *seps); // exact words only
// Opens name below parent, made if absent. -1 with errno when it can not be made or not be written to.
int cgroup_make_dir(int parent, const char *name);
// Value behind "key " in a flat keyed text; 0 when absent.
uint64_t cgroup_keyed(const char *text, const char *key);
// Process ids in dir's cgroup.procs; those outside our pid namespace are left out. Owned; count or -1.
ssize_t cgroup_pids(int dir, pid_t **out, struct err *e) MUST_USE;
// A growing pause for what the kernel has no event for. False when the deadline has passed.
bool cgroup_pause(uint64_t deadline_ms, unsigned *us);

void cgv1_detect(struct cgroup_host *h, const struct cgroup_mount *m);
int cgv1_limits(struct cgroup *c, const struct limits *l, struct err *e) MUST_USE;
int cgv1_freeze(struct cgroup *c, bool on, struct err *e) MUST_USE;

void cgv2_detect(struct cgroup_host *h, const struct cgroup_mount *m, const char *self_cgroup);
int cgv2_limits(struct cgroup *c, const struct limits *l, struct err *e) MUST_USE;
int cgv2_freeze(struct cgroup *c, bool on, struct err *e) MUST_USE;

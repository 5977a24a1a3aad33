// SPDX-License-Identifier: Apache-2.0
// Control groups, both versions: limits that bind all processes of a cell together, freezing, counting.
//
// Layout: one directory "skep" per hierarchy, below it one group per cell. Version 1: at the top of each hierarchy
// we see. Version 2: below our own group when that is delegated to us (its processes, ours only, then move to
// "skep-main" beside it, because a group with controllers for children may hold no process), or below the nearest
// group above that is; for root at the top.
//
// A host with version 1 controllers and an empty version 2 tree is version 1. A missing controller is a missing
// limit and is said: cgroup_describe is "supervised" unless cpu, memory and pids are all there.
#pragma once
#include "model/limits.h"
#include <sys/types.h>

enum cgroup_mode { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

enum cgroup_ctl { CG_CPU, CG_MEMORY, CG_PIDS, CG_FREEZER, CG_CPUACCT, CG_CTLS };

struct cgroup_host {
	enum cgroup_mode mode;
	int at[CG_CTLS]; // index into dirs, -1: not to be had
	int dirs[CG_CTLS], n_dirs; // the "skep" directories; several controllers may share one
	char *path; // of the first, absolute
};

// Finds and prepares what this process may use. Nothing to be had is no failure: mode is then CGROUP_NONE.
int cgroup_detect(struct cgroup_host *out, struct err *e) MUST_USE;
// The same for the place where pid, one of ours, stands.
int cgroup_detect_of(pid_t pid, struct cgroup_host *out, struct err *e) MUST_USE;
void cgroup_host_done(struct cgroup_host *h);
const char *cgroup_describe(const struct cgroup_host *h); // "cgroup-v1" | "cgroup-v2" | "supervised"
bool cgroup_can_freeze(const struct cgroup_host *h);
const char *cgroup_ctl_name(enum cgroup_ctl c);

enum cgroup_file { CG_F_MEMORY, CG_F_PIDS, CG_F_CPU, CG_F_OOM, CG_F_PIDS_HIT, CG_FILES };

struct cgroup {
	const struct cgroup_host *host; // borrowed
	char name[64];
	int dirs[CG_CTLS];   // as host->dirs
	int files[CG_FILES]; // kept open for cgroup_usage
};

struct cgroup_usage {
	uint64_t memory, pids, cpu_us; // now; cpu since the start
	uint64_t oom_kills, pids_hits; // times a limit was hit
};

// Makes the group, or opens the one of that name. UNSUPPORTED when the host has none.
int cgroup_open(const struct cgroup_host *h, const char *name, struct cgroup *out, struct err *e) MUST_USE;
void cgroup_close(struct cgroup *c); // the group stays
// Ends the group; all its processes must be dying. Waits for them at most 2 s. Closes in any case.
int cgroup_close_remove(struct cgroup *c, struct err *e) MUST_USE;

int cgroup_set_limits(struct cgroup *c, const struct limits *l, struct err *e) MUST_USE; // also later, for changes
int cgroup_attach(struct cgroup *c, pid_t pid, struct err *e) MUST_USE; // with all its threads; may take 15 ms
int cgroup_freeze(struct cgroup *c, bool on, struct err *e) MUST_USE;	 // done on return; TIMEOUT after 2 s, thawed
int cgroup_kill(struct cgroup *c, struct err *e) MUST_USE;		 // everything, also what forks meanwhile; 2 s
int cgroup_members(struct cgroup *c, uint32_t *out, struct err *e) MUST_USE; // processes, also frozen ones
int cgroup_usage(struct cgroup *c, struct cgroup_usage *out, struct err *e) MUST_USE; // what is not counted is 0
int cgroup_hits(struct cgroup *c, struct cgroup_usage *out, struct err *e) MUST_USE;  // of it only how often a limit was hit

// Kills and removes every group for which is_live says false. Other daemons share the directory: for a name
// that is not one's own is_live must say true.
void cgroup_sweep(const struct cgroup_host *h, bool (*is_live)(const char *name, void *arg), void *arg);

// SPDX-License-Identifier: Apache-2.0
// skep-cell in its first role: one small process that keeps what every cell shares (the base user namespace, a mount
// namespace with the template, the cgroup parent) and forks slots: a supervisor with a contained first process that
// waits for a spec. It knows no sandbox. Ends when skepd does; the cells do not.
#pragma once
#include "isolate/cgroup.h"
#include "isolate/rootfs.h"
#include "isolate/trust.h"
#include "isolate/userns.h"

struct nursery {
	struct userns_host ids;
	struct rootfs_host rootfs;
	struct trust_host trust;
	struct cgroup_host cgroups;
	char *skep_home;
	int run_dir, cells_dir;
	int images_dir;
};

int nursery_main(int channel); // exit status
// The template's plans, for `skep doctor --plan`.
int nursery_print_plan(void);

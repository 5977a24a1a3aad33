// SPDX-License-Identifier: Apache-2.0
// T-008, T-009, T-109: changing the view, by old and new calls, and the flags of what is mounted.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void try_mount(struct probe *p, const char *src, const char *dst, const char *type, unsigned long flags)
{
	int r = mount(src, dst, type, flags, NULL);

	judge(p, r != 0, "mount %s on %s (flags %#lx)", type ? type : src, dst, flags);
	if (r == 0)
		umount2(dst, MNT_DETACH);
}

static void mount_everything(struct probe *p)
{
	static const char *const types[] = {"tmpfs",	   "proc",    "sysfs",	"devpts",   "mqueue",  "overlay",
					    "ramfs",	   "cgroup2", "cgroup", "devtmpfs", "debugfs", "securityfs",
					    "binfmt_misc", "fuse",    "9p",	"ext4",	    "bpf",     "tracefs"};
	char dir[PATH_SIZE];

	if (!probe_escalate(p) && p->outside)
		return;
	mkdir(fmt(dir, sizeof(dir), "%s/mnt", p->scratch), 0755);
	for (size_t i = 0; i < LEN(types); i++)
		try_mount(p, "none", dir, types[i], 0);
	try_mount(p, "/", dir, NULL, MS_BIND | MS_REC);
	try_mount(p, dir, "/usr", NULL, MS_BIND);
	try_mount(p, "/proc", dir, NULL, MS_BIND);
	judge(p, mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) != 0, "made / shared");
	judge(p, mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) != 0, "remounted /usr writable");
	judge(p, mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) != 0, "remounted / writable");
	judge(p, mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL) != 0, "remounted /proc/sys writable");
	judge(p, mount("/proc", dir, NULL, MS_MOVE, NULL) != 0, "moved /proc");
	if (p->outside) // private namespace; still, nothing is taken away from the host's tree
		return;
	static const char *const off[] = {"/proc/kcore", "/proc/keys", "/proc/sys", "/dev/shm", "/etc",
					  "/tmp",	 "/proc",      "/dev/null", "/usr"};
	for (size_t i = 0; i < LEN(off); i++)
		judge(p, umount2(off[i], MNT_DETACH) != 0, "unmounted %s", off[i]);
	judge(p, syscall(SYS_pivot_root, dir, dir) != 0, "pivot_root");
}

void t008_mount(struct probe *p)
{
	in_child(p, mount_everything);
	if (!p->outside)
		must_refuse(p, "umount2", TRY(SYS_umount2, (long)"/proc", 0));
}

#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432
#define NR_FSPICK 433
#define NR_MOUNT_SETATTR 442
#define NR_OPEN_TREE_ATTR 467
#define OPEN_TREE_CLONE 1
#define AT_EMPTY 0x1000

static void mount_calls(struct probe *p)
{
	uint64_t attr[4] = {0, 1, 0, 0}; // clear read-only

	if (!probe_escalate(p) && p->outside)
		return;
	must_refuse(p, "open_tree clone", TRY(NR_OPEN_TREE, AT_FDCWD, (long)"/", OPEN_TREE_CLONE));
	must_refuse(p, "open_tree", TRY(NR_OPEN_TREE, AT_FDCWD, (long)"/", 0));
	must_refuse(p, "open_tree_attr",
		    TRY(NR_OPEN_TREE_ATTR, AT_FDCWD, (long)"/", OPEN_TREE_CLONE, (long)attr, sizeof(attr)));
	must_refuse(p, "move_mount", TRY(NR_MOVE_MOUNT, -1, (long)"", -1, (long)"", 4));
	must_refuse(p, "fsopen", TRY(NR_FSOPEN, (long)"tmpfs", 0));
	must_refuse(p, "fsopen overlay", TRY(NR_FSOPEN, (long)"overlay", 0));
	must_refuse(p, "fsconfig", TRY(NR_FSCONFIG, -1, 6));
	must_refuse(p, "fsmount", TRY(NR_FSMOUNT, -1, 0, 0));
	must_refuse(p, "fspick", TRY(NR_FSPICK, AT_FDCWD, (long)"/", 0));
	must_refuse(p, "mount_setattr", TRY(NR_MOUNT_SETATTR, -1, (long)"", AT_EMPTY, (long)attr, sizeof(attr)));
}

void t009_mount_api(struct probe *p)
{
	in_child(p, mount_calls);
}

static bool is_device_bind(const struct mount *m)
{
	static const char *const names[] = {"/dev/null",   "/dev/zero",	   "/dev/full",
					    "/dev/random", "/dev/urandom", "/dev/tty"};

	for (size_t i = 0; i < LEN(names); i++)
		if (!strcmp(m->point, names[i]))
			return true;
	// A mask is the null device laid over a file of /proc; a terminal needs its device.
	return !strncmp(m->point, "/proc/", 6) || !strcmp(m->type, "devpts") || !strcmp(m->point, "/dev");
}

static bool is_ours(const struct mount *m)
{
	static const char *const types[] = {"tmpfs", "overlay", "proc", "devpts", "mqueue", "ramfs"};

	for (size_t i = 0; i < LEN(types); i++)
		if (!strcmp(m->type, types[i]))
			return true;
	return is_device_bind(m);
}

void t109_mount_flags(struct probe *p)
{
	const struct mount *m;
	size_t n = load_mounts(&m);

	judge(p, n > 0, "no mountinfo");
	for (size_t i = 0; i < n; i++) {
		const char *at = m[i].point;
		judge(p, has_opt(m[i].opts, "nosuid"), "%s is not nosuid", at);
		judge(p, has_opt(m[i].opts, "nodev") || is_device_bind(&m[i]), "%s is not nodev", at);
		judge(p, has_opt(m[i].opts, "ro") || is_ours(&m[i]), "%s (%s) is writable", at, m[i].type);
		judge(p, !strstr(m[i].tags, "shared:") && !strstr(m[i].tags, "master:"), "%s propagates (%s)", at,
		      m[i].tags);
		if (!strcmp(at, "/proc") || !strcmp(at, "/dev/shm"))
			judge(p, has_opt(m[i].opts, "noexec"), "%s is not noexec", at);
		judge(p, strcmp(m[i].type, "sysfs") || has_opt(m[i].opts, "ro"), "sysfs is writable at %s", at);
	}
	note(p, "%zu mounts", n);
}

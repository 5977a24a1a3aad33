// SPDX-License-Identifier: Apache-2.0
// T-010, T-011, T-012, T-107: the kernel's own files: masked ones, settings, control groups.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAGIC_PROC 0x9fa0
#define MAGIC_DEVPTS 0x1cd1

static void must_be_empty(struct probe *p, const char *path)
{
	char buf[256];
	struct stat st;

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		DIR *d = opendir(path);
		int n = 0;
		while (d && readdir(d))
			n++;
		judge(p, n <= 2, "%s lists %d entries", path, n - 2);
		if (d)
			closedir(d);
		return;
	}
	ssize_t n = slurp(path, buf, sizeof(buf));
	judge(p, n <= 0, "%s can be read", path);
}

static void must_not_write(struct probe *p, const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC); // never written to: opening is proof enough
	struct stat st;

	// A mask is the null device: what is written there is nowhere.
	bool null = fd >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
	judge(p, fd < 0 || null, "%s can be opened for writing", path);
	close(fd);
}

void t010_masked(struct probe *p)
{
	static const char *const masked[] = {
		"/proc/acpi",
		"/proc/asound",
		"/proc/kcore",
		"/proc/keys",
		"/proc/key-users",
		"/proc/kmsg",
		"/proc/kallsyms",
		"/proc/latency_stats",
		"/proc/modules",
		"/proc/sched_debug",
		"/proc/scsi",
		"/proc/timer_list",
		"/proc/timer_stats",
		"/proc/interrupts",
		"/proc/config.gz",
		"/proc/slabinfo",
		"/proc/vmallocinfo",
		"/proc/iomem",
		"/proc/ioports",
		"/proc/kpagecount",
		"/proc/kpageflags",
		"/sys/firmware",
		"/sys/devices/virtual/powercap",
		"/sys/kernel/debug",
		"/sys/kernel/security",
		"/sys/kernel/tracing",
		"/sys/module",
		"/sys/class/net",
		"/dev/kmsg",
		"/dev/mem",
		"/dev/port",
	};
	static const char *const shut[] = {"/proc/sysrq-trigger", "/proc/kcore",       "/proc/kmsg",
					   "/proc/scsi/scsi",	  "/proc/mtrr",	       "/proc/irq/default_smp_affinity",
					   "/proc/bus/pci",	  "/proc/timer_stats", "/sys/kernel/uevent_helper",
					   "/sys/power/state",	  "/proc/acpi/wakeup", "/proc/driver/snd-page-alloc",
					   "/proc/fs/ext4",	  "/proc/pressure/cpu", "/proc/pressure/io",
					   "/proc/pressure/memory"};

	for (size_t i = 0; i < LEN(masked); i++)
		must_be_empty(p, masked[i]);
	for (size_t i = 0; i < LEN(shut); i++)
		must_not_write(p, shut[i]);
}

static void must_be_device(struct probe *p, const char *path, unsigned major, unsigned minor)
{
	struct stat st;

	judge(p, !lstat(path, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(major, minor),
	      "%s is not device %u:%u", path, major, minor);
}

static void look_at_masks(struct probe *p)
{
	struct stat st;
	struct statfs fs;

	judge(p, !lstat("/dev", &st) && S_ISDIR(st.st_mode), "/dev is not a directory");
	judge(p, !lstat("/proc", &st) && S_ISDIR(st.st_mode) && !statfs("/proc", &fs) && fs.f_type == MAGIC_PROC,
	      "/proc is not procfs");
	judge(p,
	      !lstat("/dev/pts", &st) && S_ISDIR(st.st_mode) && !statfs("/dev/pts", &fs) && fs.f_type == MAGIC_DEVPTS,
	      "/dev/pts is not devpts");
	judge(p, lstat("/dev/console", &st) || !S_ISLNK(st.st_mode), "/dev/console is a link");
	must_be_device(p, "/dev/null", 1, 3);
	must_be_device(p, "/dev/zero", 1, 5);
	must_be_device(p, "/dev/full", 1, 7);
	must_be_device(p, "/dev/random", 1, 8);
	must_be_device(p, "/dev/urandom", 1, 9);
	must_be_device(p, "/dev/tty", 5, 0);
	for (const char *const *l = (const char *const[]){"/dev", "/dev/shm", "/proc", "/tmp", "/etc", NULL}; *l; l++)
		judge(p, !lstat(*l, &st) && !S_ISLNK(st.st_mode), "%s is a link", *l);
	must_be_empty(p, "/proc/kallsyms");
}

// The control is a root directory as a hostile image would ship it.
static void control_masks(struct probe *p)
{
	char jail[PATH_SIZE], path[PATH_SIZE + 32];

	if (!probe_escalate(p))
		return;
	mkdir(fmt(jail, sizeof(jail), "%s/image", p->scratch), 0755);
	if (symlink("/elsewhere", fmt(path, sizeof(path), "%s/dev", jail)) && errno != EEXIST)
		return;
	if (chroot(jail))
		nocontrol(p, "no chroot in a user namespace here");
	else
		look_at_masks(p);
}

void t011_mask_real(struct probe *p)
{
	if (p->outside)
		in_child(p, control_masks);
	else
		look_at_masks(p);
}

static void sweep(struct probe *p, const char *dir, int depth)
{
	char path[PATH_SIZE];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		fmt(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type != DT_DIR)
			must_not_write(p, path);
		else if (depth > 0)
			sweep(p, path, depth - 1);
	}
	if (d)
		closedir(d);
}

static void sysctl_in_own_ns(struct probe *p)
{
	if (probe_escalate(p))
		must_not_write(p, "/proc/sys/user/max_user_namespaces");
}

void t012_sysctl(struct probe *p)
{
	static const char *const named[] = {
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hostname",
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sys/user/max_user_namespaces",
		"/proc/sys/user/max_inotify_instances",
		"/proc/sys/kernel/hotplug",
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/vm/drop_caches",
	};
	const struct mount *m = mount_at("/proc/sys");

	for (size_t i = 0; i < LEN(named); i++)
		must_not_write(p, named[i]);
	in_child(p, sysctl_in_own_ns);
	if (p->outside)
		return;
	sweep(p, "/proc/sys", 8);
	judge(p, m && !strcmp(m->point, "/proc/sys") && has_opt(m->opts, "ro"), "/proc/sys is not a read-only mount");
}

static void try_cgroup_files(struct probe *p, const char *dir)
{
	static const char *const files[] = {
		"cgroup.procs", "tasks",    "release_agent",	 "memory.max",	 "memory.limit_in_bytes",
		"cgroup.kill",	"pids.max", "notify_on_release", "devices.allow"};
	char path[PATH_SIZE + 32];

	for (size_t i = 0; i < LEN(files); i++)
		must_not_write(p, fmt(path, sizeof(path), "%s/%s", dir, files[i]));
	if (!p->outside) {
		fmt(path, sizeof(path), "%s/skep-attack", dir);
		judge(p, mkdir(path, 0755) != 0, "made cgroup %s", path);
	}
}

void t107_cgroup(struct probe *p)
{
	const struct mount *m;
	char buf[4096], *save;
	size_t n = load_mounts(&m);

	for (size_t i = 0; i < n; i++) {
		if (strncmp(m[i].type, "cgroup", 6))
			continue;
		judge(p, has_opt(m[i].opts, "ro"), "%s at %s is writable", m[i].type, m[i].point);
		try_cgroup_files(p, m[i].point);
	}
	try_cgroup_files(p, "/sys/fs/cgroup");
	if (slurp("/proc/self/cgroup", buf, sizeof(buf)) < 0)
		held(p);
	else
		for (char *l = strtok_r(buf, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
			const char *path = strrchr(l, ':');
			judge(p, path && !strcmp(path, ":/"), "/proc/self/cgroup tells %s", l);
		}
}

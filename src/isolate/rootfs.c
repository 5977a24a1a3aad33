// SPDX-License-Identifier: Apache-2.0
// The plans that need no sandbox: template and skeleton.
#include "isolate/rootfs_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What of the host's own root directory is "the system".
static const char *const system_names[] = {"usr",   "bin",    "sbin", "lib", "lib32", "lib64",
					   "libx32", "libexec", "opt",  "nix", "gnu",   NULL};

// Host facts in /etc that are nobody's business inside; what the cell needs of them is made below. A host key's comment is
// the host's name, display managers name the user, and a network's description its search domains.
#define ETC_LEFT_OUT                                                                                     \
	"passwd:passwd-:group:group-:shadow:shadow-:gshadow:gshadow-:subuid:subuid-:subgid:subgid-:"    \
	"hostname:hosts:resolv.conf:machine-id:mailname:fstab:mtab:crypttab:sudoers:sudoers.d:"         \
	"NetworkManager:netplan:network:wpa_supplicant:cron.d:exports:krb5.keytab:cloud:docker:"        \
	"wireguard:openvpn:aliases:issue.net:motd:skep:ssh:dhcp:dhcpcd.conf:resolvconf:hosts.allow:"    \
	"hosts.deny:hosts.equiv:postfix:exim4:cups:printcap:samba:nvme:lightdm:gdm:gdm3:sddm.conf:"     \
	"sddm.conf.d:systemd/network:systemd/resolved.conf:systemd/resolved.conf.d"

static const char *const proc_masked[] = {
	"proc/acpi",	  "proc/asound",      "proc/kcore",	 "proc/keys",	   "proc/key-users",  "proc/kmsg",
	"proc/kallsyms",  "proc/latency_stats", "proc/modules",	 "proc/sched_debug", "proc/scsi",	      "proc/timer_list",
	"proc/timer_stats", "proc/interrupts",  "proc/config.gz", "proc/sysrq-trigger", "proc/iomem",
	"proc/ioports", NULL,
};
static const char *const proc_readonly[] = {"proc/sys", "proc/irq", "proc/bus", "proc/fs", "proc/mtrr", "proc/pressure", NULL};

// A socket can be connected to through a read-only mount: where daemons of the host listen below its system directories
// there is nothing. (What is an overlay leads to no socket.)
static const char *const daemon_places[] = {"nix/var/nix/daemon-socket", "usr/local/var/run", NULL};

static const char *const package_lists[] = {"var/lib/dpkg", "var/lib/apt", "var/lib/rpm", NULL};

void rootfs_scan(struct rootfs_host *h, const char *template_dir)
{
	h->template = xstrdup(template_dir);
	for (const char *const *s = system_names; *s && h->n_system < ROOTFS_SYSTEM_MAX; s++) {
		auto_free char *path = xasprintf("/%s", *s);
		struct stat st;
		if (lstat(path, &st) || (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode)))
			continue;
		char link[64] = "";
		if (S_ISLNK(st.st_mode)) {
			ssize_t n = readlink(path, link, sizeof link - 1);
			if (n <= 0)
				continue;
			link[n] = 0;
		}
		int i = h->n_system++;
		if (fmt_to(h->system[i].name, sizeof h->system[i].name, "%s", *s) ||
		    fmt_to(h->system[i].link, sizeof h->system[i].link, "%s", link))
			h->n_system--;
	}
}

// System accounts stay (files of packages belong to them), people do not.
static void accounts(const char *file, bool group, struct buf *out)
{
	struct err e;
	auto_buf struct buf b = BUF_INIT(4 << 20);
	if (fs_read(AT_FDCWD, file, &b, &e))
		return; // an image without accounts: ours below are enough
	struct str rest = str_of(buf_cstr(&b)), line;
	while (str_next(&rest, '\n', &line)) {
		struct str l = line, name, pass, id;
		uint64_t n;
		if (!str_next(&l, ':', &name) || !str_next(&l, ':', &pass) || !str_next(&l, ':', &id) ||
		    str_to_u64(id, 1, 65534, &n) || (n >= 1000 && n != 65534) || str_is(name, "skep"))
			continue;
		if (group)
			buf_fmt(out, "%.*s:x:%u:\n", (int)name.n, name.p, (unsigned)n); // without its members
		else
			buf_fmt(out, "%.*s:x:%.*s:%.*s\n", (int)name.n, name.p, (int)id.n, id.p, (int)l.n, l.p);
	}
}

static void template_accounts(const struct rootfs_host *h, struct plan *p)
{
	auto_buf struct buf users = BUF_INIT(4 << 20), groups = BUF_INIT(4 << 20);
	buf_str(&users, "root:x:0:0:root:/root:/bin/sh\n");
	buf_str(&groups, "root:x:0:\n");
	buf_fmt(&users, "skep:x:%u:%u:skep:/home/skep:/bin/sh\n", h->uid, h->gid);
	buf_fmt(&groups, "skep:x:%u:\n", h->gid);
	accounts("/etc/passwd", false, &users);
	accounts("/etc/group", true, &groups);
	plan_add(p, MOUNT_FILE, NULL, "etc/passwd", buf_cstr(&users), 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/group", buf_cstr(&groups), 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/shadow", "root:*:19000:0:99999:7:::\nskep:*:19000:0:99999:7:::\n", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/subuid", "", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/subgid", "", 0);
}

// Twice: one that a package brings takes the place of the first, and could do nothing in here.
static void template_tools(const struct rootfs_host *h, struct plan *p)
{
	static const char *const dirs[] = {"tools", "tools/usr", "tools/usr/bin", "tools/usr/local", "tools/usr/local/bin", NULL};
	for (const char *const *d = dirs; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	plan_add(p, MOUNT_PROGRAM, h->sudo, "tools/usr/bin/sudo", NULL, 0);
	plan_add(p, MOUNT_PROGRAM, h->sudo, "tools/usr/local/bin/sudo", NULL, 0);
}

#define CPUS "sys/devices/system/cpu"
#define CPUS_MAX 1024
#define CACHES_MAX 16 // processors whose caches are shown

static void template_copy_file(const char *path, struct plan *p)
{
	auto_free char *from = xasprintf("/%s", path);
	auto_buf struct buf b = BUF_INIT(4096);
	struct err e;
	if (!fs_read(AT_FDCWD, from, &b, &e))
		plan_add(p, MOUNT_FILE, NULL, path, buf_cstr(&b), 0);
}

// What programs ask /sys for: how the processors are arranged, and lists of devices, of which a cell has none.
static void template_sys(struct plan *p)
{
	static const char *const dirs[] = {"sys", "sys/block", "sys/bus", "sys/class", "sys/class/block", "sys/class/net", "sys/class/tty",
					   "sys/class/thermal", "sys/class/power_supply", "sys/class/hwmon", "sys/devices/system", CPUS, NULL};
	static const char *const files[] = {CPUS "/online", CPUS "/possible", CPUS "/present", CPUS "/kernel_max", CPUS "/offline",
					    "sys/devices/system/node/online", "sys/devices/system/node/possible",
					    "sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/transparent_hugepage/hpage_pmd_size", NULL};
	static const char *const parts[] = {"topology", "cache"};
	for (const char *const *d = dirs; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	for (const char *const *f = files; *f; f++)
		template_copy_file(*f, p);
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		auto_free char *dir = xasprintf("/" CPUS "/cpu%d", cpu);
		if (access(dir, F_OK))
			break;
		plan_add(p, MOUNT_DIR, NULL, dir + 1, "755", 0);
		for (size_t i = 0; i < (cpu < CACHES_MAX ? countof(parts) : 1); i++) {
			auto_free char *from = xasprintf("%s/%s", dir, parts[i]);
			if (!access(from, F_OK))
				plan_add(p, MOUNT_COPY, from, from + 1, "power", MF_OPTIONAL);
		}
	}
}

void rootfs_template(const struct rootfs_host *h, struct plan *p)
{
	static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty", NULL};
	static const char *const links[][2] = {
		{"dev/fd", "/proc/self/fd"},	 {"dev/stdin", "/proc/self/fd/0"},	    {"dev/stdout", "/proc/self/fd/1"},
		{"dev/stderr", "/proc/self/fd/2"}, {"dev/ptmx", "pts/ptmx"},		    {"etc/hostname", "/.skep/hostname"},
		{"etc/hosts", "/.skep/hosts"},	 {"etc/resolv.conf", "/.skep/resolv.conf"}, {"etc/machine-id", "/.skep/machine-id"},
		{"etc/mtab", "/proc/self/mounts"}, {"var/tmp", "../tmp"},		    {"var/run", "../run"},
		{"var/lock", "../run/lock"},	 {NULL, NULL},
	};
	static const char *const dirs[] = {"empty",	"stage",   "root",	"dev/pts", "dev/shm", "dev/mqueue", "var/lib",
					   "var/cache", "var/log", "var/spool", "var/lib/misc", "var/lib/dpkg",
					   "var/lib/apt", "var/lib/rpm", NULL};
	for (const char *const *d = dirs; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	plan_add(p, MOUNT_COPY, "/etc", "etc", ETC_LEFT_OUT, 0);
	template_accounts(h, p);
	if (h->sudo)
		template_tools(h, p);
	template_sys(p);
	plan_add(p, MOUNT_FILE, NULL, "etc/fstab", "", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/gitconfig",
		 "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n[safe]\n\tdirectory = *\n[include]\n\tpath = /.skep/gitconfig\n", 0);
	// Login shells begin with the system's PATH; the first of their files puts that of the sandbox's commands in its place, which the
	// others may add to.
	plan_add(p, MOUNT_DIR, NULL, "etc/profile.d", "755", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/profile.d/00-skep.sh", "[ ! -r /.skep/profile ] || . /.skep/profile\n", 0);
	// Instead of the host's, whose included files ssh would refuse for their owner. Nobody is there to look at a host's
	// key: it is believed the first time, and a change of it never.
	plan_add(p, MOUNT_DIR, NULL, "etc/ssh", "755", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/ssh/ssh_config", "Host *\n\tStrictHostKeyChecking accept-new\n\tHashKnownHosts yes\n", 0);
	for (const char *const (*l)[2] = links; (*l)[0]; l++)
		plan_add(p, MOUNT_LINK, NULL, (*l)[0], (*l)[1], 0);
	for (const char *const *n = nodes; *n; n++) {
		auto_free char *src = xasprintf("/dev/%s", *n), *dst = xasprintf("dev/%s", *n);
		plan_add(p, MOUNT_NODE, src, dst, NULL, MF_WRITE | MF_DEV | MF_NOEXEC);
	}
}

#define OWN ROOTFS_SCRATCH

// One tmpfs for all that ends with the cell: each has a price, in time and more so in memory, that a directory has not.
static void skeleton_scratch(struct plan *p)
{
	static const struct {
		const char *src, *mode, *dst;
		unsigned flags;
	} parts[] = {
		{OWN "/shm", "1777", "dev/shm", MF_WRITE | MF_NOEXEC}, {OWN "/tmp", "1777", "tmp", MF_WRITE},
		{OWN "/run", "755", "run", MF_WRITE},
	};
	plan_add(p, MOUNT_TMPFS, NULL, OWN, "mode=755,size=2g,nr_inodes=400k", MF_WRITE);
	for (size_t i = 0; i < countof(parts); i++)
		plan_add(p, MOUNT_DIR, NULL, parts[i].src, parts[i].mode, 0);
	plan_add(p, MOUNT_DIR, NULL, OWN "/id", "755", 0);
	for (size_t i = 0; i < countof(parts); i++)
		plan_add(p, MOUNT_PART, parts[i].src, parts[i].dst, NULL, parts[i].flags);
	plan_add(p, MOUNT_DIR, NULL, "run/lock", "1777", 0);
}

// The whole of it is covered: nobody inside has a name for it.
static void cover_scratch(struct plan *p)
{
	plan_add(p, MOUNT_PART, OWN "/id", OWN, NULL, MF_WRITE);
}

// What belongs to the cell's own pid and ipc namespace.
void rootfs_own(struct plan *p)
{
	plan_add(p, MOUNT_PROC, NULL, "proc", NULL, 0);
	for (const char *const *m = proc_masked; *m; m++)
		plan_add(p, MOUNT_MASK, NULL, *m, NULL, 0);
	for (const char *const *r = proc_readonly; *r; r++)
		plan_add(p, MOUNT_RDONLY, NULL, *r, NULL, 0);
	// the host has 4096 terminals for everybody, and keeps but a quarter of them for itself
	plan_add(p, MOUNT_DEVPTS, NULL, "dev/pts", "newinstance,ptmxmode=0666,mode=0620,max=256", 0);
	plan_add(p, MOUNT_MQUEUE, NULL, "dev/mqueue", NULL, 0);
}

void rootfs_kernel(bool image, struct plan *p)
{
	rootfs_own(p);
	if (image) { // it has its identity in its own /etc, and no place for ours
		plan_add(p, MOUNT_TMPFS, NULL, "dev/shm", "mode=1777,size=1g,nr_inodes=100k", MF_WRITE | MF_NOEXEC);
		plan_add(p, MOUNT_TMPFS, NULL, "tmp", "mode=1777,size=1g,nr_inodes=400k", MF_WRITE);
		plan_add(p, MOUNT_TMPFS, NULL, "run", ROOTFS_RUN, MF_WRITE);
		plan_add(p, MOUNT_DIR, NULL, "run/lock", "1777", 0);
	} else {
		skeleton_scratch(p);
		cover_scratch(p);
	}
}

void rootfs_system(const struct rootfs_host *h, enum profile profile, bool image, struct plan *p)
{
	auto_free char *dev = xasprintf("%s/dev", h->template);
	if (!image) {
		auto_free char *etc = xasprintf("%s/etc", h->template), *var = xasprintf("%s/var", h->template);
		auto_free char *empty = xasprintf("%s/empty", h->template + 1); // from /
		for (int i = 0; i < h->n_system; i++) {
			auto_free char *src = xasprintf("/%s", h->system[i].name);
			if (*h->system[i].link)
				plan_add(p, MOUNT_LINK, NULL, h->system[i].name, h->system[i].link, 0);
			else if (profile == PROFILE_USER)
				plan_add(p, MOUNT_SHOW, src, h->system[i].name, empty, 0);
		}
		for (const char *const *d = daemon_places; *d && profile == PROFILE_USER; d++)
			plan_add(p, MOUNT_MASK, NULL, *d, NULL, 0);
		if (profile == PROFILE_USER) {
			plan_add(p, MOUNT_BIND, etc, "etc", NULL, 0);
			plan_add(p, MOUNT_BIND, var, "var", NULL, 0);
			for (const char *const *d = package_lists; *d; d++) {
				auto_free char *src = xasprintf("/%s", *d), *up = xasprintf("../../%s", empty);
				plan_add(p, MOUNT_SHOW, src, *d, up, MF_OPTIONAL);
			}
		}
	}
	static const char *const usual[] = {"home", "srv", "mnt", "media", NULL};
	for (const char *const *d = usual; *d && !image; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	// A new /proc may be mounted only where a whole one is seen already. In a mold the host's is gone: below that of every
	// cell lies one without processes.
	auto_free char *proc = xasprintf("%s/proc", h->template), *sys = xasprintf("%s/sys", h->template);
	if (!image)
		plan_add(p, MOUNT_BIND, sys, "sys", NULL, MF_NOEXEC);
	if (!image)
		plan_add(p, MOUNT_BIND, proc, "proc", NULL, MF_NOEXEC);
	plan_add(p, MOUNT_BIND, dev, "dev", NULL, MF_DEV);
}

void rootfs_frame(const struct rootfs_host *h, struct plan *p)
{
	static const char *const points[] = {"tmp", "run", OWN, NULL};
	rootfs_system(h, PROFILE_USER, false, p);
	for (const char *const *d = points; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	skeleton_scratch(p);
}

// With files where the cells' own will be, so that each of them leaves as much behind as it found.
void rootfs_cover(struct plan *p)
{
	struct cell_spec nobody = {.hostname = (char *)"skep"};
	cover_scratch(p);
	rootfs_identity(&nobody, OWN, p);
}

// Below what each cell mounts for itself.
static bool is_below_own(const char *path)
{
	return str_has_prefix(path, "/tmp/") || str_has_prefix(path, "/run/") || str_has_prefix(path, "/dev/");
}

bool rootfs_can_mold(const struct cell_spec *place)
{
	for (uint32_t i = 0; i < place->n_mounts; i++)
		if (is_below_own(place->mounts[i].dst))
			return false;
	return !place->hide; // judged when a cell starts, not earlier
}

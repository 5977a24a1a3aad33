// SPDX-License-Identifier: Apache-2.0
#include "isolate/rootfs.h"

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

// Host facts in /etc that are nobody's business inside; what the cell needs of them is made below.
#define ETC_LEFT_OUT                                                                                     \
	"passwd:passwd-:group:group-:shadow:shadow-:gshadow:gshadow-:subuid:subuid-:subgid:subgid-:"    \
	"hostname:hosts:resolv.conf:machine-id:mailname:fstab:mtab:crypttab:sudoers:sudoers.d:"         \
	"NetworkManager:netplan:network:wpa_supplicant:cron.d:exports:krb5.keytab:cloud:docker:"        \
	"wireguard:openvpn:aliases:issue.net:motd:skep"

static const char *const proc_masked[] = {
	"proc/acpi",	  "proc/asound",      "proc/kcore",	 "proc/keys",	   "proc/key-users",  "proc/kmsg",
	"proc/kallsyms",  "proc/latency_stats", "proc/modules",	 "proc/sched_debug", "proc/scsi",	      "proc/timer_list",
	"proc/timer_stats", "proc/interrupts",  "proc/config.gz", "proc/sysrq-trigger", "proc/iomem",
	"proc/ioports", NULL,
};
static const char *const proc_readonly[] = {"proc/sys", "proc/irq", "proc/bus", "proc/fs", "proc/mtrr", NULL};

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
	plan_add(p, MOUNT_FILE, NULL, "etc/fstab", "", 0);
	plan_add(p, MOUNT_FILE, NULL, "etc/gitconfig",
		 "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n[safe]\n\tdirectory = *\n[include]\n\tpath = /.skep/gitconfig\n", 0);
	// Instead of the host's, whose included files ssh would refuse for their owner. Nobody is there to look at a host's
	// key: it is believed the first time, and a change of it never.
	plan_add(p, MOUNT_FILE, NULL, "etc/ssh/ssh_config", "Host *\n\tStrictHostKeyChecking accept-new\n\tHashKnownHosts yes\n", 0);
	for (const char *const (*l)[2] = links; (*l)[0]; l++)
		plan_add(p, MOUNT_LINK, NULL, (*l)[0], (*l)[1], 0);
	for (const char *const *n = nodes; *n; n++) {
		auto_free char *src = xasprintf("/dev/%s", *n), *dst = xasprintf("dev/%s", *n);
		plan_add(p, MOUNT_NODE, src, dst, NULL, MF_WRITE | MF_DEV | MF_NOEXEC);
	}
}

#define RUN_OPTIONS "mode=755,size=256m,nr_inodes=100k"
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
static void skeleton_views(struct plan *p)
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

static void skeleton_kernel(bool image, struct plan *p)
{
	skeleton_views(p);
	if (image) { // it has its identity in its own /etc, and no place for ours
		plan_add(p, MOUNT_TMPFS, NULL, "dev/shm", "mode=1777,size=1g,nr_inodes=100k", MF_WRITE | MF_NOEXEC);
		plan_add(p, MOUNT_TMPFS, NULL, "tmp", "mode=1777,size=1g,nr_inodes=400k", MF_WRITE);
		plan_add(p, MOUNT_TMPFS, NULL, "run", RUN_OPTIONS, MF_WRITE);
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
		for (int i = 0; i < h->n_system; i++) {
			auto_free char *src = xasprintf("/%s", h->system[i].name);
			if (*h->system[i].link)
				plan_add(p, MOUNT_LINK, NULL, h->system[i].name, h->system[i].link, 0);
			else if (profile == PROFILE_USER)
				plan_add(p, MOUNT_BIND, src, h->system[i].name, NULL, 0);
		}
		if (profile == PROFILE_USER) {
			plan_add(p, MOUNT_BIND, etc, "etc", NULL, 0);
			plan_add(p, MOUNT_BIND, var, "var", NULL, 0);
			plan_add(p, MOUNT_BIND, "/var/lib/dpkg", "var/lib/dpkg", NULL, MF_OPTIONAL);
			plan_add(p, MOUNT_BIND, "/var/lib/apt", "var/lib/apt", NULL, MF_OPTIONAL);
			plan_add(p, MOUNT_BIND, "/var/lib/rpm", "var/lib/rpm", NULL, MF_OPTIONAL);
		}
	}
	static const char *const usual[] = {"home", "srv", "mnt", "media", NULL};
	for (const char *const *d = usual; *d && !image; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	// A new /proc may be mounted only where a whole one is seen already. In a mold the host's is gone: below that of every
	// cell lies one without processes.
	auto_free char *proc = xasprintf("%s/proc", h->template);
	if (!image)
		plan_add(p, MOUNT_BIND, proc, "proc", NULL, MF_NOEXEC);
	plan_add(p, MOUNT_BIND, dev, "dev", NULL, MF_DEV);
}

void rootfs_kernel(bool image, struct plan *p)
{
	skeleton_kernel(image, p);
}

void rootfs_frame(const struct rootfs_host *h, struct plan *p)
{
	static const char *const points[] = {"tmp", "run", OWN, NULL};
	rootfs_system(h, PROFILE_USER, false, p);
	for (const char *const *d = points; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	skeleton_scratch(p);
}

static void identity(const struct cell_spec *s, const char *dir, struct plan *p);

// With files where the cells' own will be, so that each of them leaves as much behind as it found.
void rootfs_cover(struct plan *p)
{
	struct cell_spec nobody = {.hostname = (char *)"skep"};
	cover_scratch(p);
	identity(&nobody, OWN, p);
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

void rootfs_own(struct plan *p)
{
	skeleton_views(p);
}

// --- with the spec ---

static void source_add(struct sources *s, const char *name, char *path, enum source_map map, bool host)
{
	struct source *n = &s->list[s->n];
	if (s->n >= (int)countof(s->list) || fmt_to(n->name, sizeof n->name, "%s", name))
		abort(); // the callers below are a fixed list
	n->path = path;
	n->map = map;
	n->copy_of_host = host;
	s->n++;
}

static const char *const root_package_dirs[] = {"dpkg", "apt", "rpm", NULL};

static bool is_dir(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

// A layer that a cell wrote has the cell's own ids; what skepd made (a private .git) has its maker's.
static enum source_map map_of_lower(const char *path)
{
	const char *name = strrchr(path, '/');
	auto_free char *dir = name ? xstrndup(path, (size_t)(name - path)) : NULL;
	return dir && str_has_suffix(dir, "/layers") ? SOURCE_PLAIN : SOURCE_ROOT;
}

static void place_sources(const struct cell_spec *s, struct sources *out)
{
	if (s->base)
		source_add(out, "b", xstrdup(s->base), SOURCE_OWNER, true);
	for (size_t i = 0; s->lowers && s->lowers[i] && i < LIMIT_LAYERS; i++) {
		auto_free char *name = xasprintf("k%zu", i);
		source_add(out, name, xstrdup(s->lowers[i]), map_of_lower(s->lowers[i]), false);
	}
	for (uint32_t i = 0; i < s->n_mounts && i < ROOTFS_MOUNTS_MAX; i++) {
		bool cache = s->mounts[i].cache;
		auto_free char *name = xasprintf(cache ? "c%u" : "m%u", i);
		if (*s->mounts[i].src)
			source_add(out, name, xstrdup(s->mounts[i].src), cache ? SOURCE_ROOT : SOURCE_PLAIN, true);
	}
}

bool rootfs_has_tools(const struct rootfs_host *h, const struct cell_spec *s)
{
	return h->sudo && s->profile == PROFILE_ROOT;
}

void rootfs_sources(const struct rootfs_host *h, const struct cell_spec *s, enum slot_has has, struct sources *out)
{
	*out = (struct sources){0};
	if (has < SLOT_LAYER)
		source_add(out, "l", xstrdup(s->layer), SOURCE_PLAIN, false);
	if (has < SLOT_PLACE)
		place_sources(s, out);
	if (rootfs_has_tools(h, s))
		source_add(out, ROOTFS_TOOLS, xasprintf("%s/tools", h->template), SOURCE_PLAIN, true);
	if (s->image) {
		source_add(out, "i", xstrdup(s->image), SOURCE_PLAIN, false);
		return;
	}
	if (s->profile != PROFILE_ROOT)
		return;
	for (int i = 0; i < h->n_system; i++)
		if (!*h->system[i].link)
			source_add(out, h->system[i].name, xasprintf("/%s", h->system[i].name), SOURCE_PLAIN, true);
	source_add(out, "etc", xasprintf("%s/etc", h->template), SOURCE_PLAIN, true);
	source_add(out, "var", xasprintf("%s/var", h->template), SOURCE_PLAIN, true);
	for (const char *const *d = root_package_dirs; *d; d++) {
		auto_free char *path = xasprintf("/var/lib/%s", *d);
		if (is_dir(path))
			source_add(out, *d, xstrdup(path), SOURCE_PLAIN, true);
	}
	if (h->ownership)
		source_add(out, "o", xstrdup(h->ownership), SOURCE_PLAIN, false);
}

void sources_done(struct sources *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->list[i].path);
	s->n = 0;
}

void rootfs_overlay(const struct cell_spec *s, const char *lower, const char *part, struct buf *opt)
{
	auto_free char *work = xstrdup(part);
	for (char *c = work; *c; c++)
		if (*c == '/')
			*c = '-';
	buf_str(opt, "lowerdir=");
	for (size_t i = 0; s->lowers && s->lowers[i] && i < LIMIT_LAYERS; i++)
		buf_fmt(opt, "k%zu/%s:", i, part);
	buf_fmt(opt, "%s,upperdir=l/%s,workdir=l/work/%s,userxattr,volatile,index=off,metacopy=off,xino=off", lower,
		part, work);
}

static void overlay(struct plan *p, const struct rootfs_host *h, const struct cell_spec *s, const char *dst,
		    const char *lower, const char *part)
{
	auto_buf struct buf opt = BUF_INIT(4000); // the kernel takes one page of options
	auto_free char *stage = xasprintf("%s/stage", h->template);
	rootfs_overlay(s, lower, part, &opt);
	if (opt.overflow)
		abort(); // short names: 32 layers take a fifth of it
	plan_add(p, MOUNT_OVERLAY, stage, dst, buf_cstr(&opt), MF_WRITE);
}

static void identity(const struct cell_spec *s, const char *dir, struct plan *p)
{
	auto_free char *hosts = xasprintf("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.1.1\t%s\n", s->hostname);
	auto_free char *name = xasprintf("%s\n", s->hostname), *machine = xasprintf("%s\n", s->machine_id);
	// Never empty: each cell leaves as much behind as it found.
	auto_free char *git = xasprintf("# who commits, as skep was told\n%s", s->git_user ? s->git_user : "");
	const char *files[][2] = {
		{"hostname", name},
		{"hosts", hosts},
		{"machine-id", machine},
		{"resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
		{"gitconfig", git},
	};
	// An image has a gitconfig of its own, or none.
	for (size_t i = 0; i < countof(files) - !!s->image; i++) {
		auto_free char *dst = xasprintf("%s/%s", dir, files[i][0]);
		plan_add(p, MOUNT_FILE, NULL, dst, files[i][1], strcmp(dir, OWN) ? 0 : MF_OURS);
	}
}

static void system_overlays(const struct rootfs_host *h, const struct cell_spec *s, struct plan *p)
{
	for (int i = 0; i < h->n_system; i++) {
		const char *name = h->system[i].name;
		if (*h->system[i].link)
			continue;
		auto_free char *part = xasprintf("root/%s", name);
		auto_free char *own = h->ownership ? xasprintf("o/%s:%s", name, name) : xstrdup(name);
		auto_free char *lower = h->sudo && !strcmp(name, "usr") ? xasprintf(ROOTFS_TOOLS "/usr:%s", own) : xstrdup(own);
		overlay(p, h, s, name, lower, part);
	}
	overlay(p, h, s, "etc", "etc", "root/etc");
	overlay(p, h, s, "var", "var", "root/var");
	for (const char *const *d = root_package_dirs; *d; d++) {
		auto_free char *host = xasprintf("/var/lib/%s", *d), *dst = xasprintf("var/lib/%s", *d);
		auto_free char *part = xasprintf("root/var-lib-%s", *d);
		auto_free char *lower = h->ownership ? xasprintf("o/var-lib-%s:%s", *d, *d) : xstrdup(*d);
		if (is_dir(host))
			overlay(p, h, s, dst, lower, part);
	}
}

// tmpfs counts against memory; a cell with little of it gets smaller ones.
static void small_tmpfs(const struct cell_spec *s, struct plan *p)
{
	uint64_t half = s->limits.memory / 2;
	if (!s->limits.memory || half >= (s->image ? LIMIT_TMP / 2 : LIMIT_TMP)) // which in an image is one each
		return;
	auto_free char *size = xasprintf("size=%llu,nr_inodes=100k", (unsigned long long)half);
	plan_add(p, MOUNT_RESIZE, NULL, "tmp", size, 0);
	plan_add(p, MOUNT_RESIZE, NULL, "dev/shm", size, MF_NOEXEC);
}

#define USER_HOME "/home/skep"

bool rootfs_has_caches(const struct cell_spec *s)
{
	for (uint32_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].cache)
			return true;
	return false;
}

// In root/, where the parts that are neither workspace nor home are.
char *rootfs_cache_part(const char *dst)
{
	char *part = xasprintf("root/cache%s", dst);
	for (char *c = part + strlen("root/"); *c; c++)
		if (*c == '/')
			*c = '-';
	return part;
}

static const char *home_lower(const struct cell_spec *s)
{
	return rootfs_has_caches(s) ? ROOTFS_POINTS : "../empty";
}

static void cache(const struct rootfs_host *h, const struct cell_spec *s, uint32_t i, struct plan *p)
{
	auto_free char *lower = xasprintf("c%u", i), *part = rootfs_cache_part(s->mounts[i].dst);
	overlay(p, h, s, s->mounts[i].dst + 1, lower, part);
	p->ops[p->n - 1].flags |= MF_OPTIONAL;
}

void rootfs_fresh_home(const struct rootfs_host *h, const struct cell_spec *place, struct plan *p)
{
	struct cell_spec none = {0};
	const struct cell_spec *s = place ? place : &none;
	overlay(p, h, s, &USER_HOME[1], home_lower(s), "home"); // a plain bind would tell the layer's path on the host
}

void rootfs_place(const struct rootfs_host *h, const struct cell_spec *s, struct plan *p)
{
	for (uint32_t i = 0; i < s->n_mounts && i < ROOTFS_MOUNTS_MAX; i++) {
		const struct cell_mount *m = &s->mounts[i];
		auto_free char *src = xasprintf("%s/stage/m%u", h->template, i);
		if (!*m->src)
			plan_add(p, MOUNT_MASK, NULL, m->dst + 1, NULL, 0);
		else if (m->cache)
			cache(h, s, i, p);
		else
			plan_add(p, MOUNT_BIND, src, m->dst + 1, NULL, m->writable ? MF_WRITE : 0);
	}
	const char *lower = !s->base ? "../empty" : s->hide ? ROOTFS_HIDE ":b" : "b";
	overlay(p, h, s, s->ws_path + 1, lower, "ws");
}

// A sandbox inside mounts a /proc of its own, and the kernel lets it only where a whole one is to be seen already
// (mount_too_revealing): the masks on ours are in the way. So there is a second, whole one under /run, which nobody can
// reach: what covers it is locked for everybody who could take mounts away.
// One that makes mounts itself looks under which names a file system can be seen, and a covered one is still listed: the
// whole of the cell's scratch space goes, its parts stay where they are.
static void uncover_scratch(struct plan *p)
{
	plan_add(p, MOUNT_DETACH, NULL, OWN, NULL, 0);
	plan_add(p, MOUNT_DETACH, NULL, OWN, NULL, 0);
	plan_add(p, MOUNT_TMPFS, NULL, OWN, "mode=755,size=16m,nr_inodes=64", MF_WRITE);
}

static void whole_proc(struct plan *p)
{
	plan_add(p, MOUNT_DIR, NULL, "run/proc", "755", 0);
	plan_add(p, MOUNT_PROC, NULL, "run/proc", NULL, 0);
	plan_add(p, MOUNT_TMPFS, NULL, "run", RUN_OPTIONS, MF_WRITE);
	plan_add(p, MOUNT_DIR, NULL, "run/lock", "1777", 0);
}

void rootfs_cell(const struct rootfs_host *h, const struct cell_spec *s, enum slot_has has, struct plan *p)
{
	if (s->nested && !s->image)
		uncover_scratch(p);
	if (s->nested)
		whole_proc(p);
	if (!s->image && s->profile == PROFILE_ROOT)
		system_overlays(h, s, p);
	if (s->image)
		identity(s, "etc", p);
	else
		identity(s, ".skep", p);
	small_tmpfs(s, p);
	if (has < SLOT_LAYER && s->keep_tmp)
		overlay(p, h, s, "tmp", "../empty", ROOTFS_TMP);
	if (has < SLOT_LAYER)
		overlay(p, h, s, s->home + 1, home_lower(s), "home");
	if (has < SLOT_PLACE)
		rootfs_place(h, s, p);
}

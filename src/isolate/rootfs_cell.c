// SPDX-License-Identifier: Apache-2.0
// The plan that the spec completes: where its parts come from, workspace, home, identity; system overlays with --root.
#include "isolate/rootfs_int.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

// A volume has the cells' own ids on the disk, as their layers have; what else is bound is left as the host has it.
static char mount_letter(const struct cell_mount *m)
{
	if (m->volume)
		return 'v';
	return m->cache ? 'c' : 'm';
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
		const struct cell_mount *m = &s->mounts[i];
		auto_free char *name = xasprintf("%c%u", mount_letter(m), i);
		if (*m->src)
			source_add(out, name, xstrdup(m->src), m->cache ? SOURCE_ROOT : SOURCE_PLAIN, !m->volume);
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

void rootfs_identity(const struct cell_spec *s, const char *dir, struct plan *p)
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
		plan_add(p, MOUNT_FILE, NULL, dst, files[i][1], strcmp(dir, ROOTFS_SCRATCH) ? 0 : MF_OURS);
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
		auto_free char *src = xasprintf("%s/stage/%c%u", h->template, mount_letter(m), i);
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

// One that makes mounts itself looks under which names a file system can be seen, and a covered one is still listed: the
// whole of the cell's scratch space goes, its parts stay where they are.
static void uncover_scratch(struct plan *p)
{
	plan_add(p, MOUNT_DETACH, NULL, ROOTFS_SCRATCH, NULL, 0);
	plan_add(p, MOUNT_DETACH, NULL, ROOTFS_SCRATCH, NULL, 0);
	plan_add(p, MOUNT_TMPFS, NULL, ROOTFS_SCRATCH, "mode=755,size=16m,nr_inodes=64", MF_WRITE);
}

// A sandbox inside mounts a /proc of its own, and the kernel lets it only where a whole one is to be seen already
// (mount_too_revealing): the masks on ours are in the way. So there is a second, whole one under /run, which nobody can
// reach: what covers it is locked for everybody who could take mounts away.
static void whole_proc(struct plan *p)
{
	plan_add(p, MOUNT_DIR, NULL, "run/proc", "755", 0);
	plan_add(p, MOUNT_PROC, NULL, "run/proc", NULL, 0);
	plan_add(p, MOUNT_TMPFS, NULL, "run", ROOTFS_RUN, MF_WRITE);
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
		rootfs_identity(s, "etc", p);
	else
		rootfs_identity(s, ".skep", p);
	small_tmpfs(s, p);
	if (has < SLOT_LAYER && s->keep_tmp)
		overlay(p, h, s, "tmp", "../empty", ROOTFS_TMP);
	if (has < SLOT_LAYER)
		overlay(p, h, s, s->home + 1, home_lower(s), "home");
	if (has < SLOT_PLACE)
		rootfs_place(h, s, p);
}

// SPDX-License-Identifier: Apache-2.0
#include "isolate/probe.h"

#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "isolate/landlock.h"
#include "isolate/probe_int.h"
#include "isolate/seccomp.h"
#include "model/limits.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FIRST_PID_NS "pid:[4026531836]" // a fixed number of the kernel's

enum state { OK, GAP, ABSENT };
static const char *const state_names[] = {"ok", "gap", "absent"};

struct check {
	enum state state;
	struct buf detail, fix;
};

struct probe {
	const char *home;
	char *dir; // scratch; NULL when home can not be written to
	bool root;
	struct probe_note cgroup, subids;
};

static void say(struct check *c, enum state s, const char *detail, const char *fix)
{
	c->state = s;
	buf_str(&c->detail, detail);
	if (fix)
		buf_str(&c->fix, fix);
}

// First line of a small file; "" when it is not there.
static void read_line(const char *path, struct buf *out)
{
	struct err e;
	if (fs_read(AT_FDCWD, path, out, &e))
		buf_clear(out);
	if (out->n)
		out->p[strcspn(out->p, "\n")] = 0;
}

static bool line_is(const char *path, const char *want)
{
	auto_buf struct buf b = BUF_INIT(64u << 10);
	read_line(path, &b);
	return !strcmp(buf_cstr(&b), want);
}

static void check_kernel(struct probe *p, struct check *c)
{
	struct utsname u;
	(void)p;
	uname(&u);
	struct str rest = str_of(u.release), part;
	uint64_t v[2] = {0, 0};
	for (int i = 0; i < 2 && str_next(&rest, '.', &part); i++) {
		part.n = strspn(part.p, "0123456789") < part.n ? strspn(part.p, "0123456789") : part.n;
		if (str_to_u64(part, 0, 1000, &v[i]))
			break;
	}
	uint64_t version = v[0] * 1000 + v[1];
	say(c, version < 5011 ? ABSENT : version < 5013 ? GAP : OK, u.release,
	    version < 5011 ? "Linux 5.11 or newer is needed" : version < 5013 ? "Linux 5.13 adds Landlock" : NULL);
}

// The setting that closes user namespaces to us, as far as it is known.
static void userns_fix(struct buf *fix)
{
	char self[1024] = "skep-cell";
	if (line_is("/proc/sys/user/max_user_namespaces", "0")) {
		buf_str(fix, "sudo sysctl -w user.max_user_namespaces=15000");
	} else if (line_is("/proc/sys/kernel/unprivileged_userns_clone", "0")) {
		buf_str(fix, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
	} else if (line_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")) {
		ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
		self[n > 0 ? n : 9] = 0;
		buf_fmt(fix,
			"printf 'abi <abi/4.0>,\\nprofile skep-cell %s flags=(unconfined) { userns, }\\n' | sudo tee "
			"/etc/apparmor.d/skep-cell && sudo apparmor_parser -r /etc/apparmor.d/skep-cell",
			self);
	} else if (fs_exists(AT_FDCWD, "/.dockerenv") || fs_exists(AT_FDCWD, "/run/.containerenv")) {
		buf_str(fix, "start the outer container with user namespaces allowed (its seccomp profile forbids them)");
	}
}

static void check_userns(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	if (!probe_in_child(probe_try_namespaces, p->dir, &n, &e)) {
		say(c, OK, "user, mount, pid, net, ipc, uts and cgroup namespaces were made", NULL);
		return;
	}
	say(c, ABSENT, e.msg, NULL);
	userns_fix(&c->fix);
}

static void check_apparmor(struct probe *p, struct check *c)
{
	(void)p;
	bool on = line_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
	say(c, OK, on ? "restricts user namespaces of programs without a profile (see userns)" : "no restriction", NULL);
}

static void check_overlay(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	if (!p->dir)
		say(c, ABSENT, "no scratch directory below SKEP_HOME", "make SKEP_HOME writable, and see that its disk is not full");
	else if (probe_in_child(probe_try_overlay, p->dir, &n, &e))
		say(c, ABSENT, e.msg,
		    "put SKEP_HOME on a file system that can hold overlay layers: ext4, xfs, btrfs, not another overlay");
	else
		say(c, OK, "mounted and written in a user namespace", NULL);
}

static void check_proc(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	if (!p->dir)
		say(c, ABSENT, "no scratch directory below SKEP_HOME", "make SKEP_HOME writable, and see that its disk is not full");
	else if (probe_in_child(probe_try_proc, p->dir, &n, &e))
		say(c, ABSENT, e.msg,
		    "the outer container covers parts of /proc: start it with --security-opt systempaths=unconfined");
	else
		say(c, OK, "mounted in a pid namespace", NULL);
}

static void check_seccomp(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	if (probe_in_child(probe_try_seccomp, p->dir, &n, &e))
		say(c, ABSENT, e.msg, "the kernel needs seccomp filters with user notification (Linux 5.5)");
	else
		say(c, OK, "filter loaded, a call was reported and went on", NULL);
}

static void check_landlock(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	int abi = landlock_abi();
	static const char fix[] = "boot with landlock in the lsm= list, or use a newer kernel";
	if (abi < LANDLOCK_MIN) {
		say(c, GAP, abi ? "ABI 1, not usable" : "not there or off", fix);
	} else if (probe_in_child(probe_try_landlock, p->dir, &n, &e)) {
		say(c, GAP, e.msg, fix);
	} else {
		buf_fmt(&c->detail, "ABI %d", abi);
		c->state = abi < 6 ? GAP : OK;
		if (abi < 3)
			buf_str(&c->fix, "min_isolation strict needs ABI 3 (Linux 6.2)");
		else if (abi < 6)
			buf_str(&c->fix, "Linux 6.12 adds scopes for signals and abstract sockets");
	}
}

static void check_cgroup(struct probe *p, struct check *c)
{
	struct err e;
	if (probe_in_child(probe_try_cgroup, p->dir, &p->cgroup, &e))
		say(c, GAP, e.msg, NULL);
	else if (str_has_prefix(p->cgroup.text, "cgroup-"))
		say(c, OK, p->cgroup.text, NULL);
	else
		say(c, GAP, p->cgroup.text,
		    p->root ? "limits are watched, not enforced: mount the cpu, memory and pids controllers"
			    : "limits are watched, not enforced: run skepd as a user service of systemd (Delegate=yes, cgroup v2)");
}

// Name of our user in /etc/passwd, or the number. Read here: no name service in this program.
static void user_name(struct buf *out)
{
	auto_buf struct buf b = BUF_INIT(4u << 20);
	struct err e;
	struct str rest, line, name, field;
	uint64_t id;
	if (!fs_read(AT_FDCWD, "/etc/passwd", &b, &e)) {
		rest = str_of(buf_cstr(&b));
		while (str_next(&rest, '\n', &line))
			if (str_next(&line, ':', &name) && str_next(&line, ':', &field) && str_next(&line, ':', &field) &&
			    !str_to_u64(field, 0, UINT32_MAX, &id) && id == getuid()) {
				buf_add(out, name.p, name.n);
				return;
			}
	}
	buf_fmt(out, "%u", getuid());
}

// First id behind every range given away in file, and at least from.
static uint64_t free_after(const char *file, uint64_t from)
{
	auto_buf struct buf b = BUF_INIT(4u << 20);
	struct err e;
	struct str line, field;
	if (fs_read(AT_FDCWD, file, &b, &e))
		return from;
	struct str rest = str_of(buf_cstr(&b));
	while (str_next(&rest, '\n', &line)) {
		uint64_t first, count;
		if (str_next(&line, ':', &field) && str_next(&line, ':', &field) &&
		    !str_to_u64(field, 0, UINT32_MAX, &first) && !str_to_u64(line, 0, UINT32_MAX, &count) &&
		    first + count > from)
			from = first + count;
	}
	return from;
}

static void subids_fix(struct buf *fix)
{
	auto_buf struct buf name = BUF_INIT(256);
	user_name(&name);
	uint64_t first = free_after("/etc/subgid", free_after("/etc/subuid", 100000));
	if (!fs_exists(AT_FDCWD, "/usr/bin/newuidmap"))
		buf_str(fix, "install newuidmap (package uidmap)");
	if (geteuid())
		buf_fmt(fix, "%ssudo usermod --add-subuids %llu-%llu --add-subgids %llu-%llu %s", fix->n ? "; " : "",
			(unsigned long long)first, (unsigned long long)first + 65535, (unsigned long long)first,
			(unsigned long long)first + 65535, buf_cstr(&name));
}

static void check_subids(struct probe *p, struct check *c)
{
	struct err e;
	if (p->root) {
		say(c, OK, "not needed: root gives every cell a range of its own", NULL);
		return;
	}
	bool failed = probe_in_child(probe_try_subids, p->dir, &p->subids, &e);
	if (!failed && strcmp(p->subids.text, "none")) {
		buf_fmt(&c->detail, "%s ids mapped by newuidmap", p->subids.text);
		return;
	}
	if (failed)
		p->subids = (struct probe_note){"none"};
	say(c, GAP, failed ? e.msg : "no range: --root and other users inside are not to be had", NULL);
	subids_fix(&c->fix);
}

static void check_idmap(struct probe *p, struct check *c)
{
	struct probe_note n;
	struct err e;
	if (!p->root)
		say(c, OK, "not needed: only root gives cells other ids than the files have", NULL);
	else if (!p->dir || probe_in_child(probe_try_idmap, p->dir, &n, &e))
		say(c, ABSENT, p->dir ? e.msg : "no scratch directory below SKEP_HOME",
		    "Linux 5.12 and ext4, xfs or btrfs below SKEP_HOME; or run skep as an ordinary user");
	else
		say(c, OK, "mount of SKEP_HOME mapped to another range", NULL);
}

static void check_container(struct probe *p, struct check *c)
{
	static const char *const hints[] = {"docker", "kubepods", "containerd", "libpod", "lxc"};
	auto_buf struct buf b = BUF_INIT(64u << 10);
	struct err e;
	(void)p;
	if (fs_read(AT_FDCWD, "/proc/1/cgroup", &b, &e))
		buf_clear(&b);
	bool hint = fs_exists(AT_FDCWD, "/.dockerenv") || fs_exists(AT_FDCWD, "/run/.containerenv");
	for (size_t i = 0; i < countof(hints); i++)
		hint = hint || strstr(buf_cstr(&b), hints[i]);
	// virtual machines made from container images carry the same marks, but are at home in the first pid namespace
	char ns[64] = {0};
	bool first = readlink("/proc/self/ns/pid", ns, sizeof ns - 1) > 0 && !strcmp(ns, FIRST_PID_NS);
	bool in = hint && !first;
	say(c, in ? GAP : OK, in ? "inside a container: cells are nested in it" : "not inside a container", NULL);
}

static void check_disk(struct probe *p, struct check *c)
{
	struct statvfs v;
	if (statvfs(p->home, &v)) {
		say(c, ABSENT, "SKEP_HOME is not there", "make SKEP_HOME writable, and see that its disk is not full");
		return;
	}
	uint64_t bytes = (uint64_t)v.f_bavail * v.f_frsize;
	buf_fmt(&c->detail, "%llu MiB and %llu files free in SKEP_HOME", (unsigned long long)(bytes >> 20),
		(unsigned long long)v.f_favail);
	c->state = bytes < LIMIT_HOST_RESERVE ? ABSENT : bytes < LIMIT_HOST_RESERVE * 4 ? GAP : OK;
	if (c->state != OK)
		buf_str(&c->fix, "free some space, or run skep gc");
}

static const struct {
	const char *name;
	void (*fn)(struct probe *p, struct check *c);
} checks[] = {
	{"kernel", check_kernel},     {"userns", check_userns},	  {"apparmor", check_apparmor},
	{"overlay", check_overlay},   {"proc", check_proc},	  {"seccomp", check_seccomp},
	{"landlock", check_landlock}, {"cgroup", check_cgroup},	  {"subids", check_subids},
	{"idmap", check_idmap},	      {"container", check_container}, {"disk", check_disk},
};

static void run_check(struct probe *p, size_t i, struct jsonw *w)
{
	struct check c = {.detail = BUF_INIT(2048), .fix = BUF_INIT(2048)};
	checks[i].fn(p, &c);
	jw_open(w, '{');
	jw_kstr(w, "name", checks[i].name);
	jw_kstr(w, "state", state_names[c.state]);
	jw_kstr(w, "detail", buf_cstr(&c.detail));
	jw_kstr(w, "fix", c.fix.n ? buf_cstr(&c.fix) : NULL);
	jw_close(w, '}');
	buf_done(&c.detail);
	buf_done(&c.fix);
}

// What a cell of the default profile would be made of.
static void write_in_force(const struct probe *p, struct jsonw *w)
{
	char limits[sizeof p->cgroup.text];
	bool cgroups = str_has_prefix(p->cgroup.text, "cgroup-");
	memcpy(limits, p->cgroup.text, sizeof limits);
	limits[strcspn(limits, " ")] = 0;
	int abi = landlock_abi();
	jw_key(w, "in_force");
	jw_open(w, '{');
	jw_kstr(w, "backend", "native");
	jw_kstr(w, "userns", p->root ? "own range" : strcmp(p->subids.text, "none") ? "caller+subuids" : "caller");
	jw_kstr(w, "limits", cgroups ? limits : "supervised");
	jw_kstr(w, "disk", "supervised");
	jw_kstr(w, "freeze", strstr(p->cgroup.text, "freeze:cgroup") ? "cgroup" : "signals");
	jw_kstr(w, "network", "closed");
	jw_ku64(w, "landlock", abi < LANDLOCK_MIN ? 0 : (uint64_t)abi);
	jw_ku64(w, "seccomp_allowed", seccomp_allowed_count(&(struct seccomp_opts){.trace = true}));
	jw_close(w, '}');
}

static int fill_scratch(const char *dir, struct err *e)
{
	static const char *const parts[] = {"l", "u", "w", "m"};
	auto_fd int fd = fs_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, e);
	if (fd < 0)
		return -1;
	for (size_t i = 0; i < countof(parts); i++)
		if (fs_mkdirs(fd, parts[i], 0700, e))
			return -1;
	return fs_write(fd, "l/lower", "as it was", 9, 0600, e);
}

static char *make_scratch(const char *home)
{
	struct err e;
	auto_free char *dir = xasprintf("%s/probe-XXXXXX", home);
	if (fs_mkdirs(AT_FDCWD, home, 0700, &e) || !mkdtemp(dir))
		return NULL;
	if (!fill_scratch(dir, &e))
		return take(&dir);
	(void)!fs_remove_tree(AT_FDCWD, dir, &e);
	return NULL;
}

int probe_run(const char *home, struct buf *json, struct err *e)
{
	struct jsonw w = {.b = json};
	struct probe p = {.home = home, .root = !geteuid(), .dir = make_scratch(home)};
	jw_open(&w, '{');
	jw_key(&w, "checks");
	jw_open(&w, '[');
	for (size_t i = 0; i < countof(checks); i++)
		run_check(&p, i, &w);
	jw_close(&w, ']');
	write_in_force(&p, &w);
	jw_close(&w, '}');
	int rc = 0;
	if (p.dir && fs_remove_tree(AT_FDCWD, p.dir, e))
		rc = err_wrap(e, "remove %s", p.dir);
	mem_free_ptr(&p.dir);
	return json->overflow ? err_set(e, ERR_LIMIT, "the report does not fit") : rc;
}

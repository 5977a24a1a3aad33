// SPDX-License-Identifier: Apache-2.0
#include "isolate/contain_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "isolate/caps.h"
#include "isolate/landlock.h"
#include "isolate/net.h"
#include "isolate/rlimits.h"
#include "isolate/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// --- single steps ---

// Kernel objects are counted per user as well as per namespace: rootless, an agent must not use up what the
// developer's own session needs.
static int limit_namespace(const struct contain *c, struct err *e)
{
	// One that is held open by a descriptor costs no process; those of the network take the host long to clear away.
	static const char *const kinds[] = {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"};
	for (size_t i = 0; i < (c->nested ? countof(kinds) : 1); i++) {
		auto_free char *path = xasprintf("/proc/sys/user/max_%s_namespaces", kinds[i]);
		if (fs_put(AT_FDCWD, path, c->nested ? "256" : "0", e))
			return -1;
	}
	return userns_limit_watches(USERNS_ONE_CELL, e);
}

// The template's null device: checked to be one when the template was made, and mounted without set-user-id already.
static int open_mask_sources(struct contain *c, struct err *e)
{
	struct stat st;
	auto_free char *empty = xasprintf("%s/empty", c->host->template), *null = xasprintf("%s/dev/null", c->host->template);
	c->null_file = fs_open(AT_FDCWD, null, O_PATH, 0, e);
	if (c->null_file < 0)
		return -1;
	if (fstat(c->null_file, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return err_set(e, ERR_DENIED, "/dev/null is not the null device");
	c->empty_dir = fs_open(AT_FDCWD, empty, O_PATH | O_DIRECTORY, 0, e);
	return c->empty_dir < 0 ? -1 : 0;
}

static int tmpfs_on(const char *dir, const char *name, struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_fd int fd = fs_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, e);
	if (fd < 0 || mount_tmpfs_at(fd, "mode=755,size=16m,nr_inodes=10k", e))
		return -1;
	return fs_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, e); // what is now on top
}

static int apply(const struct contain *c, struct plan *p, struct err *e)
{
	struct mount_env env = {c->root, c->null_file, c->empty_dir, false};
	int rc = plan_apply(p, &env, e);
	plan_done(p);
	return rc;
}

// Masks are made of the new root's own null device, which is read-only there.
static int apply_skeleton(struct contain *c, bool image, struct err *e)
{
	struct plan p = {0};
	rootfs_system(c->host, c->profile, image, &p);
	if (apply(c, &p, e))
		return -1;
	close_fd(&c->null_file);
	c->null_file = fs_open(c->root, "dev/null", O_PATH | O_NOFOLLOW, 0, e);
	rootfs_kernel(image, &p);
	return c->null_file < 0 ? -1 : apply(c, &p, e);
}

static int attach_at_stage(const struct contain *c, int tree, const char *name, struct err *e)
{
	struct stat st;
	auto_free char *path = xasprintf("%s/stage", c->host->template);
	auto_fd int stage = fs_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, e);
	if (stage < 0)
		return -1;
	if (fstat(tree, &st))
		return err_sys(e, "%s", name);
	auto_fd int at = mount_target(stage, name, S_ISDIR(st.st_mode), e);
	return at < 0 ? -1 : mount_move(tree, at, e);
}

// --- sources ---

int contain_open_source(const struct source *src, int plain_ns, int owner_ns, struct err *e)
{
	bool tool = src->name[0] == 'm';
	auto_fd int tree = mount_clone(AT_FDCWD, src->path, tool, e);
	if (tree < 0 && e->sys == EINVAL) // something else is mounted below, and locked there
		return err_set(e, ERR_UNSUPPORTED,
			       "%s has other file systems mounted below it; unmount them or choose another directory", src->path);
	if (tree < 0)
		return -1;
	int ns = src->map == SOURCE_PLAIN ? plain_ns : owner_ns;
	if (ns >= 0 && !tool && mount_idmap(tree, ns, e))
		return err_wrap(e, "%s", src->path);
	return take_fd(&tree);
}

static int attach_sources(const struct contain *c, const struct sources *src, const int *trees, int n, struct err *e)
{
	if (n != src->n)
		return err_set(e, ERR_BUG, "%d mounts came for %d sources", n, src->n);
	for (int i = 0; i < n; i++)
		if (attach_at_stage(c, trees[i], src->list[i].name, e))
			return err_wrap(e, "%s", src->list[i].path);
	return 0;
}

// --- prepare ---

// From here on nothing of the host has a name.
static int leave_host(struct contain *c, struct err *e)
{
	if (mount_pivot(c->root, e))
		return -1;
	close_fd(&c->root);
	close_fd(&c->null_file);
	close_fd(&c->empty_dir);
	c->left = true;
	c->root = fs_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, e);
	return c->root < 0 ? -1 : 0;
}

static int attach_place(const struct contain *c, const int *trees, int n, struct err *e)
{
	struct sources src;
	rootfs_sources(c->host, c->place, SLOT_LAYER, &src);
	int rc = attach_sources(c, &src, trees, n, e);
	sources_done(&src);
	return rc;
}

static int prepare_place(struct contain *c, struct err *e)
{
	struct plan p = {0};
	if (contain_open_base(c, c->place, e) || contain_hide_base(c, c->place, e) || contain_own_top(c, e) || contain_ready_caches(c, c->place, e))
		return -1;
	rootfs_place(c->host, c->place, &p);
	if (apply(c, &p, e))
		return -1;
	c->has = SLOT_PLACE;
	return leave_host(c, e);
}

static int prepare_layer(struct contain *c, const int *trees, int n, struct err *e)
{
	struct plan p = {0};
	if (attach_at_stage(c, trees[0], "l", e))
		return err_wrap(e, "new layer");
	c->layer = contain_staged(c, "l", e);
	if (c->layer < 0 || (c->place && attach_place(c, trees + 1, n - 1, e)))
		return -1;
	if (c->place && contain_make_points(c, c->place, e))
		return -1;
	rootfs_fresh_home(c->host, c->place, &p);
	if (apply(c, &p, e))
		return -1;
	c->has = SLOT_LAYER;
	return c->place ? prepare_place(c, e) : 0;
}

static int make_own(const struct contain *c, struct err *e)
{
	umask(022);
	// As root the process is still the host's uid 0, which is nobody in here: become the cell's own 0 before
	// anything is created. Rootless the map has made us the right one already.
	if (c->ids->root && (setgroups(0, NULL) || setresgid(0, 0, 0) || setresuid(0, 0, 0)))
		return err_sys(e, "take the cell's own ids");
	if (unshare(CLONE_NEWCGROUP)) // after the cgroup was attached, so that its path reads "/"
		return err_sys(e, "new cgroup namespace");
	return 0;
}

static int open_root(struct contain *c, struct err *e)
{
	auto_fd int stage = tmpfs_on(c->host->template, "stage", e);
	if (stage < 0)
		return -1;
	c->root = tmpfs_on(c->host->template, "root", e);
	return c->root < 0 ? -1 : 0;
}

// A kernel that can not do what the gate needs leaves the cell with a network that is closed as before.
static int open_network(struct contain *c, struct err *e)
{
	c->net = NET_SOCKETS_NONE;
	c->gated = !net_setup(&c->net, e);
	return !c->gated && (e->kind != ERR_UNSUPPORTED || net_lo_up(e)) ? -1 : 0;
}

int contain_prepare(struct contain *c, const int *trees, int n_trees, struct err *e)
{
	if (make_own(c, e))
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL); // a change of ids clears it: set again in lock
	if ((c->warm && limit_namespace(c, e)) || open_network(c, e) || open_mask_sources(c, e) || open_root(c, e))
		return -1;
	if (c->warm && apply_skeleton(c, false, e))
		return -1;
	return n_trees ? prepare_layer(c, trees, n_trees, e) : 0;
}

int contain_mold(struct contain *c, const int *trees, int n_trees, struct err *e)
{
	struct plan p = {0};
	c->molded = true;
	struct err none;
	if (make_own(c, e) || limit_namespace(c, e) || open_network(c, e) || contain_test_namespaces(c, false, e) || open_mask_sources(c, e) ||
	    open_root(c, e))
		return -1;
	if (net_state_open(&c->state, &none)) // where that is not to be had, it serves one cell
		net_state_done(&c->state);
	rootfs_frame(c->host, &p);
	if (apply(c, &p, e) || (c->scratch = fs_open(c->root, ROOTFS_SCRATCH, O_PATH | O_DIRECTORY, 0, e)) < 0)
		return -1;
	rootfs_cover(&p);
	if (apply(c, &p, e) || prepare_layer(c, trees, n_trees, e) || mount_seal(c->root, e) || caps_drop_bounding(0, e))
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0))
		return err_sys(e, "protect the mold");
	close_fd(&c->root);
	rootfs_own(&c->own);
	return 0;
}

// The root is the mold's, sealed: nothing but our code has run here.
int contain_enter(struct contain *c, struct err *e)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	c->root = fs_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, e);
	struct mount_env env = {c->root, -1, -1, true};
	return c->root < 0 || plan_apply(&c->own, &env, e) ? -1 : 0;
}

// --- build ---

// An image is the root itself: one overlay, under everything else. The root profile on the host's system has one too,
// over nothing, so that what it makes in / and /home stays.
static int mount_root_overlay(struct contain *c, const struct cell_spec *s, struct err *e)
{
	auto_buf struct buf opt = BUF_INIT(4000);
	auto_free char *stage = xasprintf("%s/stage", c->host->template), *root = xasprintf("%s/root", c->host->template);
	struct plan p = {0};
	rootfs_overlay(s, !s->image ? "../empty" : rootfs_has_tools(c->host, s) ? ROOTFS_TOOLS ":i" : "i", "root/top", &opt);
	if (contain_ready_part(c->layer, "root/top", e))
		return -1;
	plan_add(&p, MOUNT_OVERLAY, stage, "", buf_cstr(&opt), MF_WRITE);
	if (apply(c, &p, e))
		return -1;
	close_fd(&c->root);
	c->root = fs_open(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0, e);
	return c->root < 0 ? -1 : 0;
}

// What the slot did not bring.
static int build_mounts(struct contain *c, const struct cell_spec *s, const int *trees, int n_trees, struct err *e)
{
	struct sources src;
	rootfs_sources(c->host, s, c->has, &src);
	int rc = attach_sources(c, &src, trees, n_trees, e);
	sources_done(&src);
	if (rc || (c->has < SLOT_LAYER && (c->layer = contain_staged(c, "l", e)) < 0))
		return -1;
	if (c->has < SLOT_PLACE && (contain_open_base(c, s, e) || contain_hide_base(c, s, e)))
		return -1;
	if ((s->image || s->profile == PROFILE_ROOT) && mount_root_overlay(c, s, e))
		return -1;
	return c->warm ? 0 : apply_skeleton(c, s->image, e);
}

// The certificate of the sandbox's own authority where every tool finds it, and placeholders shown as files.
static int show_net(const struct contain *c, const struct cell_spec *s, struct err *e)
{
	struct plan p = {0};
	for (char **f = s->net.files; f && *f; f++) {
		const char *value = strchr(*f, '=');
		auto_free char *dst = value ? xasprintf("run/secrets/%.*s", (int)(value - *f), *f) : NULL;
		if (dst)
			plan_add(&p, MOUNT_FILE, NULL, dst, value + 1, 0);
	}
	if (s->net.ca_cert && *s->net.ca_cert) {
		auto_free char *root = xasprintf("%s/root", c->host->template);
		if (trust_write(c->trust, s->net.ca_cert, c->root, e)) {
			plan_done(&p);
			return err_wrap(e, "certificate");
		}
		if (!s->image && s->profile == PROFILE_USER)
			trust_cover(c->trust, c->left ? "" : root, &p);
	}
	return apply(c, &p, e);
}

static int seal(struct contain *c, bool image, struct err *e)
{
	auto_fd int identity = image ? -1 : fs_open(AT_FDCWD, "/.skep", O_PATH | O_DIRECTORY, 0, e);
	if (!image && (identity < 0 || mount_seal(identity, e)))
		return -1;
	return !c->molded && mount_seal(c->root, e) ? -1 : 0; // a mold's is sealed
}

int contain_build(struct contain *c, const struct cell_spec *s, const int *trees, int n_trees, struct err *e)
{
	struct plan p = {0};
	if (c->has == SLOT_LAYER && s->lowers && s->lowers[0]) // its home is mounted without them
		return err_set(e, ERR_UNAVAILABLE, "a slot made for no place was given a sandbox with sealed layers");
	c->nested = s->nested;
	c->keep_tmp = s->keep_tmp;
	if ((!c->warm && limit_namespace(c, e)) || (!c->left && build_mounts(c, s, trees, n_trees, e)))
		return -1;
	if (c->has == SLOT_LAYER && rootfs_has_caches(s))
		return err_set(e, ERR_BUG, "a slot whose home is made was given package caches");
	rootfs_cell(c->host, s, c->has, &p);
	if ((c->has < SLOT_LAYER && (contain_ready_layer(c, &p, e) || contain_make_points(c, s, e) || contain_ready_caches(c, s, e))) ||
	    (c->has < SLOT_PLACE && contain_own_top(c, e))) {
		plan_done(&p);
		return -1;
	}
	if (apply(c, &p, e))
		return -1;
	if (show_net(c, s, e))
		return -1;
	if (sethostname(s->hostname, strlen(s->hostname)))
		return err_sys(e, "set the host name");
	if (!c->left && leave_host(c, e))
		return -1;
	int rc = s->profile == PROFILE_ROOT ? 0 : seal(c, s->image, e);
	close_fd(&c->root);
	return rc;
}

// --- lock ---

// A process that is not dumpable may not even write to its own files of /proc, unless it holds them open. Nobody else is in
// the cell yet who could make use of the moment.
static int open_score(struct contain *c, struct err *e)
{
	if (prctl(PR_SET_DUMPABLE, 1))
		return err_sys(e, "open pid 1's memory score");
	c->score = fs_open(AT_FDCWD, "/proc/self/oom_score_adj", O_RDWR, 0, e);
	return c->score < 0 ? -1 : 0;
}

bool contain_owns(const struct userns_host *ids, const struct cell_spec *s)
{
	return s->profile == PROFILE_ROOT && !ids->root && !s->image;
}

int contain_lock(struct contain *c, const struct cell_spec *s, bool supervised, struct isolation *out, int *out_listener,
		 struct err *e)
{
	uint64_t keep = s->profile == PROFILE_ROOT ? CAPS_ROOT_PROFILE : 0;
	if (s->nested && keep)
		keep |= CAPS_NESTED_ROOT;
	struct seccomp_opts filter = {.root = s->profile == PROFILE_ROOT, .trace = !s->trace_off, .nested = s->nested, .owns = contain_owns(c->ids, s)};
	int abi = landlock_abi();
	if (s->strict && abi < 3)
		return err_set(e, ERR_DENIED, "min_isolation strict needs Landlock ABI 3, this kernel has %d", abi);
	if (rlimits_apply(&s->limits, supervised, e))
		return -1;
	// Capabilities must survive the change of ids: they are dropped by name right after it. (The root profile
	// changes no ids, and keeps the ordinary rule that a change of ids costs capabilities.)
	if (s->profile == PROFILE_USER && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0))
		return err_sys(e, "set securebits");
	if (setresgid(c->gid, c->gid, c->gid) || setresuid(c->uid, c->uid, c->uid))
		return err_sys(e, "become the cell's user");
	// the bounding set went with the mold; whether it really did is asked in the self-test
	if ((c->molded ? caps_drop_own(keep, e) : caps_drop_all(keep, e)) || caps_no_new_privs(e))
		return -1;
	if (open_score(c, e))
		return -1;
	// A mold that goes must not take the cell along; then the end of the channel alone tells of the supervisor's.
	bool alone = c->molded && !s->remove_if_clean;
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_PDEATHSIG, alone ? 0 : SIGKILL))
		return err_sys(e, "protect pid 1");
	if (abi >= 2 && contain_landlock(c, s, abi, e)) // needs no_new_privs
		return -1;
	if (contain_test_settings(e))
		return -1;
	if (seccomp_load(&filter, out_listener, e)) // last: nothing above would pass it
		return -1;
	if (contain_test_self(keep, e) || (!c->molded && contain_test_namespaces(c, s->nested, e)))
		return -1;
	out->landlock = abi >= (s->nested ? LANDLOCK_SCOPES : LANDLOCK_MIN) ? (uint32_t)abi : 0;
	out->seccomp_allowed = seccomp_allowed_count(&filter);
	out->caps = keep;
	out->no_new_privs = true;
	out->nested = s->nested;
	out->trace = !s->trace_off;
	out->groups_dropped = c->ids->groups_dropped;
	return 0;
}

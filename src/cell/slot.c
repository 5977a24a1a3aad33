// SPDX-License-Identifier: Apache-2.0
// From fork to spec. The nursery forks a supervisor; the supervisor clones the first process of the cell (or, for a
// place, a mold and then that) with every namespace new, writes its id maps, puts it in its cgroup (after idle time the kernel takes 5-15 ms for that, which is
// why it happens here and not when somebody waits) and lets it prepare what needs no spec.
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "init/init.h"
#include "init/sudo.h"
#include "isolate/contain.h"
#include "model/msg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEW_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

// --- inside ---

_Noreturn void slot_give_up(struct chan *ch, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(ch, M_ERR, 0, &b);
	_exit(1);
}

// Sources that only the supervisor may open (as root) come as descriptors, in the order of rootfs_sources.
int slot_recv_trees(struct chan *ch, int *trees, int max, struct err *e)
{
	int n = 0;
	struct frame f;
	for (;;) {
		if (chan_recv(ch, &f, e))
			return -1;
		if (f.type == M_OK)
			return n;
		if (f.type != M_MOUNT || f.fd < 0 || n >= max)
			return err_set(e, ERR_BUG, "unexpected message while building");
		trees[n++] = take_fd(&f.fd);
	}
}

static int build_and_lock(struct contain *c, struct chan *ch, const struct cell_spec *s, bool supervised,
			  struct isolation *iso, int *listener, int *sudo, struct err *e)
{
	int trees[TREES_MAX], n = slot_recv_trees(ch, trees, TREES_MAX, e);
	if (n < 0)
		return -1;
	if (fault(FAULT_CELL_MOUNTS, e) || contain_build(c, s, trees, n, e))
		return err_wrap(e, "file system of the cell");
	for (int i = 0; i < n; i++)
		close(trees[i]);
	*sudo = s->profile == PROFILE_ROOT ? sudo_listen(e) : -1; // before the filter, which tells the supervisor of every listen
	if (s->profile == PROFILE_ROOT && *sudo < 0)
		return -1;
	if (fault(FAULT_CELL_LOCK, e) || contain_lock(c, s, supervised, iso, listener, e))
		return err_wrap(e, "confinement of the cell");
	return 0;
}

struct contain slot_contain(const struct cell *cell)
{
	const struct nursery *n = cell->nursery;
	struct contain c = {
		.host = &n->rootfs, .ids = &n->ids, .profile = cell->profile, .warm = cell->fresh_layer, .root = -1,
		.trust = &n->trust, .net = NET_SOCKETS_NONE, .state = NET_STATE_NONE, .scratch = -1, .score = -1, .layer = -1, .base = -1, .null_file = -1, .empty_dir = -1, .place = cell->place ? &cell->place->spec : NULL,
	};
	userns_inside_ids(&n->ids, cell->profile, &c.uid, &c.gid);
	return c;
}

// In the order of struct net_sockets.
static int *socket_at(struct net_sockets *s, unsigned i)
{
	int *const list[] = {&s->tcp, &s->dns_udp, &s->dns_tcp, &s->nflog, &s->diag, &s->wide4, &s->wide6};
	return i < countof(list) ? list[i] : NULL;
}

void slot_send_sockets(struct chan *ch, const struct net_sockets *s)
{
	struct net_sockets copy = *s;
	for (uint8_t i = 0; socket_at(&copy, i); i++)
		if (*socket_at(&copy, i) >= 0)
			chan_send_fd_on(ch, M_SOCKET, i, *socket_at(&copy, i));
}

void slot_take_socket(struct net_sockets *s, struct frame *f)
{
	int *at = socket_at(s, f->stream);
	if (!at || f->fd < 0)
		return;
	close_fd(at);
	*at = take_fd(&f->fd);
}

_Noreturn void slot_serve(struct contain *c, struct chan *ch)
{
	struct frame f;
	struct err e;
	struct cell_spec s;
	struct isolation iso = {0};
	int listener, sudo = -1;
	chan_send(ch, M_OK, 0, 0, NULL, 0);
	if (chan_recv(ch, &f, &e) || f.type != M_BUILD)
		_exit(1);
	bool supervised = f.stream;
	proc_stretch(0, PROC_QUICK_NS);
	if (cell_spec_read(f.p, f.n, &s, &e) || build_and_lock(c, ch, &s, supervised, &iso, &listener, &sudo, &e))
		slot_give_up(ch, &e);
	auto_buf struct buf ready = BUF_INIT(4096);
	isolation_write(&ready, &iso);
	struct init_opts opts = {
		.channel = ch, .uid = c->uid, .gid = c->gid, .profile = c->profile, .ws_path = s.ws_path,
		.changes = {.layer = c->layer, .base = c->base, .lowers = c->lowers, .n_lowers = c->n_lowers,
			    .n_base_lowers = (int)s.n_base_lowers, .homes = c->homes, .hide = s.hide},
		.ends_with_exec = s.ends_with_exec && s.has_exec, .score = c->score, .sudo = sudo,
		.cpus_milli = supervised ? s.limits.cpus_milli : 0,
	};
	init_run(&opts, &ready, listener);
}

static void inside(const struct cell *cell, int fd)
{
	struct contain c = slot_contain(cell);
	int trees[TREES_MAX], n;
	struct chan ch;
	struct err e;
	signal(SIGCHLD, SIG_DFL); // it will be pid 1, which reaps
	chan_init(&ch, fd);
	n = slot_recv_trees(&ch, trees, TREES_MAX, &e); // after them maps and cgroup are in place
	if (n < 0)
		_exit(1);
	if (fault(FAULT_CELL_PREPARE, &e) || contain_prepare(&c, trees, n, &e)) {
		err_wrap(&e, "prepare a cell");
		slot_give_up(&ch, &e);
	}
	while (n)
		close(trees[--n]);
	slot_send_sockets(&ch, &c.net);
	net_sockets_close(&c.net);
	slot_serve(&c, &ch);
}

// --- outside ---

// By the names the kernel gives them; a general walk takes ten times as many calls.
static int clear_scratch(int layer, const char *work, struct err *e)
{
	static const char *const names[] = {"/incompat/volatile/dirty", "/incompat/volatile", "/incompat", ""};
	for (size_t i = 0; i < countof(names); i++) {
		auto_free char *path = xasprintf("%s%s", work, names[i]);
		if (unlinkat(layer, path, i ? AT_REMOVEDIR : 0) && errno != ENOENT)
			return fs_remove_tree(layer, work, e);
	}
	return 0;
}

// One that a sandbox left as empty as it got it. Its frame is used again; what a cell could have marked is made anew.
static int take_spare(const struct cell *c, struct err *e)
{
	auto_free char *path = xasprintf("%s/layers/.spare", c->nursery->skep_home);
	auto_fd int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = at < 0 ? NULL : opendir(path);
	struct dirent *ent;
	bool got = false;
	while (d && !got && (ent = readdir(d)))
		got = ent->d_name[0] != '.' && !renameat(at, ent->d_name, AT_FDCWD, c->fresh_layer);
	if (d)
		closedir(d);
	if (!got)
		return 0;
	auto_fd int layer = fs_open(AT_FDCWD, c->fresh_layer, O_RDONLY | O_DIRECTORY, 0, e);
	if (layer < 0 || clear_scratch(layer, "work/ws/work", e) || clear_scratch(layer, "work/home/work", e))
		return -1;
	// Empty is not untouched: modes, attributes and access lists of the top directories were the last cell's to set.
	for (const char *const *top = (const char *const[]){"ws", "home", "root", NULL}; *top; top++)
		if (unlinkat(layer, *top, AT_REMOVEDIR) && errno != ENOENT)
			return err_sys(e, "spare layer");
	return 0;
}

// Locked as long as it waits with us: a new nursery sweeps the layers of slots that are gone.
int slot_make_layer(struct cell *c, struct err *e)
{
	static const char *const parts[] = {"ws", "home", "root", "work", "work/home", "work/ws"};
	uint32_t uid, gid;
	if (take_spare(c, e) && fs_remove_tree(AT_FDCWD, c->fresh_layer, e)) // one that resists is no spare
		return -1;
	if (fs_mkdirs(AT_FDCWD, c->fresh_layer, 0755, e))
		return -1;
	auto_fd int dir = fs_open(AT_FDCWD, c->fresh_layer, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB))
		return dir < 0 ? -1 : err_sys(e, "new layer");
	for (size_t i = 0; i < countof(parts); i++)
		if (mkdirat(dir, parts[i], 0755) && errno != EEXIST)
			return err_sys(e, "new layer");
	userns_inside_ids(&c->nursery->ids, c->profile, &uid, &gid);
	if (c->nursery->ids.root && (fchownat(dir, "ws", uid, gid, 0) || fchownat(dir, "home", uid, gid, 0)))
		return err_sys(e, "new layer");
	c->fresh_lock = take_fd(&dir);
	return 0;
}

// As root: the maps that mounts will need.
static int open_maps(struct cell *c, pid_t pid, struct err *e)
{
	char path[64];
	uint32_t uid, gid;
	userns_inside_ids(&c->nursery->ids, c->profile, &uid, &gid);
	if (fmt_to(path, sizeof path, "/proc/%d/ns/user", (int)pid))
		return err_set(e, ERR_BUG, "path");
	c->plain_ns = fs_open(AT_FDCWD, path, O_RDONLY, 0, e);
	c->owner_ns = c->plain_ns < 0 ? -1 : userns_for_mount(c->first_id, 0, 0, uid, e);
	return c->owner_ns < 0 ? -1 : 0;
}

uint64_t slot_mark_lowers(char *const *lowers)
{
	uint64_t mark = 14695981039346656037u; // FNV: nobody chooses inode numbers against us
	for (; lowers && *lowers; lowers++) {
		struct stat st;
		if (stat(*lowers, &st))
			return 0;
		mark = (mark ^ st.st_dev) * 1099511628211u;
		mark = (mark ^ st.st_ino) * 1099511628211u;
	}
	return mark;
}

// Opened out here and handed in as detached mounts: as root they lie where the cell's ids may not go, and their
// owners have to be mapped.
int slot_send_sources(struct cell *c, struct chan *to, const struct cell_spec *s, enum slot_has has, struct err *e)
{
	struct sources src;
	struct stat st = {0};
	uint32_t uid, gid;
	if (s->base && has < SLOT_PLACE && stat(s->base, &st))
		return err_sys(e, "%s", s->base);
	if (has < SLOT_PLACE) {
		c->base_dev = st.st_dev;
		c->base_ino = st.st_ino;
		c->lowers_mark = slot_mark_lowers(s->lowers);
	}
	userns_inside_ids(&c->nursery->ids, c->profile, &uid, &gid);
	auto_fd int own = -1; // the slot came with the map for directories of root
	if (c->nursery->ids.root && s->base && (st.st_uid || st.st_gid)) {
		own = userns_for_mount(c->first_id, st.st_uid, st.st_gid, uid, e);
		if (own < 0)
			return -1;
	}
	rootfs_sources(&c->nursery->rootfs, s, has, &src);
	int rc = 0;
	for (int i = 0; i < src.n && !rc; i++) {
		int owner = own >= 0 && src.list[i].map == SOURCE_OWNER ? own : c->owner_ns;
		auto_fd int tree = contain_open_source(&src.list[i], c->plain_ns, owner, e);
		rc = tree < 0 || !chan_send_fd(to, M_MOUNT, 0, NULL, 0, tree) ? -1 : 0;
	}
	sources_done(&src);
	return rc;
}

static int send_layer(struct cell *c, pid_t pid, struct chan *to, struct err *e)
{
	if (c->nursery->ids.root && open_maps(c, pid, e))
		return -1;
	if (!c->fresh_layer)
		return 0;
	struct source layer = {.name = "l", .path = (char *)c->fresh_layer};
	auto_fd int tree = contain_open_source(&layer, c->plain_ns, -1, e);
	if (tree < 0 || !chan_send_fd(to, M_MOUNT, 0, NULL, 0, tree))
		return -1;
	c->has = c->place ? SLOT_PLACE : SLOT_LAYER;
	return c->place ? slot_send_sources(c, to, &c->place->spec, SLOT_LAYER, e) : 0;
}

int slot_clone(struct cell *c, int namespaces, void (*entry)(const struct cell *c, int fd), struct chan *out, pid_t *out_pid,
	       struct err *e)
{
	int sv[2];
	if (fault(FAULT_SLOT_CLONE, e))
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return err_sys(e, "socketpair");
	pid_t pid = userns_clone(&c->nursery->ids, namespaces, c->first_id, e);
	if (pid < 0)
		return -1;
	if (!pid) {
		// Of all the descriptors of the nursery and the supervisor only the channel is kept.
		int fd = sv[1] == 3 ? 3 : dup3(sv[1], 3, O_CLOEXEC);
		syscall(SYS_close_range, 4, ~0U, 0);
		entry(c, fd);
		_exit(1);
	}
	*out_pid = pid;
	close(sv[1]);
	chan_init(out, sv[0]);
	if (fault(FAULT_SLOT_MAP, e) || userns_map(pid, &c->nursery->ids, c->profile, c->first_id, e))
		return -1;
	if (c->has_cgroup && (fault(FAULT_SLOT_CGROUP, e) || cgroup_attach(&c->cgroup, pid, e)))
		return -1;
	if (send_layer(c, pid, out, e))
		return -1;
	prctl(PR_SET_DUMPABLE, 0); // not before: /proc/PID/uid_map of a process that is not dumpable is root's
	chan_send(out, M_OK, 0, 0, NULL, 0);
	return 0;
}

static int start_inside(struct cell *c, struct err *e)
{
	if (c->place && rootfs_can_mold(&c->place->spec))
		return (c->mold.chan.fd < 0 && mold_make(c, e)) || mold_cell(c, e) ? -1 : 0;
	if (slot_clone(c, NEW_NAMESPACES, inside, &c->init, &c->init_pid, e))
		return -1;
	c->init_pidfd = loop_pidfd(c->init_pid, e);
	return c->init_pidfd < 0 ? -1 : 0;
}

static int open_cgroup(struct cell *c, struct err *e)
{
	if (c->nursery->cgroups.mode == CGROUP_NONE)
		return 0;
	bool again = c->mold.chan.fd >= 0; // then the mold is in it, and its limits are the default ones
	if (seat_group(c->nursery, &c->seat, again, &c->cgroup, e))
		return -1;
	c->has_cgroup = true;
	struct cgroup_usage before; // what earlier cells of the seat met is not ours
	if (cgroup_hits(&c->cgroup, &before, e) || (!again && cgroup_set_limits(&c->cgroup, &LIMITS_DEFAULT, e)))
		return -1;
	c->oom_seen = before.oom_kills;
	c->pids_seen = before.pids_hits;
	return 0;
}

static int set_up(struct cell *c, int control, struct err *e)
{
	if (loop_init(&c->loop, e))
		return -1;
	c->start_time = proc_start_time(getpid());
	if (c->seat.lock < 0 && seat_take(c->nursery, &c->seat, e))
		return -1;
	c->first_id = userns_range(c->seat.n);
	c->control = client_new(c, control, e);
	if (!c->control)
		return -1;
	c->control->control = c->control->greeted = true;
	if (c->fresh_layer && c->mold.chan.fd < 0 && slot_make_layer(c, e))
		return -1;
	return control_bind(c, e) || open_cgroup(c, e) || start_inside(c, e) || slot_watch(c, e) ? -1 : 0;
}

int slot_watch(struct cell *c, struct err *e)
{
	c->init.on_frame = cell_on_init_frame;
	c->init.on_close = cell_on_init_close;
	c->init_end.fn = cell_on_init_exit;
	return chan_attach(&c->init, &c->loop, e) || loop_add(&c->loop, &c->init_end, c->init_pidfd, LOOP_IN, e) ? -1 : 0;
}

// What the cell before us left.
static void take_mold(struct cell *c, const struct mold *m)
{
	c->mold = *m;
	chan_init(&c->mold.chan, m->chan.fd);
	c->seat = m->seat;
	c->fresh_layer = m->layer;
	c->fresh_lock = m->lock;
	c->base_dev = m->base_dev;
	c->base_ino = m->base_ino;
	c->lowers_mark = m->lowers_mark;
	c->has = SLOT_PLACE;
}

void slot_blank(struct cell *c, const struct nursery *n, enum profile profile)
{
	*c = (struct cell){.nursery = n, .profile = profile, .seat.lock = -1, .fresh_lock = -1, .sandbox_dir = -1, .out_dir = -1, .root = -1,
			   .listen.fd = -1, .plain_ns = -1, .owner_ns = -1, .notify.fd = -1, .walk.fd = -1, .unnamed.fd = -1,
			   .init_pidfd = -1, .init.fd = -1, .back = -1, .mold = MOLD_NONE, .ahead = AHEAD_NONE, .net = NET_SOCKETS_NONE, .secrets = -1};
}

static _Noreturn void give_up(struct cell *c, const struct err *why)
{
	struct err e;
	if (c->control)
		control_send_err(&c->control->chan, 0, why);
	cell_kill_init(c);
	mold_leave(c);
	control_unlisten(c);
	_exit(c->has_cgroup && cgroup_close_remove(&c->cgroup, &e) ? 2 : 1);
}

_Noreturn void slot_main(const struct nursery *n, const struct slot *s)
{
	static struct cell c; // one process, one cell at a time
	struct err e;
	slot_blank(&c, n, s->profile);
	c.fresh_layer = s->layer;
	c.place = s->place;
	c.back = s->back;
	if (s->mold)
		take_mold(&c, s->mold);
	setsid();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); // nobody asks how they ended: the kernel reaps them, helpers and the mold it came from, too
	prctl(PR_SET_NAME, "skep-cell");
	prctl(PR_SET_CHILD_SUBREAPER, 1); // a cell that goes on without its mold becomes our own child
	if (set_up(&c, s->control, &e))
		give_up(&c, &e);
	do {
		if (loop_run(&c.loop, &e))
			_exit(1);
		if (c.stage == CELL_OVER && again_turn(&c, &e))
			give_up(&c, &e);
	} while (c.stage == CELL_WAITING);
	_exit(0);
}

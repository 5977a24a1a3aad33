// SPDX-License-Identifier: Apache-2.0
#include "cell/nursery.h"

#include "base/chan.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cell/cell_int.h"
#include "cell/dirwork.h"
#include "cell/ownership.h"
#include "cell/shelf.h"
#include "cell/volwork.h"
#include "init/layer.h"
#include "isolate/mounts.h"
#include "isolate/seccomp.h"
#include "model/msg.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Where the template is mounted in the nursery's own mount namespace: a directory every user may walk to, that exists
// everywhere and that nobody has a project in.
#define TEMPLATE_DIR "/dev/pts"

// Layers that wait with a slot. Nobody else touches them; those of slots that were killed go
// when the next nursery starts.
#define FRESH ".fresh-"

static struct state {
	struct loop loop;
	struct chan chan;
	struct nursery n;
	struct shelf shelf;
	struct dirwork dirwork;
} self;

// A /proc without processes: of a process id namespace whose only one, which mounts it, ends at once.
static int empty_proc(const struct mount_env *env, struct err *e)
{
	int status;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return err_sys(e, "new process id namespace");
	if (!pid) {
		struct plan p = {0};
		plan_add(&p, MOUNT_PROC, NULL, "proc", NULL, 0);
		_exit(plan_apply(&p, env, e) ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		return err_set(e, ERR_SYSTEM, "/proc can not be mounted (see: skep doctor)");
	return 0;
}

// sudo: opened while our own rights to its directory were those of whoever started us.
static int make_template(int sudo, struct err *e)
{
	struct plan p = {0};
	self.n.rootfs.sudo = xasprintf("/proc/self/fd/%d", sudo);
	rootfs_scan(&self.n.rootfs, TEMPLATE_DIR);
	trust_scan(&self.n.trust);
	trust_share(&self.n.trust);
	userns_inside_ids(&self.n.ids, PROFILE_USER, &self.n.rootfs.uid, &self.n.rootfs.gid);
	if (unshare(CLONE_NEWNS))
		return err_sys(e, "new mount namespace");
	if (mount_private(e))
		return -1;
	auto_fd int at = fs_open(AT_FDCWD, TEMPLATE_DIR, O_PATH | O_DIRECTORY, 0, e);
	if (at < 0 || mount_tmpfs_at(at, "mode=755,size=256m", e))
		return err_wrap(e, "template");
	auto_fd int root = fs_open(AT_FDCWD, TEMPLATE_DIR, O_PATH | O_DIRECTORY, 0, e);
	if (root < 0)
		return -1;
	umask(022);
	struct mount_env env = {root, -1, -1, false};
	rootfs_template(&self.n.rootfs, &p);
	trust_template(&p);
	int rc = plan_apply(&p, &env, e) || empty_proc(&env, e) ? -1 : 0;
	plan_done(&p);
	umask(077);
	return rc ? err_wrap(e, "template") : 0;
}

// Not one that a slot has just made and is about to lock.
static bool is_old(int dir)
{
	struct stat st;
	return !fstat(dir, &st) && (uint64_t)st.st_ctime * 1000 + 10000 < clock_unix_ms();
}

static void sweep_fresh(void)
{
	auto_free char *path = xasprintf("%s/layers", self.n.skep_home);
	if (fork())
		return;
	DIR *d = opendir(path);
	struct dirent *ent;
	struct err e;
	while (d && (ent = readdir(d))) {
		if (!str_has_prefix(ent->d_name, FRESH) && !str_has_suffix(ent->d_name, LAYER_PARTIAL))
			continue;
		auto_fd int dir = openat(dirfd(d), ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && is_old(dir) && !flock(dir, LOCK_EX | LOCK_NB) && fs_remove_tree(dirfd(d), ent->d_name, &e))
			log_line(LOG_WARN, "%s", e.msg);
	}
	control_sweep(self.n.cells_dir);
	_exit(0);
}

static int open_places(struct err *e)
{
	auto_fd int home = fs_open(AT_FDCWD, self.n.skep_home, O_RDONLY | O_DIRECTORY, 0, e);
	if (home < 0 || fs_mkdirs(home, "run/cells", 0700, e) || fs_mkdirs(home, "images", 0700, e) || fs_mkdirs(home, "layers/.spare", 0700, e))
		return -1;
	self.n.run_dir = fs_open(home, "run", O_RDONLY | O_DIRECTORY, 0, e);
	self.n.cells_dir = fs_open(home, "run/cells", O_RDONLY | O_DIRECTORY, 0, e);
	self.n.images_dir = fs_open(home, "images", O_RDONLY | O_DIRECTORY, 0, e);
	auto_fd int layers = fs_open(home, "layers", O_RDONLY | O_DIRECTORY, 0, e);
	if (layers >= 0)
		fs_spread(layers);
	return self.n.run_dir < 0 || self.n.cells_dir < 0 || self.n.images_dir < 0 ? -1 : 0;
}

static int start(struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint32_t version = wire_get_u32(&w);
	self.n.skep_home = wire_get_str(&w);
	if (f->type != M_NURSERY || w.bad || version != PROTO_VERSION || !self.n.skep_home)
		return err_set(e, ERR_INVALID, "skepd and skep-cell are of different versions");
	if (fault(FAULT_NURSERY_START, e) || open_places(e))
		return -1;
	if (cgroup_detect(&self.n.cgroups, e)) // before the namespaces: what is ours outside
		return err_wrap(e, "cgroups");
	auto_free char *program = proc_beside("skep-sudo", e);
	auto_fd int sudo = program ? fs_open(AT_FDCWD, program, O_RDONLY, 0, e) : -1;
	if (sudo < 0 || userns_enter_base(&self.n.ids, e))
		return -1;
	seat_sweep(&self.n);
	sweep_fresh();
	return make_template(sudo, e);
}

static void answer_err(uint32_t id, const struct err *e)
{
	control_send_err(&self.chan, id, e);
}

static void in_child(void)
{
	shelf_close_fds(&self.shelf);
	loop_done(&self.loop); // the channel's buffer stays: the place lies in it
	close_fd(&self.chan.fd);
}

static int start_slot(struct frame *f, enum profile profile, const char *layer, const struct place *place, struct err *e)
{
	int sv[2], back[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return err_sys(e, "socketpair");
	auto_fd int ours = sv[0], theirs = sv[1];
	if (place && !place->n)
		place = NULL;
	if (place && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, back))
		return err_sys(e, "socketpair");
	auto_fd int back_ours = place ? back[0] : -1, back_theirs = place ? back[1] : -1;
	struct mold *m = place ? shelf_take(&self.shelf, place) : NULL;
	pid_t pid = fork();
	if (!pid) {
		close(ours);
		close_fd(&back_ours);
		in_child();
		slot_main(&self.n, &(struct slot){theirs, back_theirs, profile, m ? m->layer : layer, place, m});
	}
	if (pid < 0) {
		err_sys(e, "new process");
		if (m)
			mold_drop(m, true);
		return -1;
	}
	if (m)
		mold_free(m);
	if (place && shelf_expect(&self.shelf, take_fd(&back_ours), e))
		return -1;
	auto_buf struct buf b = BUF_INIT(FRAME_MAX);
	wire_u8(&b, profile);
	if (place)
		buf_add(&b, place->p, place->n);
	chan_send_fd(&self.chan, M_SLOT, f->id, b.p, b.n, ours);
	return 0;
}

static void do_want(struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint8_t profile = wire_get_u8(&w), warm = wire_get_u8(&w);
	struct place place = {.p = w.p, .n = w.n};
	struct err e;
	char id[ID_SIZE];
	id_make('l', id);
	auto_free char *layer = warm && profile == PROFILE_USER ? xasprintf("%s/layers/" FRESH "%s", self.n.skep_home, id) : NULL;
	if (w.bad || profile >= PROFILES || (w.n && place_read(w.p, w.n, &place.spec, &e))) {
		err_set(&e, ERR_INVALID, "malformed request for a slot");
		answer_err(f->id, &e);
		return;
	}
	if (warm == 2 && !shelf_has(&self.shelf, &place)) {
		cell_spec_done(&place.spec);
		return;
	}
	if ((profile == PROFILE_ROOT && ownership_ready(&self.n, &e)) || start_slot(f, profile, layer, layer ? &place : NULL, &e))
		answer_err(f->id, &e);
	cell_spec_done(&place.spec);
}

static void on_frame(struct chan *c, struct frame *f)
{
	(void)c;
	if (f->type == M_WANT)
		do_want(f);
	else if (f->type == M_REMOVE)
		dirwork_remove(&self.dirwork, f);
	else if (f->type == M_LAYER)
		dirwork_layer(&self.dirwork, f);
	else if (f->type == M_VOLUME)
		volwork_begin(&self.dirwork, f, self.n.ids.root ? self.n.rootfs.uid : 0);
}

static void on_close(struct chan *c)
{
	(void)c;
	shelf_drop(&self.shelf);
	seat_sweep(&self.n);
	_exit(0); // skepd is gone; the next one starts its own nursery
}

int nursery_main(int channel)
{
	struct frame f;
	struct err e;
	prctl(PR_SET_NAME, "skep-nursery");
	signal(SIGPIPE, SIG_IGN);
	chan_init(&self.chan, channel);
	if (chan_recv(&self.chan, &f, &e))
		return 1;
	if (start(&f, &e)) {
		answer_err(0, &e);
		return 1;
	}
	mem_trim_stack(); // every cell would have what the template took
	signal(SIGCHLD, SIG_IGN); // slots and jobs report on their channels
	while (waitpid(-1, NULL, WNOHANG) > 0) // who was quicker than that
		;
	prctl(PR_SET_CHILD_SUBREAPER, 1); // molds outlive the supervisor that made them
	shelf_init(&self.shelf, &self.loop, &self.chan);
	self.dirwork = (struct dirwork){&self.loop, &self.chan, self.n.skep_home, getpid(), in_child};
	self.chan.on_frame = on_frame;
	self.chan.on_close = on_close;
	if (loop_init(&self.loop, &e) || chan_attach(&self.chan, &self.loop, &e) || loop_run(&self.loop, &e)) {
		log_line(LOG_ERROR, "nursery: %s", e.msg);
		return 1;
	}
	return 0;
}

int nursery_print_plan(void)
{
	struct rootfs_host h = {.uid = getuid(), .gid = getgid()};
	struct plan template = {0}, skeleton = {0}, cell = {0};
	auto_buf struct buf out = BUF_INIT(1 << 20);
	struct err e;
	struct cell_spec s = {
		.hostname = xstrdup("NAME"), .layer = xstrdup("LAYER"), .base = xstrdup("PROJECT"), .ws_path = xstrdup("/PROJECT"),
		.home = xstrdup("/home/skep"), .limits = LIMITS_DEFAULT,
	};
	rootfs_scan(&h, TEMPLATE_DIR);
	rootfs_template(&h, &template);
	rootfs_system(&h, PROFILE_USER, false, &skeleton);
	rootfs_kernel(false, &skeleton);
	rootfs_cell(&h, &s, SLOT_EMPTY, &cell);
	buf_str(&out, "# template, once per daemon, in a mount namespace of its own\n");
	plan_print(&template, &out);
	buf_str(&out, "\n# skeleton of a cell (default profile)\n");
	plan_print(&skeleton, &out);
	buf_str(&out, "\n# with the spec\n");
	plan_print(&cell, &out);
	buf_str(&out, "\n# system calls\n");
	seccomp_print_plan(&out);
	cell_spec_done(&s);
	plan_done(&template);
	plan_done(&skeleton);
	plan_done(&cell);
	return fs_write_all(STDOUT_FILENO, out.p, out.n, &e) ? 1 : 0;
}

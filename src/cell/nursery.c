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
#include "cell/ownership.h"
#include "init/layer.h"
#include "isolate/mounts.h"
#include "isolate/seccomp.h"
#include "model/msg.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

#define MOLDS_MAX 64
#define MOLD_KEEP_MS 30000

// From a slot whose mold may come back.
struct back {
	struct back *next;
	struct chan chan;
	struct mold *mold;
};

struct job {
	struct watch w;
	uint32_t id;
	bool tells; // its answer has content
};

static struct state {
	pid_t pid;
	struct loop loop;
	struct chan chan;
	struct nursery n;
	struct back *backs;
	struct mold *molds; // newest first
	int n_molds;
	struct timer old;
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

// --- molds ---

static void free_back(void *obj)
{
	struct back *b = obj;
	chan_close(&b->chan);
	if (b->mold)
		mold_drop(b->mold, true);
	free(b);
}

static void on_back_close(struct chan *c)
{
	struct back *b = container_of(c, struct back, chan);
	for (struct back **p = &self.backs; *p; p = &(*p)->next)
		if (*p == b) {
			*p = b->next;
			break;
		}
	loop_bury(&self.loop, b, free_back);
}

static void on_back_frame(struct chan *c, struct frame *f)
{
	struct back *b = container_of(c, struct back, chan);
	struct err e;
	int rc = b->mold && b->mold->seat.lock < 0 ? mold_read(f, b->mold, &e) : -1;
	if (rc > 0 && self.n_molds < MOLDS_MAX) {
		b->mold->next = self.molds;
		self.molds = b->mold;
		self.n_molds++;
		b->mold = NULL;
		if (!self.old.at_ms)
			timer_set(&self.loop, &self.old, MOLD_KEEP_MS);
		chan_send(&self.chan, M_BACK, 0, 0, NULL, 0);
	}
	if (rc)
		shutdown(c->fd, SHUT_RDWR);
}

static int expect_back(int fd, struct err *e)
{
	struct back *b = xcalloc(1, sizeof *b);
	b->mold = xcalloc(1, sizeof *b->mold);
	*b->mold = MOLD_NONE;
	chan_init(&b->chan, fd);
	b->chan.on_frame = on_back_frame;
	b->chan.on_close = on_back_close;
	b->next = self.backs;
	self.backs = b;
	return chan_attach(&b->chan, &self.loop, e);
}

static void on_old(struct timer *t)
{
	uint64_t now = clock_ms();
	for (struct mold **p = &self.molds; *p;) {
		struct mold *m = *p;
		if (now - m->since_ms < MOLD_KEEP_MS) {
			p = &m->next;
			continue;
		}
		*p = m->next;
		self.n_molds--;
		mold_drop(m, true);
	}
	if (self.molds)
		timer_set(&self.loop, t, MOLD_KEEP_MS / 3);
}

static struct mold *take_mold(const struct place *place)
{
	for (struct mold **p = &self.molds; place->n && *p; p = &(*p)->next) {
		struct mold *m = *p;
		if (!mold_fits(m, place->p, place->n))
			continue;
		*p = m->next;
		self.n_molds--;
		return m;
	}
	return NULL;
}

static void in_slot_process(void)
{
	for (struct back *b = self.backs; b; b = b->next)
		close_fd(&b->chan.fd);
	for (struct mold *m = self.molds; m; m = m->next)
		mold_close_fds(m);
	loop_done(&self.loop); // the channel's buffer stays: the place lies in it
	close_fd(&self.chan.fd);
}

static bool has_mold(const struct place *place)
{
	struct mold *m = self.molds;
	while (m && !mold_fits(m, place->p, place->n))
		m = m->next;
	return m;
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
	struct mold *m = place ? take_mold(place) : NULL;
	pid_t pid = fork();
	if (!pid) {
		close(ours);
		close_fd(&back_ours);
		in_slot_process();
		slot_main(&self.n, &(struct slot){theirs, back_theirs, profile, m ? m->layer : layer, place, m});
	}
	if (pid < 0) {
		err_sys(e, "new process");
		if (m)
			mold_drop(m, true);
		return -1;
	}
	if (m) {
		mold_close_fds(m);
		free(m->layer);
		free(m->place);
		free(m);
	}
	if (place && expect_back(take_fd(&back_ours), e))
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
	if (warm == 2 && !has_mold(&place)) {
		cell_spec_done(&place.spec);
		return;
	}
	if ((profile == PROFILE_ROOT && ownership_ready(&self.n, &e)) || start_slot(f, profile, layer, layer ? &place : NULL, &e))
		answer_err(f->id, &e);
	cell_spec_done(&place.spec);
}

// --- jobs on directories: in a child, with the rights of the base namespace ---

static void on_job_end(struct watch *w, uint32_t events)
{
	struct job *j = container_of(w, struct job, w);
	union {
		struct err e;
		struct layer_result r;
	} said;
	struct err e;
	int fd = w->fd;
	(void)events;
	loop_del(&self.loop, w);
	ssize_t n = read(fd, &said, sizeof said);
	close(fd);
	auto_buf struct buf b = BUF_INIT(64);
	if (n == sizeof said.r) {
		if (j->tells)
			layer_result_write(&b, &said.r);
		chan_send_buf(&self.chan, M_OK, j->id, &b);
	} else {
		err_set(&e, ERR_UNAVAILABLE, "the work on a directory was interrupted; try again");
		answer_err(j->id, n == sizeof said.e ? &said.e : &e);
	}
	loop_bury(&self.loop, j, free);
}

// Only what lies below SKEP_HOME, named without tricks.
static int remove_one(const char *path, struct err *e)
{
	size_t n = strlen(self.n.skep_home);
	if (strncmp(path, self.n.skep_home, n) || path[n] != '/' || strstr(path, "/../") || str_has_suffix(path, "/.."))
		return err_set(e, ERR_DENIED, "%s does not lie below SKEP_HOME", path);
	return fault(FAULT_GC_TREE, e) ? -1 : fs_remove_tree(AT_FDCWD, path, e);
}

static int run_remove(struct wire *w, struct layer_result *r, struct err *e)
{
	char **paths = wire_get_strv(w);
	(void)r;
	if (!paths)
		return err_set(e, ERR_INVALID, "malformed request for a removal");
	setpriority(PRIO_PROCESS, 0, 10); // nobody waits for it
	for (char **v = paths; *v; v++)
		if (remove_one(*v, e))
			return -1;
	return 0;
}

static int run_layer(struct wire *w, struct layer_result *r, struct err *e)
{
	struct layer_op op;
	auto_free char *path = xasprintf("%s/layers", self.n.skep_home);
	auto_fd int layers = fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e);
	if (layers < 0 || layer_op_read(w, &op, e))
		return -1;
	// Whoever asks again after our parent's end must not meet us at work under the same name.
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != self.pid)
		_exit(1);
	return layer_do(layers, &op, r, e);
}

static void do_job(struct frame *f, bool tells, int (*run)(struct wire *w, struct layer_result *r, struct err *e))
{
	struct wire w = {.p = f->p, .n = f->n};
	struct job *j = xcalloc(1, sizeof *j);
	struct layer_result r = {0};
	struct err e = {0};
	int p[2] = {-1, -1};
	pid_t pid = pipe2(p, O_CLOEXEC) ? -1 : fork();
	if (!pid) {
		in_slot_process();
		bool failed = run(&w, &r, &e);
		_exit(write(p[1], failed ? (void *)&e : (void *)&r, failed ? sizeof e : sizeof r) < 0);
	}
	close_fd(&p[1]);
	*j = (struct job){.w = {.fd = -1, .fn = on_job_end}, .id = f->id, .tells = tells};
	if (pid < 0 || loop_add(&self.loop, &j->w, p[0], LOOP_IN, &e)) {
		err_set(&e, ERR_SYSTEM, "could not start the work on a directory");
		answer_err(f->id, &e);
		close_fd(&p[0]);
		free(j);
	}
}

static void on_frame(struct chan *c, struct frame *f)
{
	(void)c;
	if (f->type == M_WANT)
		do_want(f);
	else if (f->type == M_REMOVE)
		do_job(f, false, run_remove);
	else if (f->type == M_LAYER)
		do_job(f, true, run_layer);
}

static void on_close(struct chan *c)
{
	(void)c;
	while (self.molds) {
		struct mold *m = self.molds;
		self.molds = m->next;
		mold_drop(m, false);
	}
	seat_sweep(&self.n);
	_exit(0); // skepd is gone; the next one starts its own nursery
}

int nursery_main(int channel)
{
	struct frame f;
	struct err e;
	self.pid = getpid();
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
	self.old.fn = on_old;
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

// SPDX-License-Identifier: Apache-2.0
// Limits that the supervisor enforces itself: time, idleness, disk, and memory where there is no cgroup. It looks only
// while the cell has processes; an idle sandbox costs no wake-up. A walk of the layer is paced by how much the
// file system's free space fell since the last one.
#include "base/clock.h"
#include "base/mem.h"
#include "cell/cell_int.h"
#include "cell/changed.h"
#include "cell/disk_use.h"
#include "cell/held.h"
#include "cell/unnamed.h"
#include "model/msg.h"
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLE_MS 250
#define WALK_BYTES (64ull << 20) // at most this much may be written between two walks
#define WALK_FILES 20000ull
#define UNNAMED_EVERY 2 // samples
#define DEAF_MS 5000 // twice
#define DEEP_LOOKS 8 // walks between two complaints about what is too deep to count: time to remove it

void watchdog_hit(struct cell *c, const char *limit, const char *message)
{
	auto_buf struct buf b = BUF_INIT(2048);
	record_limit(c, limit, message, NULL);
	wire_str(&b, limit);
	wire_str(&b, message);
	if (c->control)
		chan_send_buf(&c->control->chan, M_HIT, 0, &b);
	client_tell(c, M_HIT, &b);
}

static bool supervised(const struct cell *c)
{
	return !strcmp(c->iso.limits, "supervised");
}

// --- pid 1 ---

static void ask_usage(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(16);
	wire_u64(&b, supervised(c) ? c->spec.limits.memory : 0); // 0: with a cgroup all that matters is that it answers
	wire_u64(&b, c->unnamed_memory);			  // which init can not see
	chan_send_buf(&c->init, M_USAGE, 0, &b);
}

// Asked a second time: a supervisor that was held up itself finds the answer waiting.
static void on_deaf(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, deaf);
	if (c->stage != CELL_UP)
		return;
	if (c->paused || !c->asked_again) {
		c->asked_again = !c->paused;
		timer_set(&c->loop, t, DEAF_MS);
		return;
	}
	watchdog_hit(c, "init", "the sandbox's first process, which keeps its limits, did not answer; the sandbox was stopped. Go on with: skep start");
	cell_end(c, "its first process did not answer", 0, false);
}

// What ends a cell's commands is done by its pid 1; where that is held up no limit holds, so that it must not stay so.
static void expect_answer(struct cell *c)
{
	c->deaf.fn = on_deaf;
	ask_usage(c);
	if (!c->deaf.at_ms)
		timer_set(&c->loop, &c->deaf, DEAF_MS);
}

static void heard(struct cell *c)
{
	c->asked_again = false;
	timer_clear(&c->loop, &c->deaf);
}

// --- time ---

static void on_timeout(struct timer *t)
{
	struct sx *x = container_of(t, struct sx, timeout);
	if (x->killed_for_time) {
		sx_kill(x, SIGKILL, NULL);
		expect_answer(x->cell);
		return;
	}
	auto_free char *msg = xasprintf("timed out after %llu ms", (unsigned long long)x->spec.timeout_ms);
	x->killed_for_time = x->result.timed_out = true;
	record_limit(x->cell, "timeout", msg, x);
	sx_kill(x, SIGTERM, msg);
	timer_set(&x->cell->loop, t, LIMIT_STOP_GRACE_MS);
}

void watchdog_exec(struct sx *x)
{
	x->timeout.fn = on_timeout;
	if (x->spec.timeout_ms)
		timer_set(&x->cell->loop, &x->timeout, x->spec.timeout_ms);
}

static bool has_clients(const struct cell *c)
{
	for (const struct client *cl = c->clients; cl; cl = cl->next)
		if (cl->exec)
			return true;
	return false;
}

void watchdog_lease(struct cell *c)
{
	if (c->stage != CELL_UP || !c->spec.lease_ms || !c->spec.expires_unix_ms)
		return;
	c->spec.expires_unix_ms = clock_unix_ms() + c->spec.lease_ms;
	timer_set(&c->loop, &c->ttl, c->spec.lease_ms);
}

void watchdog_expire(struct cell *c)
{
	watchdog_hit(c, "ttl", "the sandbox has reached its time to live and was stopped; skep start begins anew");
	cell_end(c, "expired", LIMIT_STOP_GRACE_MS, true);
}

static void on_ttl(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, ttl);
	struct err e;
	if (c->spec.lease_ms && has_clients(c)) {
		watchdog_lease(c);
		return;
	}
	if (c->spec.expiry_pauses && cell_pause(c, true, 0, &e) >= 0) {
		watchdog_hit(c, "ttl", "the sandbox has reached its time to live and was paused; skep resume goes on");
		if (c->control)
			chan_send(&c->control->chan, M_PAUSED, 0, 0, &(uint8_t){1}, 1);
		return;
	}
	watchdog_expire(c);
}

static void on_idle(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, idle);
	cell_end(c, "idle", LIMIT_STOP_GRACE_MS, true);
}

// What is pending is counted a moment after commands end, never while somebody waits for one.
#define LOOK_MS 100

void watchdog_look(struct cell *c, bool first)
{
	uint8_t v = first;
	if (c->stage != CELL_UP || c->paused)
		return;
	changed_asked(c);
	chan_send(&c->init, M_WALK, 0, 0, &v, 1);
}

static void on_look(struct timer *t)
{
	watchdog_look(container_of(t, struct cell, look), false);
}

// What a job does in the workspace is nobody's command, and must not be taken for the next one's.
static bool may_write(const struct sx *x)
{
	const char *job = x->spec.argv[0];
	return x->spec.kind == EXEC_COMMAND || (strcmp(job, "collect") && strcmp(job, "watch"));
}

void watchdog_ended(struct sx *x)
{
	struct cell *c = x->cell;
	c->look.fn = on_look;
	if (c->stage == CELL_UP && supervised(c))
		ask_usage(c); // what it ran into is still there
	if (c->stage == CELL_UP && may_write(x) && !c->spec.ends_with_exec)
		timer_set(&c->loop, &c->look, LOOK_MS);
}

static bool is_idle(const struct cell *c)
{
	return !sx_running(c) && !has_clients(c);
}

void watchdog_activity(struct cell *c)
{
	if (c->stage != CELL_UP)
		return;
	if (!c->sample.at_ms && sx_running(c))
		timer_set(&c->loop, &c->sample, SAMPLE_MS);
	if (!c->spec.idle_ms)
		return;
	if (is_idle(c))
		timer_set(&c->loop, &c->idle, c->spec.idle_ms);
	else
		timer_clear(&c->loop, &c->idle);
}

// --- helpers ---

#define HELPER_MAX 64 // bytes of what one counts
static_assert(sizeof(struct unnamed) <= HELPER_MAX && sizeof(struct disk_use) <= HELPER_MAX, "what a helper counts fits");

// Counts in a child: there may be much to look at, and the supervisor answers execve calls. The watch tells when it is done;
// one that could not be started is tried again at the next sample.
static void helper_start(struct cell *c, struct watch *w, void (*count)(const struct cell *c, void *out), size_t size)
{
	int p[2];
	struct err e;
	if (pipe2(p, O_CLOEXEC))
		return;
	pid_t pid = fork();
	if (!pid) {
		_Alignas(max_align_t) char counted[HELPER_MAX];
		count(c, counted);
		_exit(write(p[1], counted, size) == (ssize_t)size ? 0 : 1);
	}
	close(p[1]);
	if (pid < 0 || loop_add(&c->loop, w, p[0], LOOP_IN, &e))
		close(p[0]);
}

// False: it died over it.
static bool helper_end(struct cell *c, struct watch *w, void *out, size_t size)
{
	auto_fd int fd = w->fd;
	loop_del(&c->loop, w);
	return read(fd, out, size) == (ssize_t)size;
}

// --- memory and processes ---

// Also those that have left every exec.
static void kill_all(struct cell *c, const char *reason)
{
	auto_buf struct buf b = BUF_INIT(16);
	for (struct sx *x = c->execs; x; x = x->next)
		sx_kill(x, SIGKILL, reason);
	wire_u32(&b, SIGKILL);
	chan_send(&c->init, M_SIGNAL, 1, 0, b.p, b.n);
	expect_answer(c);
}

void watchdog_check_cgroup(struct cell *c)
{
	struct cgroup_usage u;
	struct err e;
	if (!c->has_cgroup || cgroup_hits(&c->cgroup, &u, &e))
		return;
	if (u.oom_kills > c->oom_seen)
		watchdog_hit(c, "memory", "a process was killed: the sandbox reached its memory limit; see --memory");
	if (u.pids_hits > c->pids_seen)
		watchdog_hit(c, "pids", "a process could not be started: the sandbox reached its process limit; see --pids");
	c->oom_seen = u.oom_kills;
	c->pids_seen = u.pids_hits;
}

// Without a cgroup the limits of each process refuse (malloc fails, fork fails) and tell nobody: said here when a look
// finds the cell near its limit, once until it has come down again.
static void near(struct cell *c, const char *limit, uint64_t now, uint64_t most, bool *told, const char *message)
{
	if (most && !*told && now >= most / 16 * 13) {
		*told = true;
		watchdog_hit(c, limit, message);
	} else if (now < most / 2) {
		*told = false;
	}
}

// The kernel counts processes for each user inside, and root of a cell can be all of them.
static void over_pids(struct cell *c, uint32_t tasks)
{
	uint64_t most = c->spec.limits.pids;
	if (!most || tasks <= most)
		return;
	auto_free char *msg = xasprintf("the sandbox had %u processes and threads, more than its limit of %llu; its commands were stopped; see --pids",
					tasks, (unsigned long long)most);
	c->told_pids = true;
	watchdog_hit(c, "pids", msg);
	kill_all(c, msg);
}

void watchdog_usage(struct cell *c, uint64_t used, uint32_t killed, uint32_t tasks)
{
	heard(c);
	if (!supervised(c))
		return;
	if (killed) {
		c->told_memory = true;
		watchdog_hit(c, "memory", "the largest process was killed: the sandbox reached its memory limit; see --memory");
	}
	near(c, "memory", used, c->spec.limits.memory, &c->told_memory, "the sandbox is at its memory limit; see --memory");
	// A daemon is in no exec; where there is no cgroup this look is how it is known, and it goes on as long as there is one.
	if (tasks && c->stage == CELL_UP && !c->sample.at_ms)
		timer_set(&c->loop, &c->sample, SAMPLE_MS);
	over_pids(c, tasks);
	near(c, "pids", tasks + 1, c->spec.limits.pids, &c->told_pids, "the sandbox is at its process limit; see --pids");
}

// A number may have been given to another process meanwhile: it must be one of the cell's still.
static bool kill_holder(const struct cell *c, pid_t pid)
{
	char path[2][48], ns[2][64] = {"", "?"};
	struct err e;
	auto_fd int fd = loop_pidfd(pid, &e);
	for (int i = 0; fd >= 0 && i < 2; i++) {
		ssize_t n = fmt_to(path[i], sizeof path[i], "/proc/%d/ns/pid", (int)(i ? pid : c->init_pid)) ? -1 : readlink(path[i], ns[i], sizeof ns[i] - 1);
		ns[i][n < 0 ? 0 : n] = 0;
	}
	return fd >= 0 && *ns[0] && !strcmp(ns[0], ns[1]) && !syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static void on_unnamed(struct watch *w, uint32_t events)
{
	struct cell *c = container_of(w, struct cell, unnamed);
	struct unnamed u;
	(void)events;
	bool whole = helper_end(c, w, &u, sizeof u);
	c->unnamed_memory = whole ? u.memory : 0;
	if (!whole || !c->spec.limits.memory || u.memory <= c->spec.limits.memory)
		return;
	c->told_memory = true;
	watchdog_hit(c, "memory", "the process with most memory in files without a name and in sockets was killed: the sandbox reached its memory limit; see --memory");
	if (!kill_holder(c, u.holder))
		kill_all(c, "the sandbox reached its memory limit");
}

static void count_unnamed(const struct cell *c, void *out)
{
	unnamed_count(c->init_pid, out);
}

// A cgroup counts memory in files that only a descriptor holds; where there is none they are looked for.
static void look_for_unnamed(struct cell *c)
{
	if (c->unnamed.fd >= 0 || c->samples++ % UNNAMED_EVERY)
		return;
	c->unnamed.fn = on_unnamed;
	helper_start(c, &c->unnamed, count_unnamed, sizeof(struct unnamed));
}

// --- disk ---

static char *disk_message(const struct cell *c, const struct disk_use *u)
{
	const struct limits *l = &c->spec.limits;
	if (u->too_deep)
		return xasprintf("the sandbox has more than %d directories below each other, which are not counted; its commands were stopped. "
				 "Remove them with: skep exec %s -- rm ...",
				 DISK_DEPTH, c->spec.sandbox);
	if (l->files && u->files > l->files)
		return xasprintf("the sandbox holds %llu files, more than its limit of %llu; its commands were "
				 "stopped. Remove some with: skep exec %s -- rm ...",
				 (unsigned long long)u->files, (unsigned long long)l->files, c->spec.sandbox);
	return xasprintf("the sandbox uses %llu MiB of disk, more than its limit of %llu MiB; its commands "
			 "were stopped. Remove files with: skep exec %s -- rm ..., or see --disk",
			 (unsigned long long)(u->bytes >> 20), (unsigned long long)(l->disk >> 20), c->spec.sandbox);
}

static void over_disk(struct cell *c, const struct disk_use *u)
{
	const struct limits *l = &c->spec.limits;
	// Once over, cleaning up must be possible: only growth from there on is stopped again.
	uint64_t bytes = l->disk > c->disk_floor ? l->disk : c->disk_floor;
	bool many = l->files && u->files > l->files;
	bool deep = u->too_deep && l->disk && c->deep_looks++ % DEEP_LOOKS == 0; // how much was removed down there nobody knows
	if ((!l->disk || u->bytes <= bytes) && !many && !deep) {
		if (u->bytes < l->disk)
			c->disk_floor = 0;
		return;
	}
	c->disk_floor = u->bytes + (1 << 20);
	auto_free char *msg = disk_message(c, u);
	watchdog_hit(c, "disk", msg);
	kill_all(c, msg);
}

static void on_walked(struct watch *w, uint32_t events)
{
	struct cell *c = container_of(w, struct cell, walk);
	struct disk_use u;
	(void)events;
	if (helper_end(c, w, &u, sizeof u))
		over_disk(c, &u);
}

static void count_disk(const struct cell *c, void *out)
{
	disk_use_count(c->spec.layer, c->init_pid, out);
}

static void start_walk(struct cell *c)
{
	if (c->walk.fd >= 0)
		return;
	c->walk.fn = on_walked;
	helper_start(c, &c->walk, count_disk, sizeof(struct disk_use));
}

static void sample_disk(struct cell *c)
{
	struct statvfs st;
	if (statvfs(c->spec.layer, &st))
		return;
	uint64_t free_bytes = st.f_bavail * st.f_frsize, free_files = st.f_favail, limit = c->spec.limits.disk;
	uint64_t pace = limit && limit / 16 < WALK_BYTES ? limit / 16 : WALK_BYTES;
	if (free_bytes < LIMIT_HOST_RESERVE && c->walk_free >= LIMIT_HOST_RESERVE) {
		watchdog_hit(c, "disk", "the host's disk is nearly full; the sandbox's commands were stopped");
		kill_all(c, "the host's disk is nearly full");
	}
	if (free_bytes > c->walk_free)
		c->walk_free = free_bytes;
	if (free_files > c->walk_free_files)
		c->walk_free_files = free_files;
	if (c->walk_free - free_bytes < pace && c->walk_free_files - free_files < WALK_FILES)
		return;
	c->walk_free = free_bytes;
	c->walk_free_files = free_files;
	start_walk(c);
}

static bool has_processes(struct cell *c)
{
	struct cgroup_usage u;
	struct err e;
	if (sx_running(c))
		return true;
	if (c->has_cgroup && !cgroup_usage(&c->cgroup, &u, &e) && u.pids)
		return u.pids > 1;
	return false;
}

static void on_sample(struct timer *t)
{
	struct cell *c = container_of(t, struct cell, sample);
	if (c->stage != CELL_UP)
		return;
	if (!c->paused) {
		watchdog_check_cgroup(c);
		if (held_release(c->init_pid))
			watchdog_hit(c, "exec", "a command was stopped by another process of the sandbox before it began, and was ended");
		if (supervised(c)) {
			look_for_unnamed(c);
			expect_answer(c);
		}
		sample_disk(c);
	}
	if (has_processes(c))
		timer_set(&c->loop, t, SAMPLE_MS);
}

void watchdog_start(struct cell *c)
{
	uint64_t now = clock_unix_ms();
	struct statvfs st;
	c->ttl.fn = on_ttl;
	c->idle.fn = on_idle;
	c->sample.fn = on_sample;
	if (!statvfs(c->spec.layer, &st)) {
		c->walk_free = st.f_bavail * st.f_frsize;
		c->walk_free_files = st.f_favail;
	}
	if (c->spec.expires_unix_ms)
		timer_set(&c->loop, &c->ttl, c->spec.expires_unix_ms > now ? c->spec.expires_unix_ms - now : 0);
	else
		timer_clear(&c->loop, &c->ttl);
	watchdog_activity(c);
}

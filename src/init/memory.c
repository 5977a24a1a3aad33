// SPDX-License-Identifier: Apache-2.0
#include "init/memory.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS 250
#define LOOK_MIN_MS 5
#define LOOK_SHARE 8	      // a look takes at most such a part of the time
#define FASTEST (4u << 20)    // bytes a millisecond that are taken at most
#define WORTH (1u << 20)      // a process with less is not killed beside another one
#define NEARLY 4u	      // from three quarters of the limit on looks are precise
#define KILLED_MS 2000	      // until then a killed process is expected to be gone
#define KILLED_MAX 64
#define PUT_OFF_MAX 4 // looks in a row that end without a kill since processes are ending
#define PROCS_MAX 65536

struct resident {
	pid_t pid, parent;
	char state;
	uint64_t own, shared, size; // anonymous, swapped, page tables; shared anonymous; of the address space. Pages of files are the host's
};

struct residents {
	struct resident *v;
	size_t n;
	uint64_t sum; // of what counts
};

static struct {
	struct loop *loop;
	uint64_t limit, unnamed, used;
	bool trace, over; // over: by the look before
	size_t n_before;  // processes of the look before
	int n_put_off;
	void (*killed)(uint64_t used, pid_t pid);
	struct timer timer;
	uint64_t excess, excess_until_ms; // what quick looks count too much
	struct {
		pid_t pid;
		uint64_t until_ms;
	} dying[KILLED_MAX];
} self;

// --- processes ---

static uint64_t kib_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t v = 0;
	if (!at)
		return 0;
	at += strlen(key);
	at += strspn(at, " \t");
	return str_to_u64((struct str){at, strspn(at, "0123456789")}, 0, UINT64_MAX / 1024, &v) ? 0 : v * 1024;
}


static bool is_dying(pid_t pid)
{
	for (size_t i = 0; i < KILLED_MAX; i++)
		if (self.dying[i].pid == pid && clock_ms() < self.dying[i].until_ms)
			return true;
	return false;
}

static bool resident_read(pid_t pid, struct resident *out)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(8192);
	if (fmt_to(path, sizeof path, "/proc/%d/status", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return false;
	const char *text = buf_cstr(&b), *state = strstr(text, "\nState:\t");
	*out = (struct resident){
		.pid = pid, .parent = (pid_t)(kib_after(text, "\nPPid:") / 1024), .state = state ? state[strlen("\nState:\t")] : '?',
		.own = kib_after(text, "\nRssAnon:") + kib_after(text, "\nVmSwap:") + kib_after(text, "\nVmPTE:"),
		.shared = kib_after(text, "\nRssShmem:"), .size = kib_after(text, "\nVmSize:"),
	};
	return true;
}

// A child of vfork runs in its parent's memory, and the parent waits in the kernel.
static bool is_borrowed(const struct residents *rs, const struct resident *r)
{
	for (size_t i = 0; self.trace && r->own > WORTH && i < rs->n; i++) {
		const struct resident *p = &rs->v[i];
		if (p->pid == r->parent && p->state == 'D' && p->size == r->size)
			return !syscall(SYS_kcmp, r->pid, p->pid, KCMP_VM, 0, 0);
	}
	return false;
}

static void residents_read(struct residents *rs)
{
	DIR *d = opendir("/proc");
	struct dirent *ent;
	uint64_t pid;
	while (d && (ent = readdir(d)) && rs->n < PROCS_MAX) {
		if (str_to_u64(str_of(ent->d_name), 2, INT32_MAX, &pid))
			continue;
		if (!(rs->n & (rs->n - 1)))
			rs->v = xrealloc(rs->v, (rs->n ? rs->n * 2 : 1) * sizeof *rs->v);
		if (resident_read((pid_t)pid, &rs->v[rs->n]) && !is_dying((pid_t)pid))
			rs->n++;
	}
	if (d)
		closedir(d);
	for (size_t i = 0; i < rs->n; i++)
		if (is_borrowed(rs, &rs->v[i]))
			rs->v[i].own = rs->v[i].shared = 0;
}

// Bytes of the process's own, with a share of each page that others have too; false where that is not told.
static bool resident_share(pid_t pid, uint64_t *out)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(8192);
	if (fmt_to(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return false;
	const char *text = buf_cstr(&b);
	*out = kib_after(text, "\nPss_Anon:") + kib_after(text, "\nSwapPss:");
	return strstr(text, "\nPss_Anon:");
}

// A process that tells nothing has ended, and then has no memory any more, or is not dumpable and stays as it was counted.
static void resident_refine(struct resident *r)
{
	struct resident now;
	uint64_t own;
	if (r->own + r->shared < WORTH)
		return;
	if (!resident_share(r->pid, &own))
		own = resident_read(r->pid, &now) ? now.own : 0;
	if (own < r->own)
		r->own = own;
}

// --- elsewhere ---

// They may be parts of one, or in an image three; /tmp may be of the layer, which is no memory.
static uint64_t tmpfs_used(void)
{
	static const char *const paths[] = {"/tmp", "/run", "/dev/shm"};
	uint64_t sum = 0;
	dev_t seen[countof(paths)] = {0};
	for (size_t i = 0; i < countof(paths); i++) {
		struct stat st;
		struct statfs fs;
		bool again = false;
		if (stat(paths[i], &st) || statfs(paths[i], &fs) || fs.f_type != TMPFS_MAGIC)
			continue;
		for (size_t k = 0; k < i; k++)
			again |= seen[k] == st.st_dev;
		seen[i] = st.st_dev;
		if (!again)
			sum += (fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	}
	return sum;
}

static void segment_remove(const uint64_t *column)
{
	if (!column[6]) // attached by nobody
		shmctl((int)column[1], IPC_RMID, NULL);
}

static void queue_remove(const uint64_t *column)
{
	msgctl((int)column[1], IPC_RMID, NULL);
}

static void semaphores_remove(const uint64_t *column)
{
	semctl((int)column[1], 0, IPC_RMID);
}

// What System V objects hold is there whether a process uses them or not.
static const struct ipc_table {
	const char *path;
	size_t column;	// that counts, from 0
	uint64_t unit, each; // bytes of one in that column; of an object beside them
	void (*remove)(const uint64_t *column);
} ipc_tables[] = {
	// key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap
	{"/proc/sysvipc/shm", 14, 1, 0, segment_remove},
	// key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime
	{"/proc/sysvipc/msg", 3, 1, 512, queue_remove},
	// key semid perms nsems uid gid cuid cgid otime ctime
	{"/proc/sysvipc/sem", 3, 128, 512, semaphores_remove},
};

// Past the limit everything goes that has a size and that no process has attached.
static uint64_t ipc_table_used(const struct ipc_table *t, bool remove)
{
	auto_buf struct buf b = BUF_INIT(16 << 20);
	struct str rest, line;
	struct err e;
	uint64_t sum = 0;
	if (fs_read(AT_FDCWD, t->path, &b, &e))
		return 0;
	rest = str_of(buf_cstr(&b));
	str_next(&rest, '\n', &line); // the heading
	while (str_next(&rest, '\n', &line)) {
		uint64_t column[16] = {0};
		size_t n = 0;
		struct str part;
		while (n < countof(column) && str_next(&line, ' ', &part))
			if (part.n && str_to_u64(part, 0, INT64_MAX, &column[n++]))
				column[n - 1] = 0; // a negative key
		if (n <= t->column)
			continue;
		sum += column[t->column] * t->unit + t->each;
		if (remove && column[t->column])
			t->remove(column);
	}
	return sum;
}

static uint64_t ipc_used(bool remove)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < countof(ipc_tables); i++)
		sum += ipc_table_used(&ipc_tables[i], remove);
	return sum;
}

// --- looks ---

// Memory that several processes map counts once, and what is mapped and open, or mapped and a segment, too.
static uint64_t residents_sum(struct residents *rs, uint64_t elsewhere)
{
	uint64_t shared = 0;
	rs->sum = tmpfs_used();
	for (size_t i = 0; i < rs->n; i++) {
		rs->sum += rs->v[i].own;
		if (rs->v[i].shared > shared)
			shared = rs->v[i].shared;
	}
	rs->sum += shared > elsewhere ? shared : elsewhere;
	return rs->sum;
}

static int resident_by_size(const void *a, const void *b)
{
	const struct resident *x = a, *y = b;
	uint64_t m = x->own + x->shared, n = y->own + y->shared;
	return (m < n) - (m > n);
}

static void dying_add(pid_t pid)
{
	uint64_t now = clock_ms();
	size_t at = 0;
	for (size_t i = 0; i < KILLED_MAX; i++)
		if (self.dying[i].until_ms < self.dying[at].until_ms)
			at = i;
	self.dying[at].pid = pid;
	self.dying[at].until_ms = now + KILLED_MS;
}

// The largest, and more as long as what is left is too much and they are worth it.
static void residents_kill(struct residents *rs)
{
	uint64_t left = rs->sum;
	qsort(rs->v, rs->n, sizeof *rs->v, resident_by_size);
	for (size_t i = 0; i < rs->n && left > self.limit; i++) {
		const struct resident *r = &rs->v[i];
		if (i && r->own + r->shared < WORTH)
			break;
		if (kill(r->pid, SIGKILL))
			continue;
		dying_add(r->pid);
		left -= r->own < left ? r->own : left;
		self.killed(rs->sum, r->pid);
	}
}

// Each page once.
static void residents_refine(struct residents *rs, uint64_t elsewhere)
{
	uint64_t quick = rs->sum;
	for (size_t i = 0; i < rs->n; i++)
		resident_refine(&rs->v[i]);
	self.excess = quick - residents_sum(rs, elsewhere);
	self.excess_until_ms = clock_ms() + LOOK_MS;
}

// While processes that share pages end one after the other, each of the others is read with a larger part of these pages than
// the one before, so that the sum is too large. A look that comes upon fewer processes is made again, a few times.
static bool residents_shrink(const struct residents *rs)
{
	size_t n = 0, before = self.n_before;
	for (size_t i = 0; i < rs->n; i++)
		n += rs->v[i].own + rs->v[i].shared >= WORTH; // one that has ended may still be listed
	self.n_before = n;
	bool again = n < before && self.n_put_off < PUT_OFF_MAX;
	self.n_put_off = again ? self.n_put_off + 1 : 0;
	return again;
}

static size_t memory_look(void)
{
	struct residents rs = {0};
	uint64_t objects = ipc_used(false), elsewhere = self.unnamed + objects;
	residents_read(&rs);
	residents_sum(&rs, elsewhere);
	uint64_t excess = clock_ms() < self.excess_until_ms && self.excess < rs.sum ? self.excess : 0;
	self.used = rs.sum - excess;
	if (self.used > self.limit / NEARLY * (NEARLY - 1)) {
		residents_refine(&rs, elsewhere);
		self.used = rs.sum;
	}
	bool shrinks = residents_shrink(&rs), past = self.used > self.limit, kills = past && self.over && !shrinks;
	self.over = past;
	if (kills) {
		self.unnamed = 0; // may have been what is killed now: until the supervisor has looked again
		if (objects)
			ipc_used(true);
		residents_kill(&rs);
	}
	free(rs.v);
	return rs.n;
}

static void on_memory_timer(struct timer *t)
{
	uint64_t before = clock_us(), n = memory_look(), cost = (clock_us() - before) / 1000 * LOOK_SHARE;
	uint64_t left = self.limit > self.used ? self.limit - self.used : 0, ms = left / FASTEST;
	if (!n)
		return;
	if (ms < cost)
		ms = cost;
	if (ms < LOOK_MIN_MS)
		ms = LOOK_MIN_MS;
	timer_set(self.loop, t, ms < LOOK_MS ? ms : LOOK_MS);
}

void memory_init(struct loop *loop, uint64_t limit, bool trace, void (*killed)(uint64_t used, pid_t pid))
{
	self.loop = loop;
	self.limit = limit;
	self.trace = trace;
	self.killed = killed;
	self.timer.fn = on_memory_timer;
}

void memory_begin(void)
{
	if (self.limit && !self.timer.at_ms)
		timer_set(self.loop, &self.timer, LOOK_MIN_MS);
}

uint64_t memory_used(uint64_t unnamed)
{
	self.unnamed = unnamed;
	if (self.limit && !self.timer.at_ms) // daemons that nobody started by a command
		timer_set(self.loop, &self.timer, LOOK_MIN_MS);
	return self.used;
}

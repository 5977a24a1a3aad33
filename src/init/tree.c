// SPDX-License-Identifier: Apache-2.0
#include "init/tree.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCS_MAX 65536
#define KILL_ROUNDS 64

struct proc {
	pid_t pid, parent, session;
	char state;
	bool member;
	uint32_t threads;
};

struct procs {
	struct proc *list;
	size_t n;
};

static bool read_stat(pid_t pid, struct proc *out)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(4096);
	if (fmt_to(path, sizeof path, "/proc/%d/stat", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return false;
	const char *p = strrchr(buf_cstr(&b), ')');
	if (!p)
		return false;
	struct str rest = str_of(p + 2), part;
	uint64_t v[18] = {0};
	for (size_t i = 0; i < countof(v) && str_next(&rest, ' ', &part); i++)
		if (i == 0)
			out->state = part.n ? *part.p : '?';
		else if (str_to_u64(part, 0, INT32_MAX, &v[i]))
			v[i] = 0;
	*out = (struct proc){pid, (pid_t)v[1], (pid_t)v[3], out->state, false, (uint32_t)v[17]};
	return true;
}

static void list_procs(struct procs *ps)
{
	DIR *d = opendir("/proc");
	struct dirent *ent;
	while (d && (ent = readdir(d)) && ps->n < PROCS_MAX) {
		uint64_t pid;
		if (str_to_u64(str_of(ent->d_name), 2, INT32_MAX, &pid))
			continue;
		if (!(ps->n & (ps->n - 1)))
			ps->list = xrealloc(ps->list, (ps->n ? ps->n * 2 : 1) * sizeof *ps->list);
		if (read_stat((pid_t)pid, &ps->list[ps->n]))
			ps->n++;
	}
	if (d)
		closedir(d);
}

static bool carries_mark(pid_t pid, const char *exec_id)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(256 << 10);
	auto_free char *mark = xasprintf("SKEP_EXEC=%s", exec_id);
	if (fmt_to(path, sizeof path, "/proc/%d/environ", (int)pid))
		return false;
	if (fs_read(AT_FDCWD, path, &b, &e) && !b.n)
		return false;
	for (size_t at = 0; at < b.n; at += strlen(b.p + at) + 1)
		if (!strcmp(b.p + at, mark))
			return true;
	return false;
}

static void mark_members(struct procs *ps, pid_t leader, const char *exec_id)
{
	for (size_t i = 0; i < ps->n; i++) {
		struct proc *p = &ps->list[i];
		p->member = p->pid == leader || p->session == leader || carries_mark(p->pid, exec_id);
	}
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < ps->n; i++)
			for (size_t k = 0; !ps->list[i].member && k < ps->n; k++)
				if (ps->list[k].member && ps->list[k].pid == ps->list[i].parent)
					ps->list[i].member = more = true;
	}
}

static size_t signal_once(pid_t leader, const char *exec_id, int sig)
{
	struct procs ps = {0};
	size_t hit = 0;
	list_procs(&ps);
	mark_members(&ps, leader, exec_id);
	for (size_t i = 0; i < ps.n; i++)
		if (ps.list[i].member && ps.list[i].state != 'Z' && !kill(ps.list[i].pid, sig))
			hit++;
	free(ps.list);
	return hit;
}

void tree_signal(pid_t leader, const char *exec_id, int sig)
{
	// A tree that forks while it is being killed is stopped first, then killed, until a look finds nobody.
	for (int i = 0; i < (sig == SIGKILL ? KILL_ROUNDS : 1); i++)
		if (!signal_once(leader, exec_id, sig))
			break;
}

size_t tree_count(pid_t but)
{
	struct procs ps = {0};
	size_t live = 0;
	list_procs(&ps);
	for (size_t i = 0; i < ps.n; i++)
		live += ps.list[i].state != 'Z' && ps.list[i].pid != but;
	free(ps.list);
	return live;
}

size_t tree_tasks(void)
{
	struct procs ps = {0};
	size_t n = 0;
	list_procs(&ps);
	for (size_t i = 0; i < ps.n; i++)
		n += ps.list[i].threads ? ps.list[i].threads : 1; // the dead have none, but keep a number
	free(ps.list);
	return n;
}

// Whoever loses its parent becomes ours: where we have no child, there is no process. (To signal all of them makes the
// kernel look at every process of the host.)
bool tree_is_empty(void)
{
	siginfo_t si;
	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) && errno == ECHILD;
}

static pid_t *stopped_before;
static size_t n_stopped_before;

void tree_stop_all(void)
{
	struct procs ps = {0};
	list_procs(&ps);
	free(stopped_before);
	stopped_before = xcalloc(ps.n, sizeof *stopped_before);
	n_stopped_before = 0;
	for (size_t i = 0; i < ps.n; i++)
		if (ps.list[i].state == 'T')
			stopped_before[n_stopped_before++] = ps.list[i].pid;
	free(ps.list);
	kill(-1, SIGSTOP);
}

static char thread_state(pid_t pid, const char *thread)
{
	char path[64];
	struct err e;
	auto_buf struct buf b = BUF_INIT(4096);
	if (fmt_to(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, thread) || fs_read(AT_FDCWD, path, &b, &e))
		return 'X';
	const char *p = strrchr(buf_cstr(&b), ')');
	return p && p[1] ? p[2] : '?';
}

static bool is_stopped(pid_t pid)
{
	char path[48];
	if (fmt_to(path, sizeof path, "/proc/%d/task", (int)pid))
		return false;
	DIR *d = opendir(path);
	struct dirent *ent;
	bool all = true;
	while (d && all && (ent = readdir(d)))
		all = ent->d_name[0] == '.' || strchr("TtZX", thread_state(pid, ent->d_name));
	if (d)
		closedir(d);
	return all; // no directory: it is gone
}

bool tree_all_stopped(void)
{
	struct procs ps = {0};
	bool all = true;
	list_procs(&ps);
	for (size_t i = 0; i < ps.n && all; i++)
		all = is_stopped(ps.list[i].pid);
	free(ps.list);
	return all;
}

void tree_stop_again(void)
{
	kill(-1, SIGSTOP);
}

static bool was_stopped(pid_t pid)
{
	bool before = false;
	for (size_t k = 0; k < n_stopped_before; k++)
		before |= stopped_before[k] == pid;
	return before;
}

void tree_release_children(void)
{
	struct procs ps = {0};
	list_procs(&ps);
	for (size_t i = 0; i < ps.n; i++)
		for (size_t k = 0; ps.list[i].state != 'T' && k < ps.n; k++)
			if (ps.list[k].parent == ps.list[i].pid && ps.list[k].state == 'T' && !was_stopped(ps.list[k].pid))
				kill(ps.list[k].pid, SIGCONT);
	free(ps.list);
}

void tree_continue_all(void)
{
	struct procs ps = {0};
	list_procs(&ps);
	for (size_t i = 0; i < ps.n; i++)
		if (!was_stopped(ps.list[i].pid))
			kill(ps.list[i].pid, SIGCONT);
	free(ps.list);
	n_stopped_before = 0;
}

struct resident {
	uint64_t own, shared; // anonymous; shared anonymous. Pages of files are the host's
};

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

static struct resident resident(pid_t pid)
{
	char path[48];
	struct err e;
	auto_buf struct buf b = BUF_INIT(8192);
	if (fmt_to(path, sizeof path, "/proc/%d/status", (int)pid) || fs_read(AT_FDCWD, path, &b, &e))
		return (struct resident){0};
	return (struct resident){kib_after(buf_cstr(&b), "RssAnon:"), kib_after(buf_cstr(&b), "RssShmem:")};
}

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

uint64_t tree_memory(uint64_t limit, uint64_t unnamed, pid_t *out_killed)
{
	struct procs ps = {0};
	uint64_t segments = ipc_used(false), sum = tmpfs_used(), most = 0, shared = 0;
	pid_t largest = 0;
	list_procs(&ps);
	for (size_t i = 0; i < ps.n; i++) {
		struct resident r = resident(ps.list[i].pid);
		sum += r.own;
		if (r.shared > shared) // most often the same pages in each of them
			shared = r.shared;
		if (r.own + r.shared > most) {
			most = r.own + r.shared;
			largest = ps.list[i].pid;
		}
	}
	// What is mapped and open, or mapped and a segment, would else count twice.
	unnamed += segments;
	sum += shared > unnamed ? shared : unnamed;
	if (limit && sum > limit && segments)
		ipc_used(true);
	free(ps.list);
	*out_killed = limit && sum > limit && largest && !kill(largest, SIGKILL) ? largest : 0;
	return sum;
}

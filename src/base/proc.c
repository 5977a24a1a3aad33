// SPDX-License-Identifier: Apache-2.0
#include "base/proc.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// Descriptors are born close-on-exec everywhere in the tree, so the actions only have to place the listed
// ones. A listed number that is itself the source of a later one is saved by the high copies made first.
static int place_fds(posix_spawn_file_actions_t *fa, const struct proc_spec *s, int *high)
{
	bool have[3] = {false};
	int above = 3; // every listed number: a process may have no more than 64 descriptors
	for (int i = 0; i < s->n_fds; i++)
		if (s->fds[i].to >= above)
			above = s->fds[i].to + 1;
	for (int i = 0; i < s->n_fds; i++) {
		high[i] = fcntl(s->fds[i].from, F_DUPFD_CLOEXEC, above);
		if (high[i] < 0 || posix_spawn_file_actions_adddup2(fa, high[i], s->fds[i].to))
			return -1;
		if (s->fds[i].to < 3)
			have[s->fds[i].to] = true;
	}
	for (int fd = 0; fd < 3; fd++)
		if (!have[fd] && posix_spawn_file_actions_addopen(fa, fd, "/dev/null", O_RDWR, 0))
			return -1;
	return 0;
}

pid_t proc_spawn(const struct proc_spec *s, struct err *e)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int high[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
	pid_t pid = -1;
	int rc = s->n_fds > (int)countof(high) ? EINVAL : 0;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_SETSID
	if (s->new_session)
		flags |= POSIX_SPAWN_SETSID;
#endif
	posix_spawnattr_setflags(&attr, flags);
	// Ours are close-on-exec; what our own starter left open in us must not pass through either.
	syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (!rc && place_fds(&fa, s, high))
		rc = errno;
	if (!rc)
		rc = posix_spawn(&pid, s->path, &fa, &attr, s->argv, s->env ? s->env : environ);
	for (size_t i = 0; i < countof(high); i++)
		close_fd(&high[i]);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	if (rc) {
		errno = rc;
		return err_sys(e, "start %s", s->path);
	}
	return pid;
}

char *proc_find(const char *path, const char *name)
{
	struct str rest = str_of(path ? path : ""), dir;
	while (str_next(&rest, ':', &dir)) {
		auto_free char *file = xasprintf("%.*s/%s", (int)dir.n, dir.p, name);
		if (dir.n && *dir.p == '/' && !access(file, X_OK))
			return take(&file);
	}
	return NULL;
}

char *proc_beside(const char *name, struct err *e)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
	if (!slash) {
		err_sys(e, "find our own program");
		return NULL;
	}
	return xasprintf("%.*s/%s", (int)(slash - self), self, name);
}

int proc_run(const char *path, char *const *argv, struct buf *out, int *out_status, struct err *e)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		return err_sys(e, "pipe");
	auto_fd int r = p[0], w = p[1];
	struct proc_fd fds[] = {{w, 1}, {STDERR_FILENO, 2}};
	pid_t pid = proc_spawn(&(struct proc_spec){.path = path, .argv = argv, .fds = fds, .n_fds = 2}, e);
	if (pid < 0)
		return -1;
	close_fd(&w);
	int rc = fs_read_fd(r, out, e), status;
	close_fd(&r);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*out_status = status;
	return rc;
}

// Field n (from 3 on) of /proc/PID/stat in `b`; empty when there is no such process.
static struct str proc_stat_field(pid_t pid, int n, struct buf *b)
{
	char path[32];
	struct err e;
	if (fmt_to(path, sizeof path, "/proc/%d/stat", (int)pid) || fs_read(AT_FDCWD, path, b, &e))
		return str_of("");
	char *p = strrchr(buf_cstr(b), ')'); // the name before it may hold anything
	struct str rest = p ? str_of(p + 2) : str_of(""), part;
	for (int field = 3; str_next(&rest, ' ', &part); field++)
		if (field == n)
			return part;
	return str_of("");
}

uint64_t proc_start_time(pid_t pid)
{
	auto_buf struct buf b = BUF_INIT(4096);
	uint64_t v = 0;
	if (str_to_u64(proc_stat_field(pid, 22, &b), 0, UINT64_MAX, &v))
		return 0;
	return v;
}

bool proc_is_stopped(pid_t pid)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct str state = proc_stat_field(pid, 3, &b);
	return state.n == 1 && (*state.p == 'T' || *state.p == 't');
}

// As in linux/sched/types.h, which musl's headers do not go with.
struct sched_values {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

void proc_stretch(pid_t pid, uint64_t ns)
{
	struct sched_values v = {0};
	if (syscall(SYS_sched_getattr, pid, &v, sizeof v, 0))
		return; // nothing depends on it but time
	v.flags = 0;
	v.runtime = ns;
	v.deadline = v.period = 0;
	syscall(SYS_sched_setattr, pid, &v, 0);
}

// SPDX-License-Identifier: Apache-2.0
// Verdicts, small readers, and system calls tried in children.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

PRINTF(3, 0) static void add(char *dst, size_t size, const char *format, va_list ap)
{
	size_t n = strlen(dst);

	if (n && n + 3 < size) {
		memcpy(dst + n, "; ", 3);
		n += 2;
	}
	vsnprintf(dst + n, size - n, format, ap);
	for (char *c = dst + n; *c; c++) // one line, whatever a path or a file brought
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
}

void held(struct probe *p)
{
	__atomic_add_fetch(&p->held, 1, __ATOMIC_RELAXED);
}

#define ADD_TO(field)                                        \
	do {                                                 \
		va_list ap;                                  \
		va_start(ap, format);                        \
		add(p->field, sizeof(p->field), format, ap); \
		va_end(ap);                                  \
	} while (0)

void broke(struct probe *p, const char *format, ...)
{
	__atomic_add_fetch(&p->broke, 1, __ATOMIC_RELAXED);
	ADD_TO(escapes);
}

void judge(struct probe *p, bool contained, const char *format, ...)
{
	if (contained) {
		held(p);
		return;
	}
	__atomic_add_fetch(&p->broke, 1, __ATOMIC_RELAXED);
	ADD_TO(escapes);
}

void note(struct probe *p, const char *format, ...)
{
	ADD_TO(notes);
}

void skip(struct probe *p, const char *format, ...)
{
	ADD_TO(skip);
}

void nocontrol(struct probe *p, const char *format, ...)
{
	ADD_TO(nocontrol);
}

char *fmt(char *dst, size_t size, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(dst, size, format, ap);
	va_end(ap);
	return dst;
}

const char *env_or(const char *name, const char *otherwise)
{
	const char *v = getenv(name);

	return v && *v ? v : otherwise;
}

long env_long(const char *name, long otherwise)
{
	const char *v = getenv(name);

	return v && *v ? strtol(v, NULL, 0) : otherwise;
}

const char *err_name(int err)
{
	static const struct {
		int err;
		const char *name;
	} names[] = {
		{0, "success"},	    {EPERM, "EPERM"}, {EACCES, "EACCES"}, {ENOSYS, "ENOSYS"}, {EINVAL, "EINVAL"},
		{EFAULT, "EFAULT"}, {EBADF, "EBADF"}, {ENOENT, "ENOENT"}, {ESRCH, "ESRCH"},   {EAGAIN, "EAGAIN"},
		{ENOMEM, "ENOMEM"}, {EROFS, "EROFS"}, {ENODEV, "ENODEV"}, {ENOTTY, "ENOTTY"}, {EMFILE, "EMFILE"},
	};

	for (size_t i = 0; i < LEN(names); i++)
		if (names[i].err == err)
			return names[i].name;
	return strerror(err);
}

ssize_t slurp_fd(int fd, void *buf, size_t size)
{
	size_t n = 0;
	ssize_t r;

	while (n + 1 < size && (r = read(fd, (char *)buf + n, size - 1 - n)) > 0)
		n += (size_t)r;
	((char *)buf)[n] = 0;
	return (ssize_t)n;
}

ssize_t slurp(const char *path, void *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	ssize_t n = slurp_fd(fd, buf, size);
	close(fd);
	return n;
}

bool has_marker(const struct probe *p, const void *buf, size_t n)
{
	return p->has_marker && memmem(buf, n, p->marker, MARKER_SIZE);
}

bool reads_marker(const struct probe *p, const char *path)
{
	char buf[4096];
	ssize_t n = slurp(path, buf, sizeof(buf));

	return n > 0 && has_marker(p, buf, (size_t)n);
}

bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool status_field(const char *path, const char *name, char *out, size_t size)
{
	char buf[8192], want[64];

	if (slurp(path, buf, sizeof(buf)) < 0)
		return false;
	fmt(want, sizeof(want), "\n%s:\t", name);
	const char *at = strstr(buf, want);
	if (!at)
		return false;
	at += strlen(want);
	fmt(out, size, "%.*s", (int)strcspn(at, "\n"), at);
	return true;
}

size_t list_pids(int *out, size_t max)
{
	DIR *d = opendir("/proc");
	size_t n = 0;
	struct dirent *e;

	while (d && n < max && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			out[n++] = (int)strtol(e->d_name, NULL, 10);
	if (d)
		closedir(d);
	return n;
}

void each_path(struct probe *p, const char *list, void (*fn)(struct probe *p, const char *path))
{
	char path[PATH_SIZE];

	while (*list) {
		size_t n = strcspn(list, ":");
		fmt(path, sizeof(path), "%.*s", (int)n, list);
		if (n)
			fn(p, path);
		list += n + (list[n] == ':');
	}
}

struct answer try_call(long nr, const long a[6])
{
	struct answer *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct answer got = {.err = ECHILD};
	int status;

	if (shared == MAP_FAILED)
		return got;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(5);
		errno = 0;
		long r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		*shared = (struct answer){.err = r == -1 ? errno : 0, .ret = r};
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid) {
		got = *shared;
		got.sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	}
	munmap(shared, sizeof(*shared));
	return got;
}

bool is_refused(struct answer a)
{
	return a.sig == SIGSYS || a.sig == SIGKILL || a.err == EPERM || a.err == EACCES || a.err == ENOSYS;
}

void must_refuse(struct probe *p, const char *what, struct answer a)
{
	judge(p, is_refused(a), "%s is reachable (%s)", what, a.sig ? strsignal(a.sig) : err_name(a.err));
}

int in_child(struct probe *p, void (*fn)(struct probe *p))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(40);
		fn(p);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		broke(p, "no child for an attempt: %s", err_name(errno));
		return -1;
	}
	if (WIFSIGNALED(status))
		note(p, "an attempt ended by signal %d", WTERMSIG(status));
	return status;
}

void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_CREAT, 0600);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		errno = 0;
	close(fd);
}

bool probe_escalate(struct probe *p)
{
	static const int tries[] = {
		CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | 0x02000000 /* NEWCGROUP */,
		CLONE_NEWUSER | CLONE_NEWNS,
		CLONE_NEWNS, // host root would change its own machine with what comes next: inside only
	};
	char map[64];
	unsigned uid = geteuid(), gid = getegid();

	for (size_t i = 0; i < (p->outside ? 2 : LEN(tries)); i++) {
		if (unshare(tries[i]))
			continue;
		put_file("/proc/self/setgroups", "deny");
		put_file("/proc/self/uid_map", fmt(map, sizeof(map), "0 %u 1", uid));
		put_file("/proc/self/gid_map", fmt(map, sizeof(map), "0 %u 1", gid));
		return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || !p->outside;
	}
	if (p->outside)
		nocontrol(p, "user namespaces are off on this host");
	return false;
}

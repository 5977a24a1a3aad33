// SPDX-License-Identifier: Apache-2.0
// T-005, T-007, T-101: what our own processes leave within reach: descriptors, programs, their /proc files.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void judge_stdio(struct probe *p, int fd, const char *to)
{
	struct stat st;

	if (fstat(fd, &st))
		return;
	if (S_ISCHR(st.st_mode) && strcmp(to, "/dev/null")) { // a terminal must be of this cell's own instance
		char own[32];
		bool here = same_file(to, fmt(own, sizeof(own), "/proc/self/fd/%d", fd));
		judge(p, here && !strncmp(to, "/dev/pts/", 9), "fd %d is the device %s", fd, to);
		return;
	}
	judge(p, S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode), "fd %d is %s, not a pipe or a terminal", fd, to);
}

void scan_fds(struct probe *p)
{
	char to[PATH_SIZE], link[64];
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		int fd = (int)strtol(e->d_name, NULL, 10);
		if (fd == dirfd(d))
			continue;
		ssize_t n = readlink(fmt(link, sizeof(link), "/proc/self/fd/%d", fd), to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		if (fd <= 2)
			judge_stdio(p, fd, to);
		else
			broke(p, "inherited fd %d: %s", fd, to);
	}
	if (d)
		closedir(d);
	else
		skip(p, "no /proc/self/fd");
}

void t005_fds(struct probe *p)
{
	if (p->outside && open("/", O_RDONLY | O_DIRECTORY) < 0) // a leak like the one of CVE-2024-21626
		nocontrol(p, "open /: %s", err_name(errno));
	scan_fds(p);
}

static void try_write_exe(struct probe *p, int pid)
{
	char path[64], again[64];
	int fd = open(fmt(path, sizeof(path), "/proc/%d/exe", pid), O_WRONLY | O_CLOEXEC);

	judge(p, fd < 0, "%s opened for writing", path);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		held(p);
		return;
	}
	int w = open(fmt(again, sizeof(again), "/proc/self/fd/%d", fd), O_WRONLY | O_CLOEXEC);
	judge(p, w < 0, "%s opened again for writing", path);
	close(w);
	close(fd);
}

static bool is_our_helper(int pid)
{
	char path[64], to[PATH_SIZE], comm[64] = "";

	fmt(path, sizeof(path), "/proc/%d/comm", pid);
	slurp(path, comm, sizeof(comm));
	ssize_t n = readlink(fmt(path, sizeof(path), "/proc/%d/exe", pid), to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	return pid == 1 || (strstr(to, "/skep") && !strstr(to, "skep-attack")) ||
	       (!strncmp(comm, "skep", 4) && strncmp(comm, "skep-attack", 11));
}

// CVE-2019-5736: keep the helper's program open until it has ended, then write to it.
static void control_exe(struct probe *p)
{
	char copy[PATH_SIZE], link[64];
	static char self[4 << 20];
	ssize_t n = slurp("/proc/self/exe", self, sizeof(self));
	int fd = open(fmt(copy, sizeof(copy), "%s/helper", p->scratch), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd < 0 || n <= 0 || write(fd, self, (size_t)n) != n) {
		nocontrol(p, "no copy of this program: %s", err_name(errno));
		return;
	}
	close(fd);
	pid_t pid = fork();
	if (pid == 0) {
		execl(copy, copy, "hold", NULL);
		_exit(127);
	}
	usleep(50000);
	fd = open(fmt(link, sizeof(link), "/proc/%d/exe", pid), O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	int w = open(fmt(link, sizeof(link), "/proc/self/fd/%d", fd), O_WRONLY | O_CLOEXEC);
	judge(p, w < 0, "program of another process opened for writing");
	unlink(copy);
}

void t007_helper(struct probe *p)
{
	int pids[512];

	if (p->outside) {
		control_exe(p);
		return;
	}
	size_t n = list_pids(pids, LEN(pids));
	for (size_t i = 0; i < n; i++)
		if (is_our_helper(pids[i]))
			try_write_exe(p, pids[i]);
	static const char *const programs[] = {"/usr/local/bin/skep",
					       "/usr/local/libexec/skep-cell",
					       "/usr/bin/skep",
					       "/usr/bin/skepd",
					       "/.skep/init",
					       "/usr/bin/git",
					       "/bin/sh"};
	for (size_t i = 0; i < LEN(programs) && !p->root; i++) {
		int fd = open(programs[i], O_WRONLY | O_CLOEXEC);
		judge(p, fd < 0, "%s opened for writing", programs[i]);
		close(fd);
	}
}

static void try_proc_file(struct probe *p, int pid, const char *name)
{
	char path[96], buf[4096];

	ssize_t n = slurp(fmt(path, sizeof(path), "/proc/%d/%s", pid, name), buf, sizeof(buf));
	judge(p, n <= 0, "%s can be read (%zd bytes)", path, n);
}

static void try_proc_link(struct probe *p, int pid, const char *name)
{
	char path[96], to[PATH_SIZE];
	ssize_t n = readlink(fmt(path, sizeof(path), "/proc/%d/%s", pid, name), to, sizeof(to) - 1);

	to[n > 0 ? n : 0] = 0;
	judge(p, n <= 0, "%s -> %s", path, to);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	judge(p, fd < 0, "%s can be opened", path);
	close(fd);
}

static void try_proc_dir(struct probe *p, int pid, const char *name)
{
	char path[96];
	DIR *d = opendir(fmt(path, sizeof(path), "/proc/%d/%s", pid, name));
	int entries = 0;

	while (d && readdir(d))
		entries++;
	judge(p, entries <= 2, "%s lists %d entries", path, entries - 2);
	if (d)
		closedir(d);
}

static void try_all(struct probe *p, int pid)
{
	static const char *const files[] = {"environ",	      "maps",	     "smaps",	   "auxv",	  "syscall",
					    "stack",	      "io",	     "mem",	   "personality", "pagemap",
					    "task/1/environ", "task/1/maps", "task/1/auxv"};
	static const char *const links[] = {"root",   "cwd",	"exe",	  "fd/0",      "fd/1",	     "fd/2",
					    "fd/3",   "fd/4",	"fd/5",	  "ns/mnt",    "ns/user",    "ns/net",
					    "ns/pid", "ns/ipc", "ns/uts", "ns/cgroup", "task/1/root"};
	static const char *const dirs[] = {"fd", "fdinfo", "map_files"};

	for (size_t i = 0; i < LEN(files); i++)
		try_proc_file(p, pid, files[i]);
	for (size_t i = 0; i < LEN(links); i++)
		try_proc_link(p, pid, links[i]);
	for (size_t i = 0; i < LEN(dirs); i++)
		try_proc_dir(p, pid, dirs[i]);
}

void t101_pid1(struct probe *p)
{
	int pids[512];

	if (p->outside) {
		try_all(p, getppid());
		return;
	}
	size_t n = list_pids(pids, LEN(pids));
	for (size_t i = 0; i < n; i++)
		if (is_our_helper(pids[i]))
			try_all(p, pids[i]);
}

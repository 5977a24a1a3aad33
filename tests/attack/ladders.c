// SPDX-License-Identifier: Apache-2.0
// T-104, T-105, T-106: overlay marks, races, and descriptors used as ladders.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void forge(struct probe *p, const char *dir)
{
	static const char *const names[] = {"whiteout", "opaque", "redirect", "metacopy", "origin",
					    "impure",	"upper",  "nlink",    "protattr", "uuid"};
	const char *target = env_or("SKEP_ATTACK_CANARY_DIR", "/etc");
	char attr[64], value[PATH_SIZE], path[PATH_SIZE + 64];

	mkdir(fmt(path, sizeof(path), "%s/forged", dir), 0755);
	for (size_t i = 0; i < LEN(names); i++) {
		fmt(value, sizeof(value), "%s", !strcmp(names[i], "redirect") ? target : "y");
		fmt(attr, sizeof(attr), "trusted.overlay.%s", names[i]);
		judge(p, setxattr(path, attr, value, strlen(value), 0) != 0, "set %s", attr);
		// This one may be kept, escaped, by the overlay; what must not happen is an effect.
		fmt(attr, sizeof(attr), "user.overlay.%s", names[i]);
		setxattr(path, attr, value, strlen(value), 0);
	}
	setxattr(path, "user.overlay.redirect", "/../../../../../../../../etc", 28, 0);
	fmt(path, sizeof(path), "%s/forged-whiteout", dir);
	judge(p, mknod(path, S_IFCHR | 0600, makedev(0, 0)) != 0, "made a whiteout in %s", dir);
	unlink(path);
	fmt(path, sizeof(path), "%s/forged-node", dir);
	judge(p, mknod(path, S_IFCHR | 0600, makedev(1, 1)) != 0, "made a device in %s", dir);
	unlink(path);
}

// Run again after a restart, the forged directory must still be empty.
static void look_at_forged(struct probe *p)
{
	char path[PATH_SIZE + 64];
	struct stat st;
	static const char *const names[] = {"passwd", "hostname", "shadow", "canary"};

	for (size_t i = 0; i < LEN(names); i++) {
		fmt(path, sizeof(path), "%s/forged/%s", p->ws, names[i]);
		judge(p, stat(path, &st) != 0, "%s shows up through a forged mark", path);
	}
}

void t104_overlay(struct probe *p)
{
	look_at_forged(p);
	forge(p, p->ws);
	look_at_forged(p);
	if (!p->outside)
		forge(p, env_or("HOME", "/tmp"));
}

static void flip(const char *name, const char *target, const char *spare)
{
	put_file(spare, "plain");
	rename(spare, name);
	if (symlink(target, spare) == 0)
		rename(spare, name);
	rename(name, spare);
	unlink(spare);
	mkdir(name, 0755);
	rmdir(name);
}

// Swaps a name between a file, a link to the marker and a directory, while another process reads it, at least 200
// rounds. Host-side readers are raced by the harness, which calls skep meanwhile.
void t105_race(struct probe *p)
{
	char name[PATH_SIZE + 64], spare[PATH_SIZE + 64], target[PATH_SIZE];
	const char *files = env_or("SKEP_ATTACK_FILES", "/etc/shadow");
	long rounds = env_long("SKEP_ATTACK_ROUNDS", 400);

	fmt(target, sizeof(target), "%.*s", (int)strcspn(files, ":"), files);
	mkdir(fmt(name, sizeof(name), "%s/race", p->ws), 0755);
	fmt(name, sizeof(name), "%s/race/x", p->ws);
	fmt(spare, sizeof(spare), "%s/race/y", p->ws);
	pid_t pid = fork();
	if (pid == 0) {
		for (long i = 0; i < rounds; i++)
			flip(name, i % 2 ? target : "../../../../../../../../../../../../../../etc/shadow", spare);
		_exit(0);
	}
	unsigned looks = 0, seen = 0;
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		seen += reads_marker(p, name);
		looks++;
	}
	symlink(target, name);
	seen += reads_marker(p, name);
	unlink(name);
	judge(p, !seen, "marker read %u times through a swapped name", seen);
	note(p, "%ld rounds, %u looks", rounds, looks);
}

static void through_memfd(struct probe *p)
{
	static char self[4 << 20];
	char field[64] = "";
	int fd = (int)syscall(SYS_memfd_create, "x", 0);
	ssize_t n = slurp("/proc/self/exe", self, sizeof(self));
	int status, out[2];

	if (fd < 0 || n <= 0 || write(fd, self, (size_t)n) != n || fchmod(fd, 06755) || pipe2(out, O_CLOEXEC)) {
		held(p);
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		fexecve(fd, (char *const[]){(char *)"x", (char *)"whoami", NULL}, (char *const[]){NULL});
		_exit(127);
	}
	close(out[1]);
	slurp_fd(out[0], field, sizeof(field));
	waitpid(pid, &status, 0);
	judge(p, !field[0] || strtoul(field, NULL, 10) == geteuid(), "a program in memory became uid %s", field);
	close(fd);
	close(out[0]);
}

static bool root_has_marker(const struct probe *p)
{
	char first[PATH_SIZE];
	const char *files = env_or("SKEP_ATTACK_FILES", "");

	fmt(first, sizeof(first), "%.*s", (int)strcspn(files, ":"), files);
	return *first && reads_marker(p, first);
}

// The classic way out of a chroot. With SYS_CHROOT (root profile) it works, and ends at the cell's own root.
static void through_chroot(struct probe *p)
{
	struct stat before, after;
	char dir[PATH_SIZE];

	if (p->outside && !probe_escalate(p))
		return;
	stat("/", &before);
	mkdir(fmt(dir, sizeof(dir), "%s/jail", p->scratch), 0755);
	int top = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (chroot(dir)) {
		held(p);
		return;
	}
	if (fchdir(top) == 0)
		for (int i = 0; i < 64; i++)
			if (chdir(".."))
				break;
	if (chroot("."))
		held(p);
	bool same = stat("/", &after) == 0 && before.st_ino == after.st_ino && before.st_dev == after.st_dev;
	judge(p, same && !root_has_marker(p), "chroot leads to another root%s",
	      root_has_marker(p) ? ", with the marker" : "");
}

// A directory passed through a socket to a process that has changed its root since.
static void through_socket(struct probe *p)
{
	int s[2], dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), got = -1;
	char c = 0, space[CMSG_SPACE(sizeof(int))] = "";
	struct iovec io = {&c, 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};

	if (dir < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		return;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &dir, sizeof(int));
	if (sendmsg(s[0], &m, 0) == 1 && recvmsg(s[1], &m, MSG_CMSG_CLOEXEC) == 1 && (h = CMSG_FIRSTHDR(&m)))
		memcpy(&got, CMSG_DATA(h), sizeof(int));
	char path[PATH_SIZE];
	const char *files = env_or("SKEP_ATTACK_FILES", "/nonexistent");
	fmt(path, sizeof(path), "../../../..%.*s", (int)strcspn(files, ":"), files);
	char buf[256];
	int fd = got < 0 ? -1 : openat(got, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : slurp_fd(fd, buf, sizeof(buf));
	judge(p, n <= 0 || !has_marker(p, buf, (size_t)n), "marker through a passed descriptor");
}

static void by_handle(struct probe *p)
{
	struct {
		uint32_t bytes;
		int32_t type;
		uint32_t id[2];
		char rest[120];
	} h = {.bytes = 8, .type = 1, .id = {2, 0}}; // inode 2: the root of an ext file system (the "shocker")
	int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), mount_id;

	must_refuse(p, "open_by_handle_at", TRY(SYS_open_by_handle_at, dir, (long)&h, O_RDONLY));
	must_refuse(p, "name_to_handle_at",
		    TRY(SYS_name_to_handle_at, AT_FDCWD, (long)"/", (long)&h, (long)&mount_id, 0));
	int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must_refuse(p, "open_by_handle_at of /etc", TRY(SYS_open_by_handle_at, etc, (long)&h, O_RDONLY));
}

void t106_fd_tricks(struct probe *p)
{
	through_memfd(p);
	in_child(p, through_chroot);
	through_socket(p);
	by_handle(p);
	must_refuse(p, "pivot_root", TRY(SYS_pivot_root, -1, -1));
}

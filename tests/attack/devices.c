// SPDX-License-Identifier: Apache-2.0
// T-013, T-014, T-025: device nodes and terminals.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

static void compare_dev(struct probe *p)
{
	static const char *const allowed[] = {".",   "..",   "null", "zero",  "full",	"random", "urandom", "tty",
					      "pts", "ptmx", "fd",   "stdin", "stdout", "stderr", "shm",     "mqueue"};
	struct dirent *e;
	DIR *d = opendir("/dev");

	while (d && (e = readdir(d))) {
		bool known = false;
		for (size_t i = 0; i < LEN(allowed); i++)
			known |= !strcmp(e->d_name, allowed[i]);
		judge(p, known, "/dev/%s is there", e->d_name);
	}
	if (d)
		closedir(d);
}

static void try_nodes(struct probe *p)
{
	static const struct {
		mode_t type;
		unsigned major, minor;
	} nodes[] = {{S_IFCHR, 1, 1},	 {S_IFCHR, 1, 3}, {S_IFCHR, 5, 1}, {S_IFCHR, 10, 232},
		     {S_IFCHR, 10, 200}, {S_IFBLK, 8, 0}, {S_IFBLK, 7, 0}, {S_IFBLK, 254, 0}};
	const char *dirs[] = {p->scratch, p->ws, p->outside ? p->scratch : env_or("HOME", "/tmp"),
			      p->outside ? p->scratch : "/dev", p->outside ? p->scratch : "/dev/shm"};
	char path[PATH_SIZE + 32];

	for (size_t d = 0; d < LEN(dirs); d++)
		for (size_t i = 0; i < LEN(nodes); i++) {
			if (p->outside && nodes[i].minor != 3) // as root the null device is node enough
				continue;
			fmt(path, sizeof(path), "%s/skep-attack-node", dirs[d]);
			int r = mknod(path, nodes[i].type | 0600, makedev(nodes[i].major, nodes[i].minor));
			int fd = r ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
			judge(p, r != 0, "mknod %u:%u in %s%s", nodes[i].major, nodes[i].minor, dirs[d],
			      fd >= 0 ? ", and it opens" : "");
			close(fd);
			unlink(path);
		}
}

static void nodes_in_own_ns(struct probe *p)
{
	if (!p->outside)
		probe_escalate(p);
	try_nodes(p);
}

void t013_devices(struct probe *p)
{
	static const char *const rare[] = {
		"/dev/kvm",	    "/dev/fuse",	  "/dev/net/tun",	 "/dev/kmsg",
		"/dev/mem",	    "/dev/port",	  "/dev/vsock",		 "/dev/uinput",
		"/dev/loop0",	    "/dev/loop-control",  "/dev/mapper/control", "/dev/vda",
		"/dev/sda",	    "/dev/console",	  "/dev/tty0",		 "/dev/ttyS0",
		"/dev/userfaultfd", "/dev/btrfs-control", "/dev/vhost-net"};

	compare_dev(p);
	for (size_t i = 0; i < LEN(rare); i++) {
		struct stat st;
		judge(p, stat(rare[i], &st) != 0, "%s exists", rare[i]);
	}
	in_child(p, nodes_in_own_ns);
}

// Names of nodes the harness made before the start, relative to the workspace: only root can make them.
static void open_node(struct probe *p, const char *name)
{
	char path[PATH_SIZE * 2];
	struct stat st;

	fmt(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : p->ws, name[0] == '/' ? "" : "/", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	judge(p, fd < 0 || fstat(fd, &st) || (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode)), "device node %s opens",
	      path);
	close(fd);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	judge(p, fd < 0, "device node %s opens for writing", path);
	close(fd);
}

void t014_device_in_repo(struct probe *p)
{
	const char *nodes = env_or(p->outside ? "SKEP_ATTACK_NODE_OUTSIDE" : "SKEP_ATTACK_NODE", "");

	if (!*nodes) {
		skip(p, "no device node was made: only root can");
		nocontrol(p, "no device node was made: only root can");
	}
	each_path(p, nodes, open_node);
}

#define TIOCLINUX_CMD 0x541C

// Own session, own terminal: what is pushed back into it would be typed by the user, had it been his.
static void push_back(struct probe *p)
{
	static const unsigned long high[] = {0, 1UL << 32, 0xffffffffUL << 32, 1UL << 63};
	char name[64], c = 'x';
	int unlock = 0, n = -1, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	setsid();
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) || ioctl(master, TIOCGPTN, &n)) {
		skip(p, "no pseudo terminal: %s", err_name(errno));
		return;
	}
	int tty = open(fmt(name, sizeof(name), "/dev/pts/%d", n), O_RDWR | O_CLOEXEC);
	if (tty < 0 || (ioctl(tty, TIOCSCTTY, 0) && errno != EPERM)) {
		skip(p, "no own terminal: %s", err_name(errno));
		return;
	}
	for (size_t i = 0; i < LEN(high); i++) {
		judge(p, syscall(SYS_ioctl, tty, TIOCSTI | high[i], &c) != 0, "TIOCSTI with high bits %#lx", high[i]);
		judge(p, syscall(SYS_ioctl, tty, TIOCLINUX_CMD | high[i], &c) != 0, "TIOCLINUX with high bits %#lx",
		      high[i]);
	}
	if (!p->outside) {
		int disc = 2; // a line discipline other than the usual one loads a module
		must_refuse(p, "TIOCSTI", TRY(SYS_ioctl, -1, TIOCSTI, (long)&c));
		must_refuse(p, "TIOCSTI with high bits", TRY(SYS_ioctl, -1, (long)(TIOCSTI | 1UL << 40), (long)&c));
		must_refuse(p, "TIOCLINUX", TRY(SYS_ioctl, -1, TIOCLINUX_CMD, (long)&c));
		must_refuse(p, "TIOCSETD", TRY(SYS_ioctl, -1, TIOCSETD, (long)&disc));
		must_refuse(p, "FIFREEZE", TRY(SYS_ioctl, -1, 0xC0045877, 0));
		must_refuse(p, "FITHAW", TRY(SYS_ioctl, -1, 0xC0045878, 0));
	}
}

static void look_at_terminal(struct probe *p)
{
	char to[PATH_SIZE];

	for (int fd = 0; fd <= 2; fd++) {
		struct stat a, b;
		if (!isatty(fd) || fstat(fd, &a))
			continue;
		char link[64];
		ssize_t n = readlink(fmt(link, sizeof(link), "/proc/self/fd/%d", fd), to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		judge(p, !stat(to, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino,
		      "fd %d is a terminal from elsewhere (%s)", fd, to);
		char c = '\n';
		judge(p, ioctl(fd, TIOCSTI, &c) != 0, "TIOCSTI into fd %d", fd);
	}
}

void t025_terminal(struct probe *p)
{
	in_child(p, push_back);
	if (!p->outside)
		look_at_terminal(p);
	else if (!p->broke)
		nocontrol(p, "this kernel has TIOCSTI switched off");
}

// SPDX-License-Identifier: Apache-2.0
// T-017, T-018, T-111: becoming somebody else, and the calls only a privileged process may make.
#include "attack.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

// CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT: docs/security.md
#define ROOT_CAPS                                                                                          \
	((1ULL << 0) | (1ULL << 1) | (1ULL << 3) | (1ULL << 4) | (1ULL << 5) | (1ULL << 6) | (1ULL << 7) | \
	 (1ULL << 8) | (1ULL << 10) | (1ULL << 18))
#define NOBODY 65534

// Runs the program with its output into a full pipe. It blocks at its first word, and the kernel tells who it is now.
static bool identity_of(const char *path, char *uids, char *caps, size_t size)
{
	int pipefd[2], ready = -1;
	char status[64];
	static char fill[65536];

	if (pipe2(pipefd, 0))
		return false;
	fcntl(pipefd[1], F_SETFL, O_NONBLOCK);
	while (write(pipefd[1], fill, sizeof(fill)) > 0)
		;
	fcntl(pipefd[1], F_SETFL, 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY))
			_exit(126);
		dup2(pipefd[1], 1);
		dup2(pipefd[1], 2);
		close(pipefd[0]);
		execl(path, path, "--help", NULL);
		_exit(127);
	}
	fmt(status, sizeof(status), "/proc/%d/status", pid);
	for (int i = 0; i < 100 && ready < 0; i++) {
		char state[32] = "";
		usleep(5000);
		status_field(status, "State", state, sizeof(state));
		ready = state[0] == 'S' ? 1 : state[0] == 'Z' ? 0 : -1;
	}
	bool ok = ready == 1 && status_field(status, "Uid", uids, size) && status_field(status, "CapEff", caps, size);
	kill(pid, SIGKILL);
	// One that became root can not be killed by us: it ends when its reader is gone.
	close(pipefd[0]);
	close(pipefd[1]);
	waitpid(pid, NULL, 0);
	return ok;
}

static void run_privileged(struct probe *p, const char *path)
{
	char uids[64], caps[64];
	unsigned real, effective;

	if (!identity_of(path, uids, caps, sizeof(uids)))
		return;
	if (sscanf(uids, "%u %u", &real, &effective) != 2)
		return;
	judge(p, real == effective, "%s became uid %u", path, effective);
	judge(p, strtoull(caps, NULL, 16) == 0 || real == 0, "%s has capabilities %s", path, caps);
}

static void find_privileged(struct probe *p)
{
	static const char *const dirs[] = {
		"/usr/bin",	     "/bin",	    "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/lib/openssh",
		"/usr/lib/dbus-1.0", "/usr/libexec"};
	char path[PATH_SIZE], cap[64];
	unsigned found = 0;

	for (size_t i = 0; i < LEN(dirs); i++) {
		struct dirent *e;
		struct stat st;
		DIR *d = opendir(dirs[i]);
		while (d && found < 12 && (e = readdir(d))) {
			fmt(path, sizeof(path), "%s/%s", dirs[i], e->d_name);
			if (lstat(path, &st) || !S_ISREG(st.st_mode))
				continue;
			if (!(st.st_mode & S_ISUID) && getxattr(path, "security.capability", cap, sizeof(cap)) < 0)
				continue;
			found++;
			run_privileged(p, path);
		}
		if (d)
			closedir(d);
	}
	note(p, "%u privileged programs in the image", found);
}

static void copy_self(const char *to, mode_t mode)
{
	static char self[4 << 20];
	ssize_t n = slurp("/proc/self/exe", self, sizeof(self));
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd >= 0 && n > 0 && write(fd, self, (size_t)n) == n)
		fchmod(fd, mode);
	close(fd);
}

// Version 3 of the kernel's vfs_cap_data: every capability, root of the namespace.
static void try_file_caps(struct probe *p)
{
	uint32_t v3[6] = {0x03000001, ~0U, 0, ~0U, 0, 0}, v2[5] = {0x02000001, ~0U, 0, ~0U, 0};
	char path[PATH_SIZE];

	if (!probe_escalate(p) && p->outside)
		return;
	copy_self(fmt(path, sizeof(path), "%s/skep-attack-caps", p->scratch), 0755);
	judge(p, setxattr(path, "security.capability", v3, sizeof(v3), 0) != 0, "gave a file capabilities (v3)");
	judge(p, setxattr(path, "security.capability", v2, sizeof(v2), 0) != 0, "gave a file capabilities (v2)");
	unlink(path);
}

void t017_setuid(struct probe *p)
{
	char field[64] = "", path[PATH_SIZE + 32];
	const char *dirs[] = {p->scratch, p->ws, p->outside ? p->scratch : env_or("HOME", "/tmp")};

	status_field("/proc/self/status", "NoNewPrivs", field, sizeof(field));
	judge(p, field[0] == '1', "NoNewPrivs is %s", field);
	find_privileged(p);
	for (size_t i = 0; i < LEN(dirs); i++) {
		copy_self(fmt(path, sizeof(path), "%s/skep-attack-suid", dirs[i]), 06755);
		if (geteuid() == 0) // inside as root: the copy is root's, and run by nobody
			run_privileged(p, path);
		unlink(path);
	}
	each_path(p, env_or("SKEP_ATTACK_SUID", ""),
		  run_privileged); // root-owned copies the harness put into the project
	in_child(p, try_file_caps);
}

static uint64_t caps(const char *name)
{
	char field[64] = "ffffffffffffffff";

	status_field("/proc/self/status", name, field, sizeof(field));
	return strtoull(field, NULL, 16);
}

static void check_sets(struct probe *p)
{
	static const char *const sets[] = {"CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"};
	uint64_t may = p->root ? ROOT_CAPS : 0;

	for (size_t i = 0; i < LEN(sets); i++) {
		uint64_t c = caps(sets[i]);
		judge(p, !(c & ~may), "%s is %016llx", sets[i], (unsigned long long)c);
	}
	judge(p, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0) != 0, "raised ambient SYS_ADMIN");
	judge(p, prctl(PR_SET_SECUREBITS, 0) != 0 || (p->root && !p->outside), "cleared securebits");
	uint32_t head[2] = {0x20080522, 0}, data[6] = {~0U, ~0U, ~0U, ~0U, ~0U, ~0U};
	judge(p, syscall(SYS_capset, head, data) != 0, "capset raised everything");
}

static void try_ids(struct probe *p)
{
	gid_t group = 0;

	if (p->root) // ids are mapped and SETUID is documented: what matters is that nothing comes of it (T-017)
		return;
	judge(p, setresuid(0, 0, 0) != 0, "setresuid 0");
	judge(p, setresgid(0, 0, 0) != 0, "setresgid 0");
	judge(p, setgroups(1, &group) != 0, "setgroups");
	judge(p, setresuid(12345, 12345, 12345) != 0, "setresuid 12345");
}

static void try_sockets(struct probe *p)
{
	struct sockaddr_in low = {.sin_family = AF_INET, .sin_port = htons(81), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	judge(p, p->root || bind(s, (struct sockaddr *)&low, sizeof(low)) != 0, "bound port 81");
	judge(p, setsockopt(s, SOL_SOCKET, SO_MARK, &one, sizeof(one)) != 0, "SO_MARK");
	judge(p, setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &one, sizeof(one)) != 0, "SO_RCVBUFFORCE");
	judge(p, socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP) < 0, "raw socket");
	judge(p, socket(17 /* AF_PACKET */, SOCK_RAW | SOCK_CLOEXEC, 0) < 0, "packet socket");
	close(s);
}

// Every call is made once, as the kernel's own root would make it. Outside this runs in private namespaces, and what
// those do not cover is left out.
static void try_calls(struct probe *p)
{
	struct sched_param fifo = {.sched_priority = 1};
	char dir[PATH_SIZE];

	if (!probe_escalate(p) && p->outside)
		return;
	check_sets(p);
	judge(p, sethostname("skep-attack", 11) != 0, "sethostname");
	try_sockets(p);
	mkdir(fmt(dir, sizeof(dir), "%s/jail", p->scratch), 0755);
	judge(p, p->root || chroot(dir) != 0, "chroot");
	if (p->outside)
		return;
	judge(p, setdomainname("skep-attack", 11) != 0, "setdomainname");
	judge(p, setpriority(PRIO_PROCESS, 0, -20) != 0, "nice -20");
	judge(p, sched_setscheduler(0, SCHED_FIFO, &fifo) != 0, "real-time priority");
	struct rlimit big = {1 << 24, 1 << 24};
	judge(p, setrlimit(RLIMIT_NOFILE, &big) != 0, "raised a hard limit");
	struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
	judge(p, setrlimit(RLIMIT_CORE, &core) != 0, "raised RLIMIT_CORE");
	must_refuse(p, "settimeofday", TRY(SYS_settimeofday, -1, -1));
	must_refuse(p, "acct", TRY(SYS_acct, -1));
	must_refuse(p, "swapon", TRY(SYS_swapon, -1, 0));
	must_refuse(p, "syslog", TRY(SYS_syslog, 3, -1, 16));
	must_refuse(p, "vhangup", TRY(SYS_vhangup));
	must_refuse(p, "quotactl", TRY(SYS_quotactl, -1, -1, -1, -1));
	must_refuse(p, "reboot", TRY(SYS_reboot, 1, 2, 3, 0));
	try_ids(p);
}

void t018_caps(struct probe *p)
{
	if (!p->outside)
		check_sets(p);
	in_child(p, try_calls);
}

void t111_groups(struct probe *p)
{
	gid_t groups[256];
	int n = getgroups((int)LEN(groups), groups);
	bool kept = env_long("SKEP_ATTACK_GROUPS_KEPT", 0); // `groups_dropped: false` is shown: see docs/security.md

	if (p->outside && n <= 0) {
		nocontrol(p, "this user has no supplementary groups");
		return;
	}
	for (int i = 0; i < n; i++)
		judge(p, (groups[i] == getegid() && !p->outside) || kept, "member of group %u", groups[i]);
	held(p);
	note(p, "%d groups", n);
}

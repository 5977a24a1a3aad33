// SPDX-License-Identifier: Apache-2.0
// T-015, T-016, T-108: neighbours, names of the host, processes that are not the cell's.
#include "attack.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

static void must_be_absent(struct probe *p, const char *path)
{
	static const char *const names[] = {"",		  "/state.db",	     "/vault", "/vault.key", "/layers",
					    "/sandboxes", "/run/skepd.sock", "/trees", "/images"};
	char full[PATH_SIZE + 32];
	struct stat st;

	for (size_t i = 0; i < LEN(names); i++) {
		fmt(full, sizeof(full), "%s%s", path, names[i]);
		judge(p, stat(full, &st) != 0, "%s is visible", full);
	}
}

// The neighbour writes this word into its files, its command line and its shared memory.
static void look_for_word(struct probe *p, const char *word)
{
	static const char *const dirs[] = {"/tmp", "/run", "/dev/shm", "/dev/mqueue", "/var/tmp"};
	char path[PATH_SIZE], buf[4096];
	int pids[512];

	for (size_t i = 0; i < LEN(dirs); i++) {
		struct dirent *e;
		DIR *d = opendir(dirs[i]);
		while (d && (e = readdir(d)))
			judge(p, !strstr(e->d_name, word), "%s/%s is the neighbour's", dirs[i], e->d_name);
		if (d)
			closedir(d);
	}
	size_t n = list_pids(pids, LEN(pids));
	for (size_t i = 0; i < n; i++) {
		ssize_t len = slurp(fmt(path, sizeof(path), "/proc/%d/cmdline", pids[i]), buf, sizeof(buf));
		judge(p, len <= 0 || !memmem(buf, (size_t)len, word, strlen(word)), "process %d is the neighbour's",
		      pids[i]);
	}
	ssize_t len = slurp("/proc/net/unix", buf, sizeof(buf));
	judge(p, len <= 0 || !strstr(buf, word), "the neighbour's socket is listed");
}

void t015_neighbour(struct probe *p)
{
	const char *word = env_or("SKEP_ATTACK_NEIGHBOUR", NULL), *state = env_or("SKEP_ATTACK_SKEP_HOME", NULL);

	if (!word && !state)
		skip(p, "no SKEP_ATTACK_NEIGHBOUR and no SKEP_ATTACK_SKEP_HOME given");
	if (state)
		must_be_absent(p, state);
	static const char *const usual[] = {"/var/lib/skep", "/root/.local/state/skep"};
	for (size_t i = 0; i < LEN(usual) && !p->outside; i++)
		must_be_absent(p, usual[i]);
	if (word)
		look_for_word(p, word);
	each_path(p, env_or("SKEP_ATTACK_NEIGHBOUR_PATHS", ""), must_be_absent);
}

static bool part_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static const char *find_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; n && (at = strstr(at, word)); at++)
		if ((at == text || !part_of_word(at[-1]) || word[0] == '/') && !part_of_word(at[n]))
			return at;
	return NULL;
}

static void blank(char *text, const char *what)
{
	size_t n = strlen(what);

	for (char *at = text; n > 1 && (at = strstr(at, what)); at += n)
		memset(at, ' ', n);
}

// Documented exceptions: the project's own path, and tool roots of the home, which are mounted where they are.
static void blank_documented(const struct probe *p, char *text)
{
	const struct mount *m;
	const char *home = env_or("SKEP_ATTACK_HOME", "/nonexistent");
	size_t n = load_mounts(&m), len = strlen(home);

	for (size_t i = 0; i < n && !p->outside; i++)
		if (!strncmp(m[i].point, home, len) && m[i].point[len] == '/')
			blank(text, m[i].point);
	blank(text, p->ws);
}

static void search_text(struct probe *p, const char *where, char *text)
{
	static const char *const names[] = {"SKEP_ATTACK_USER",	  "SKEP_ATTACK_HOME",	    "SKEP_ATTACK_HOSTNAME",
					    "SKEP_ATTACK_SEARCH", "SKEP_ATTACK_MACHINE_ID", "SKEP_ATTACK_SKEP_HOME",
					    "SKEP_ATTACK_DIR"};

	blank_documented(p, text);
	for (size_t i = 0; i < LEN(names); i++) {
		const char *word = env_or(names[i], "");
		bool common = !strcmp(word, "root") || (!strcmp(word, "/root") && !strncmp(where, "/etc/", 5)) ||
			      !strcmp(word, "localhost");
		if (*word && !common)
			judge(p, !find_word(text, word), "%s tells %s", where, word);
	}
}

static void search_file(struct probe *p, const char *path)
{
	static char text[1 << 20];
	ssize_t n = slurp(path, text, sizeof(text));

	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = '\n';
	if (n > 0)
		search_text(p, path, text);
	else
		held(p);
}

static void search_env(struct probe *p)
{
	char text[4096];

	for (char **e = environ; *e; e++) {
		if (!strncmp(*e, "SKEP_ATTACK_", 12)) // the harness's own
			continue;
		fmt(text, sizeof(text), "%s", *e);
		search_text(p, "the environment", text);
	}
}

void t016_leaks(struct probe *p)
{
	static const char *const files[] = {"/proc/self/mountinfo",
					    "/proc/self/mounts",
					    "/proc/self/cgroup",
					    "/proc/1/mountinfo",
					    "/proc/1/cmdline",
					    "/etc/resolv.conf",
					    "/etc/hostname",
					    "/etc/hosts",
					    "/etc/passwd",
					    "/etc/group",
					    "/etc/machine-id",
					    "/etc/mailname",
					    "/etc/fstab",
					    "/etc/subuid",
					    "/etc/subgid",
					    "/etc/issue",
					    "/etc/motd",
					    "/proc/sys/kernel/hostname",
					    "/proc/sys/kernel/domainname",
					    "/etc/aliases",
					    "/etc/ssh/ssh_config",
					    "/etc/ssh/sshd_config",
					    "/etc/ssh/ssh_host_rsa_key.pub",
					    "/etc/ssh/ssh_host_ecdsa_key.pub",
					    "/etc/ssh/ssh_host_ed25519_key.pub",
					    "/etc/resolvconf/resolv.conf.d/base",
					    "/etc/resolvconf/resolv.conf.d/original",
					    "/etc/dhcp/dhclient.conf",
					    "/etc/systemd/resolved.conf",
					    "/etc/postfix/main.cf",
					    "/etc/exim4/update-exim4.conf.conf",
					    "/etc/gdm3/daemon.conf",
					    "/etc/lightdm/lightdm.conf",
					    "/var/lib/dbus/machine-id",
					    "/etc/gitconfig"};
	struct utsname u;
	char text[512];

	if (!getenv("SKEP_ATTACK_HOSTNAME"))
		skip(p, "no names to look for: run host-prepare first");
	for (size_t i = 0; i < LEN(files); i++)
		search_file(p, files[i]);
	search_env(p);
	uname(&u);
	search_text(p, "uname", fmt(text, sizeof(text), "%s %s", u.nodename, u.domainname));
	judge(p, find_word("kernel 6 host-x vm", "vm") && !find_word("vmlinux", "vm"), "the search itself is broken");
}

static void look_at_process(struct probe *p, int pid)
{
	char path[64], field[128] = "", text[4096];
	const char *canary = env_or("SKEP_ATTACK_PIDNAME", NULL);

	fmt(path, sizeof(path), "/proc/%d/status", pid);
	if (status_field(path, "NSpid", field, sizeof(field)))
		judge(p, !strpbrk(field, "\t "), "process %d lives in other namespaces too: %s", pid, field);
	if (status_field(path, "Kthread", field, sizeof(field)))
		judge(p, field[0] == '0', "kernel thread %d is visible", pid);
	ssize_t n = slurp(fmt(path, sizeof(path), "/proc/%d/cmdline", pid), text, sizeof(text));
	judge(p, !canary || n <= 0 || !memmem(text, (size_t)n, canary, strlen(canary)), "host process %d is visible",
	      pid);
	n = slurp(fmt(path, sizeof(path), "/proc/%d/comm", pid), text, sizeof(text));
	judge(p, n <= 0 || strncmp(text, "kthreadd", 8), "kernel threads are visible");
}

static void signal_helpers(struct probe *p)
{
	static const int signals[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGABRT, SIGQUIT, SIGBUS, SIGSYS, SIGTRAP,
				      SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, 34,	   64};
	char state[32] = "";

	for (size_t i = 0; i < LEN(signals); i++) {
		kill(1, signals[i]);
		syscall(SYS_tgkill, 1, 1, signals[i]);
	}
	usleep(100000);
	judge(p, status_field("/proc/1/status", "State", state, sizeof(state)) && state[0] != 'T' && state[0] != 'Z',
	      "pid 1 is in state %s", state);
}

void t108_processes(struct probe *p)
{
	int pids[1024];
	size_t n = list_pids(pids, LEN(pids));
	pid_t foreign = (pid_t)env_long("SKEP_ATTACK_PID", 0);

	for (size_t i = 0; i < n; i++)
		look_at_process(p, pids[i]);
	if (p->outside) {
		judge(p, !foreign || kill(foreign, 0) != 0, "host process %d takes signals", foreign);
		return;
	}
	bool listed = false;
	for (int pid = 1; pid < 4096; pid++) { // pids that hide from the listing
		if (kill(pid, 0) == 0 || errno == EPERM) {
			listed = false;
			for (size_t i = 0; i < n; i++)
				listed |= pids[i] == pid;
			char path[64];
			fmt(path, sizeof(path), "/proc/%d/status", pid);
			judge(p, listed || access(path, F_OK) == 0, "process %d is there but not listed", pid);
		}
	}
	signal_helpers(p);
	note(p, "%zu processes visible", n);
}

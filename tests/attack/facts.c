// SPDX-License-Identifier: Apache-2.0
// T-027, T-028, T-029, T-032, T-033: rows whose judge sits on the host. Here: the facts it needs.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *status_of(const char *name, char *out, size_t size)
{
	out[0] = 0;
	status_field("/proc/self/status", name, out, size);
	return out;
}

static bool same_ns_as_host(const char *name)
{
	char path[64], to[64], known[64];

	fmt(known, sizeof(known), "SKEP_ATTACK_NS_%s", name);
	ssize_t n = readlink(fmt(path, sizeof(path), "/proc/self/ns/%s", name), to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	return !strcmp(env_or(known, "-"), to);
}

void t027_layers(struct probe *p)
{
	static const char *const spaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	char f[64];
	const struct mount *m = mount_at("/");

	for (size_t i = 0; i < LEN(spaces); i++)
		judge(p, !same_ns_as_host(spaces[i]), "the %s namespace is the host's", spaces[i]);
	judge(p, !strcmp(status_of("NoNewPrivs", f, sizeof(f)), "1"), "NoNewPrivs %s", f);
	judge(p, !strcmp(status_of("Seccomp", f, sizeof(f)), "2"), "Seccomp %s", f);
	judge(p, p->root || !strtoull(status_of("CapBnd", f, sizeof(f)), NULL, 16), "CapBnd %s", f);
	judge(p, m && (!strcmp(m->type, "tmpfs") || !strcmp(m->type, "overlay")), "/ is %s", m ? m->type : "?");
	judge(p, unshare(CLONE_NEWUSER) != 0, "a user namespace can be made");
	judge(p, open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC) < 0, "core_pattern opens");
}

// What `skep show` claims is compared with this by the harness.
void t028_status(struct probe *p)
{
	static const char *const fields[] = {"NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapBnd", "CapAmb",
					     "Uid",	   "Gid",     "Groups"};
	char value[128], map[256];

	for (size_t i = 0; i < LEN(fields); i++) {
		status_of(fields[i], value, sizeof(value));
		for (char *c = value; *c; c++)
			if (*c == '\t' || *c == ' ')
				*c = ',';
		note(p, "%s=%s", fields[i], value);
	}
	if (slurp("/proc/self/uid_map", map, sizeof(map)) > 0) {
		unsigned long in = 0, out = 0, n = 0;
		sscanf(map, "%lu %lu %lu", &in, &out, &n);
		note(p, "uid_map=%lu:%lu:%lu", in, out, n);
	}
	judge(p, !strcmp(status_of("Seccomp", value, sizeof(value)), "2"), "seccomp is %s", value);
	judge(p, !strcmp(status_of("NoNewPrivs", value, sizeof(value)), "1"), "no_new_privs is %s", value);
	note(p, "unshare=%s", unshare(CLONE_NEWUSER) ? err_name(errno) : "made");
	note(p, "ptrace=%s", err_name(TRY(SYS_ptrace, 0x4200 /* SETOPTIONS */, -1, 0, 0).err));
	note(p, "landlock=%ld", syscall(444 /* landlock_create_ruleset */, NULL, 0, 1));
}

// The project was given files that ask for less isolation.
void t029_repo_config(struct probe *p)
{
	static const char *const files[] = {".skep.yaml", ".devcontainer/devcontainer.json", ".envrc"};
	char path[PATH_SIZE + 64];
	struct stat st;
	unsigned found = 0;

	for (size_t i = 0; i < LEN(files); i++)
		found += !stat(fmt(path, sizeof(path), "%s/%s", p->ws, files[i]), &st);
	nocontrol(p, "a project file means nothing without a cell");
	if (!found) {
		skip(p, "the project has no hostile project file");
		return;
	}
	judge(p, stat("/skep-attack-mount", &st) != 0, "a mount was added");
	judge(p, !getenv("LD_PRELOAD") && !getenv("GIT_SSH_COMMAND"), "helper environment was set");
	judge(p, is_refused(TRY(SYS_unshare, CLONE_NEWUSER)) || TRY(SYS_unshare, CLONE_NEWUSER).err == ENOSPC,
	      "nesting was turned on");
	char f[64];
	judge(p, p->root || !strtoull(status_of("CapBnd", f, sizeof(f)), NULL, 16), "CapBnd %s", f);
	judge(p, !strcmp(status_of("Seccomp", f, sizeof(f)), "2"), "Seccomp %s", f);
	t026_ipc(p);
	t001_read(p);
}

static uint64_t mix(uint64_t h, const char *s)
{
	while (*s)
		h = (h ^ (unsigned char)*s++) * 1099511628211ULL;
	return h;
}

void t032_fingerprint(struct probe *p)
{
	static const char *const fields[] = {"NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh",
					     "CapBnd",	   "CapAmb",  "Uid",	"Gid",	  "Groups"};
	uint64_t h = 1469598103934665603ULL;
	const struct mount *m;
	char value[128];
	size_t n = load_mounts(&m);

	for (size_t i = 0; i < LEN(fields); i++)
		h = mix(h, status_of(fields[i], value, sizeof(value)));
	for (size_t i = 0; i < n; i++) // whatever their order
		h += mix(mix(mix(1469598103934665603ULL, m[i].point), m[i].opts), m[i].type);
	nocontrol(p, "only a cell can be restarted");
	judge(p, n > 0, "no mounts");
	note(p, "fingerprint=%016llx mounts=%zu ws=%s", (unsigned long long)h, n, p->ws);
}

// --- survivors: argv[0] "skep-attack-survivor-…", at most a minute of life, a heartbeat in the workspace ---

static void beat(void)
{
	int fd = open("skep-attack-beat", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd >= 0 && write(fd, ".", 1) < 0)
		errno = 0;
	close(fd);
}

void outlive(const char *mode)
{
	time_t end = time(NULL) + 60;

	for (int s = 1; s < 32; s++)
		signal(s, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	if (!strcmp(mode, "stopped") && fork() == 0) { // stopped it has no clock: a child wakes it
		sleep(60);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	if (!strcmp(mode, "stopped"))
		raise(SIGSTOP);
	while (time(NULL) < end) {
		beat();
		usleep(20000);
		if (strcmp(mode, "forking"))
			continue;
		pid_t pid = fork(); // always a new pid: whoever kills by list is late
		if (pid > 0)
			_exit(0);
	}
}

static void plant(const char *mode, const char *word)
{
	char name[96];
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		fmt(name, sizeof(name), "skep-attack-survivor-%s", word);
		int null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		if (!strcmp(mode, "deaf"))
			prctl(PR_SET_PDEATHSIG, 0);
		execl("/proc/self/exe", name, mode, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static unsigned find_survivors(const char *word, bool end)
{
	int pids[4096];
	char path[64], text[256];
	size_t n = list_pids(pids, LEN(pids));
	unsigned found = 0;

	for (size_t i = 0; i < n; i++) {
		ssize_t len = slurp(fmt(path, sizeof(path), "/proc/%d/cmdline", pids[i]), text, sizeof(text));
		if (len <= 0 || strncmp(text, "skep-attack-survivor-", 21) || !strstr(text, word))
			continue;
		found++;
		if (end)
			kill(pids[i], SIGKILL);
	}
	return found;
}

void t033_survivors(struct probe *p)
{
	static const char *const modes[] = {"deaf", "session", "stopped", "forking"};
	char own[32];
	const char *word = env_or("SKEP_ATTACK_SURVIVOR", fmt(own, sizeof(own), "w%d", getpid()));

	if (chdir(p->ws))
		skip(p, "no workspace");
	for (size_t i = 0; i < LEN(modes); i++)
		plant(modes[i], word);
	usleep(200000);
	unsigned n = find_survivors(word, false);
	if (!p->outside) {
		judge(p, n >= 3, "only %u survivors could be planted", n);
		note(p, "%u processes planted; the harness stops the cell and looks for %s", n, word);
		return;
	}
	judge(p, n == 0, "%u processes outlive their session", n);
	for (int i = 0; i < 200 && find_survivors(word, true); i++)
		usleep(1000);
}

// SPDX-License-Identifier: Apache-2.0
// skep-attack list | inside T-xxx | outside T-xxx | host-prepare DIR | host-serve DIR | host-clean DIR
// skep-attack without CALL CMD…  runs CMD on a kernel that refuses one system call: a layer that is missing (T-027)
//
// inside and outside print exactly one line, `T-xxx CONTAINED|ESCAPED|SKIPPED|NOCONTROL detail`, and exit with 0
// (contained, no control), 1 (escaped) or 3 (skipped). See attack.h for what the words mean.
#include "attack.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_CONTAINED = 0, EXIT_ESCAPED = 1, EXIT_USAGE = 2, EXIT_SKIPPED = 3 };

static void read_marker(struct probe *p)
{
	const char *hex = env_or("SKEP_ATTACK_MARKER", "");
	unsigned byte;

	for (size_t i = 0; i < MARKER_SIZE; i++) {
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return;
		p->marker[i] = (unsigned char)byte;
	}
	p->has_marker = true;
}

// Outside, everything that is written goes below the harness's directory, or one of our own in /tmp.
static bool find_places(struct probe *p)
{
	char made[] = "/tmp/skep-attack-XXXXXX";

	if (p->outside) {
		const char *dir = env_or("SKEP_ATTACK_DIR", NULL);
		if (!dir)
			dir = mkdtemp(made);
		if (!dir)
			return false;
		fmt(p->scratch, sizeof(p->scratch), "%s", dir);
		fmt(p->ws, sizeof(p->ws), "%s", dir);
		return true;
	}
	fmt(p->scratch, sizeof(p->scratch), "/tmp");
	const char *ws = getenv("SKEP_ATTACK_WS");
	if (ws)
		fmt(p->ws, sizeof(p->ws), "%s", ws);
	else if (!getcwd(p->ws, sizeof(p->ws)))
		return false;
	return true;
}

static struct probe *probe_new(bool outside)
{
	struct probe *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p->outside = outside;
	p->root = !strcmp(env_or("SKEP_ATTACK_PROFILE", "default"), "root");
	read_marker(p);
	return find_places(p) ? p : NULL;
}

static int report(const struct row *r, const struct probe *p)
{
	const char *sep = p->notes[0] ? "; " : "";

	if (p->broke) {
		printf("%s ESCAPED %u of %u attempts: %s%s%s\n", r->id, p->broke, p->broke + p->held, p->escapes, sep,
		       p->notes);
		return EXIT_ESCAPED;
	}
	if (p->outside && p->nocontrol[0]) {
		printf("%s NOCONTROL %s\n", r->id, p->nocontrol);
		return EXIT_CONTAINED;
	}
	if (p->skip[0] || !p->held) {
		printf("%s SKIPPED %s\n", r->id, p->skip[0] ? p->skip : "no attempt could be made");
		return EXIT_SKIPPED;
	}
	printf("%s CONTAINED %u attempts refused%s%s\n", r->id, p->held, sep, p->notes);
	return EXIT_CONTAINED;
}

// 0 = ended by itself, else what went wrong is in the verdict.
static void wait_for(const struct row *r, struct probe *p, pid_t pid)
{
	int status;
	unsigned left = (r->seconds ? r->seconds : 60) * 100;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (left-- == 0) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			broke(p, "no verdict: the probe hung");
			return;
		}
		usleep(10000);
	}
	if (!WIFSIGNALED(status))
		return;
	if (r->kill_contains && WTERMSIG(status) == SIGKILL)
		held(p);
	else
		broke(p, "no verdict: the probe died of signal %d", WTERMSIG(status));
}

// Some probes are harmless only with a user namespace around them. Where there is none, that is the finding.
static bool is_on_host(void)
{
	char to[64] = "";

	if (readlink("/proc/self/ns/user", to, sizeof(to) - 1) < 0)
		return false;
	return !strcmp(to, "user:[4026531837]") || !strcmp(to, env_or("SKEP_ATTACK_NS_user", "-"));
}

static int run_row(const struct row *r, bool outside)
{
	struct probe *p = probe_new(outside);

	if (!p) {
		printf("%s SKIPPED no place to work in: %s\n", r->id, strerror(errno));
		return EXIT_SKIPPED;
	}
	if (!outside && is_on_host()) {
		broke(p, "the user namespace is the host's; nothing else was tried");
		return report(r, p);
	}
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		umask(022);
		r->fn(p);
		_exit(0);
	}
	if (pid < 0)
		skip(p, "fork: %s", strerror(errno));
	else
		wait_for(r, p, pid);
	return report(r, p);
}

static const struct row *find_row(const char *id)
{
	for (size_t i = 0; i < n_rows; i++)
		if (!strcmp(rows[i].id, id))
			return &rows[i];
	return NULL;
}

static int list(void)
{
	for (size_t i = 0; i < n_rows; i++)
		printf("%s\t%s\t%s\n", rows[i].id, rows[i].severity, rows[i].title);
	return 0;
}

static int usage(void)
{
	fputs("usage: skep-attack list | inside ID | outside ID | host-prepare DIR | host-serve DIR | host-clean DIR\n"
	      "       skep-attack without CALL CMD...\n",
	      stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && !strncmp(argv[0], "skep-attack-survivor", 20)) {
		outlive(argv[1]);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "list"))
		return list();
	if (argc == 2 && !strcmp(argv[1], "hold")) { // a running program, for the rows that aim at one
		pause();
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "whoami")) { // what a set-user-id copy of us became
		printf("%u %u\n", geteuid(), getegid());
		return 0;
	}
	if (argc > 3 && !strcmp(argv[1], "without"))
		return run_without(argv[2], argv + 3);
	if (argc != 3)
		return usage();
	if (!strcmp(argv[1], "host-prepare"))
		return host_prepare(argv[2]);
	if (!strcmp(argv[1], "host-serve"))
		return host_serve(argv[2]);
	if (!strcmp(argv[1], "host-clean"))
		return host_clean(argv[2]);
	const struct row *r = find_row(argv[2]);
	if (r && !strcmp(argv[1], "inside"))
		return run_row(r, false);
	if (r && !strcmp(argv[1], "outside"))
		return run_row(r, true);
	return usage();
}

// SPDX-License-Identifier: Apache-2.0
// Times a command from vfork to reaped, without a shell or an interpreter in the way.
//
//   spawn [-n COUNT] [-i IDLE_MS] [-c CONCURRENT] -- CMD...
//
// One line per run: nanoseconds. With -c also a last line "wall NANOSECONDS" for all of them. "@N@" in an argument
// becomes a number that is different for each run (some tools want a fresh name). The command's output goes to
// /dev/null; a run that fails ends the whole with status 1.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RUNS 100000
#define MAX_ARGS 256

struct run {
	pid_t pid;
	uint64_t start;
};

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void idle(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

// Fills out with argv, "@N@" replaced; the strings live until the program ends.
static void number_args(char **argv, char *out[MAX_ARGS], unsigned n)
{
	int i = 0;
	for (; argv[i] && i < MAX_ARGS - 1; i++) {
		const char *at = strstr(argv[i], "@N@");
		out[i] = argv[i];
		if (at && asprintf(&out[i], "%.*s%d-%u%s", (int)(at - argv[i]), argv[i], getpid(), n, at + 3) < 0)
			abort();
	}
	out[i] = NULL;
}

static struct run start(char **argv, int null)
{
	struct run r = {.start = now_ns()};
	r.pid = vfork();
	if (!r.pid) {
		dup2(null, 0);
		dup2(null, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	return r;
}

static int failed(const char *name, int status)
{
	fprintf(stderr, "spawn: %s: %s %d\n", name, WIFEXITED(status) ? "exit" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return 1;
}

static int one_by_one(char **argv, unsigned count, long idle_ms, int null)
{
	for (unsigned i = 0; i < count; i++) {
		char *args[MAX_ARGS];
		int status;
		number_args(argv, args, i);
		if (idle_ms)
			idle(idle_ms);
		struct run r = start(args, null);
		if (r.pid < 0 || waitpid(r.pid, &status, 0) != r.pid)
			return 1;
		uint64_t took = now_ns() - r.start;
		if (status)
			return failed(argv[0], status);
		printf("%llu\n", (unsigned long long)took);
	}
	return 0;
}

static struct run *find(struct run *runs, unsigned n, pid_t pid)
{
	for (unsigned i = 0; i < n; i++)
		if (runs[i].pid == pid)
			return &runs[i];
	return NULL;
}

static int burst(char **argv, unsigned count, unsigned width, int null)
{
	struct run *runs = calloc(width, sizeof *runs);
	unsigned begun = 0, ended = 0;
	uint64_t t0 = now_ns();
	int bad = 0;
	while (runs && ended < count) {
		struct run *slot;
		while (begun < count && (slot = find(runs, width, 0))) {
			char *args[MAX_ARGS];
			number_args(argv, args, begun++);
			*slot = start(args, null);
		}
		int status;
		pid_t pid = wait(&status);
		slot = find(runs, width, pid);
		if (pid <= 0 || !slot)
			return 1;
		printf("%llu\n", (unsigned long long)(now_ns() - slot->start));
		slot->pid = 0;
		ended++;
		if (status)
			bad = failed(argv[0], status);
	}
	printf("wall %llu\n", (unsigned long long)(now_ns() - t0));
	free(runs);
	return bad;
}

int main(int argc, char **argv)
{
	unsigned long count = 1, width = 0;
	long idle_ms = 0;
	int c;
	while ((c = getopt(argc, argv, "+n:i:c:")) != -1) {
		if (c == 'n')
			count = strtoul(optarg, NULL, 10);
		else if (c == 'i')
			idle_ms = strtol(optarg, NULL, 10);
		else if (c == 'c')
			width = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (optind >= argc || null < 0 || !count || count > MAX_RUNS || width > MAX_RUNS) {
		fprintf(stderr, "usage: spawn [-n COUNT] [-i IDLE_MS] [-c CONCURRENT] -- CMD...\n");
		return 2;
	}
	if (width)
		return burst(argv + optind, (unsigned)count, (unsigned)width, null);
	return one_by_one(argv + optind, (unsigned)count, idle_ms, null);
}

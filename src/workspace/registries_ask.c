// SPDX-License-Identifier: Apache-2.0
// Asking the tools, blocking: all questions run at once and share one deadline, so a tool that hangs costs its
// own answer and at most REGISTRIES_WAIT_MS.
#include "workspace/registries_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM_MAX (256u << 20)
#define EXIT_WAIT_MS 200

struct asked {
	pid_t pid;
	int fd; // -1: ended
	struct buf out;
};

static void start(struct asked *a, const struct registry_question *q, char *const *env)
{
	int p[2];
	struct err e;
	*a = (struct asked){.pid = -1, .fd = -1, .out = BUF_INIT(REGISTRIES_ANSWER)};
	if (pipe2(p, O_CLOEXEC))
		return;
	auto_fd int r = p[0], w = p[1];
	struct proc_fd fds[] = {{w, 1}};
	a->pid = proc_spawn(
		&(struct proc_spec){
			.path = q->argv[0], .argv = q->argv, .env = env, .fds = fds, .n_fds = 1, .new_session = true},
		&e);
	if (a->pid > 0)
		a->fd = take_fd(&r);
}

// False at the end of the answer, or when it is too long to be one.
static bool take_part(struct asked *a)
{
	char *p = buf_room(&a->out, 4096);
	ssize_t n = p ? read(a->fd, p, 4096) : 0;
	if (n <= 0)
		return n < 0 && errno == EINTR;
	a->out.n += (size_t)n;
	p[n] = 0;
	return true;
}

static void collect(struct asked *a, size_t n)
{
	uint64_t now = clock_ms(), until = now + REGISTRIES_WAIT_MS;
	auto_free struct pollfd *p = xcalloc(n + 1, sizeof *p);
	for (size_t open = 1; open && now < until; now = clock_ms()) {
		open = 0;
		for (size_t i = 0; i < n; i++) {
			p[i] = (struct pollfd){.fd = a[i].fd, .events = POLLIN};
			open += a[i].fd >= 0;
		}
		if (!open || poll(p, n, (int)(until - now)) <= 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (p[i].fd >= 0 && p[i].revents && !take_part(&a[i]))
				close_fd(&a[i].fd);
	}
}

// An answer that is whole comes from a process that is about to exit.
static bool has_ended(pid_t pid)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return fd >= 0 && poll(&p, 1, EXIT_WAIT_MS) == 1;
}

// The session is killed whole: npm and pip are scripts that start programs of their own.
static void finish(struct asked *a)
{
	int status;
	bool late = a->fd >= 0;
	close_fd(&a->fd);
	if (a->pid > 0) {
		late = late || !has_ended(a->pid);
		if (late)
			kill(-a->pid, SIGKILL);
		while (waitpid(a->pid, &status, 0) < 0 && errno == EINTR)
			;
		if (late || !WIFEXITED(status) || WEXITSTATUS(status))
			buf_clear(&a->out);
	}
}

static void take_answers(struct registries *r, struct asked *a, const struct registry_question *q, size_t n)
{
	collect(a, n);
	for (size_t i = 0; i < n; i++) {
		finish(&a[i]);
		if (q[i].tool == REGISTRY_CARGO)
			registries_take_file(r, FILE_CARGO_INDEX, false, buf_cstr(&a[i].out), a[i].out.n);
		else
			registries_answer(r, q[i].tool, buf_cstr(&a[i].out), a[i].out.n);
		buf_done(&a[i].out);
	}
}

static void ask_all(struct registries *r, const char *home, const char *root, char *const *env)
{
	size_t n;
	struct registry_question *q = registries_questions(r, home, root, &n);
	struct asked *a = xcalloc(n + 1, sizeof *a);
	for (size_t i = 0; i < n; i++)
		start(&a[i], &q[i], env);
	take_answers(r, a, q, n);
	free(a);
	registry_questions_free(q, n);
}

// cargo prints its default index nowhere, but carries it: the one sparse index in its program.
static void scan_program(struct registries *r, const char *path)
{
	static const char mark[] = "sparse+https://";
	struct stat st;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > PROGRAM_MAX)
		return;
	size_t n = (size_t)st.st_size;
	char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return;
	size_t before = strv_len(r->list);
	for (char *at = p; (at = memmem(at, n - (size_t)(at - p), mark, sizeof mark - 1)); at += sizeof mark - 1) {
		// Text stands beside text there: the URL ends at its first '/'.
		size_t left = n - (size_t)(at - p), len = sizeof mark - 1;
		while (len < left && len < 300 && at[len] != '/')
			len++;
		registry_index(r, (struct str){at, len});
	}
	munmap(p, n);
	if (strv_len(r->list) > before)
		r->settled |= 1u << REGISTRY_CARGO;
}

static void scan_cargo(struct registries *r, const char *home, const char *root)
{
	const char *const places[][2] = {
		{home, ".rustup/toolchains/*/bin/cargo"},
		{root, "usr/bin/cargo"},
		{root, "usr/local/bin/cargo"},
		{root, "usr/local/rustup/toolchains/*/bin/cargo"},
		{root, "usr/lib/rust-*/bin/cargo"},
	};
	for (size_t i = 0; i < countof(places) && !registries_settled(r, REGISTRY_CARGO); i++) {
		auto_free char *pattern = xasprintf("%s/%s", places[i][0], places[i][1]);
		glob_t found = {0};
		if (!glob(pattern, 0, NULL, &found))
			scan_program(r, found.gl_pathv[0]);
		globfree(&found);
	}
}

// cargo keeps the config.json of an index that it has used; registries_from_files has read it then.
static bool is_cached(const char *home, const char *url)
{
	const char *host = url + strlen("https://");
	auto_free char *pattern =
		xasprintf("%s/.cargo/registry/index/%.*s-*/config.json", home, (int)strcspn(host, "/:"), host);
	glob_t found = {0};
	bool is = !glob(pattern, GLOB_NOSORT, NULL, &found);
	globfree(&found);
	return is;
}

static char **index_question(const char *url)
{
	static const char *const words[] = {"/usr/bin/env", "-C",     "/",	    "curl", "-fsSL",
					    "--proto",	    "=https", "--max-time", "3",    "--"};
	char **argv = NULL;
	auto_free char *file = xasprintf("%sconfig.json", url);
	for (size_t i = 0; i < countof(words); i++)
		strv_add(&argv, words[i]);
	strv_add(&argv, file);
	return argv;
}

static void ask_indexes(struct registries *r, const char *home, char *const *env)
{
	size_t n = 0, all = strv_len(r->indexes);
	struct registry_question *q = xcalloc(all + 1, sizeof *q);
	struct asked *a = xcalloc(all + 1, sizeof *a);
	for (size_t i = 0; i < all; i++) {
		if (is_cached(home, r->indexes[i]))
			continue;
		q[n] = (struct registry_question){REGISTRY_CARGO, index_question(r->indexes[i])};
		start(&a[n], &q[n], env);
		n++;
	}
	take_answers(r, a, q, n);
	free(a);
	registry_questions_free(q, n);
}

void registries_read(const char *home, const char *root, char *const *env, struct registries *out)
{
	registries_from_files(home, root, env, out);
	ask_all(out, home, root, env);
	if (!registries_settled(out, REGISTRY_CARGO))
		scan_cargo(out, home, root);
	if (!strcmp(root, "/")) // an image does not choose what the host asks
		ask_indexes(out, home, env);
}

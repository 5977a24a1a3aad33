// SPDX-License-Identifier: Apache-2.0
// Starting skep-gate: in the host's network, in the supervisor's own cgroup, with nothing but its channel.
#include "base/mem.h"
#include "base/proc.h"
#include "cell/cell_int.h"
#include "cell/gate_int.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHANNEL 3 // where skep-gate expects it

// A gate built with the address sanitizer maps terabytes, in V=asan also when we ourselves are built without.
#if defined __SANITIZE_ADDRESS__ || defined SKEP_ASAN
#define DATA_MAX RLIM_INFINITY
#else
#define DATA_MAX (256u << 20)
#endif

static void on_end(struct watch *w, uint32_t events)
{
	struct gate_process *k = container_of(w, struct gate_process, w);
	int fd = w->fd;
	(void)events;
	loop_del(k->loop, w);
	close(fd);
	if (k->gate)
		k->gate->process = NULL;
	loop_bury(k->loop, k, free);
}

void gate_kill(struct gate *g)
{
	if (!g->process)
		return;
	syscall(SYS_pidfd_send_signal, g->process->w.fd, SIGKILL, NULL, 0);
	g->process->gate = NULL;
	g->process = NULL;
}

static int watch_process(struct gate *g, pid_t pid, struct err *e)
{
	struct gate_process *k = xcalloc(1, sizeof *k);
	*k = (struct gate_process){.w = {.fd = -1, .fn = on_end}, .gate = g, .loop = &g->cell->loop, .pid = pid};
	auto_fd int fd = loop_pidfd(pid, e);
	if (fd < 0 || loop_add(k->loop, &k->w, fd, LOOP_IN, e)) {
		kill(pid, SIGKILL);
		free(k);
		return -1;
	}
	take_fd(&fd);
	g->process = k;
	return 0;
}

static char *program_path(const struct gate *g, struct err *e)
{
	return g->program ? xstrdup(g->program) : proc_beside("skep-gate", e);
}

// It is not the cell's to pay for, nor can the cell make it eat the host: rlimits, not a cgroup of its own.
static int limit(pid_t pid, struct err *e)
{
	static const struct {
		int what;
		rlim_t max;
	} limits[] = {{RLIMIT_NOFILE, 32768}, {RLIMIT_DATA, DATA_MAX}, {RLIMIT_CORE, 0}};
	for (size_t i = 0; i < countof(limits); i++) {
		struct rlimit l = {limits[i].max, limits[i].max}, now;
		if (prlimit(pid, limits[i].what, NULL, &now))
			return err_sys(e, "limits of the gate");
		if (now.rlim_max < l.rlim_max) // a host may have given less
			l = (struct rlimit){now.rlim_max, now.rlim_max};
		if (prlimit(pid, limits[i].what, &l, NULL))
			return err_sys(e, "limits of the gate");
	}
	return 0;
}

// It waits for its first frame, so the limits are there before it does anything.
int gate_spawn(struct gate *g, struct err *e)
{
	int sv[2];
	char name[] = "skep-gate", *argv[] = {name, NULL};
	auto_free char *path = program_path(g, e), *further = xasprintf("SKEP_CA_FILE=%s", g->ca_file);
	char *env[] = {*g->ca_file ? further : NULL, NULL};
	if (!path)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return err_sys(e, "socketpair");
	auto_fd int ours = sv[0], theirs = sv[1];
	struct proc_fd fds[] = {{theirs, CHANNEL}, {STDERR_FILENO, 2}};
	pid_t pid = proc_spawn(&(struct proc_spec){.path = path, .argv = argv, .env = env, .fds = fds, .n_fds = 2}, e);
	if (pid < 0 || watch_process(g, pid, e))
		return -1;
	chan_init(&g->chan, take_fd(&ours));
	return limit(pid, e);
}

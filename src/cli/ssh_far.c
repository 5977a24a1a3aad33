// SPDX-License-Identifier: Apache-2.0
#include "cli/ssh_far.h"

#include "base/chan.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/cell.h"
#include "cli/home.h"
#include "model/msg.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASKS 3 // of skep-ssh

struct far {
	struct api *api;
	const char *sandbox;
	struct chan ch;
};

static int spawn(const char *keys, int fd, struct err *e)
{
	auto_free char *program = home_program("skep-ssh", e), *dir = xstrdup(keys);
	char arg0[] = "skep-ssh", opt[] = "--keys", far[] = "--far";
	char *argv[] = {arg0, opt, dir, far, NULL}, *env[] = {NULL};
	struct proc_fd fds[] = {{STDIN_FILENO, STDIN_FILENO}, {STDOUT_FILENO, STDOUT_FILENO}, {STDERR_FILENO, STDERR_FILENO}, {fd, ASKS}};
	if (!program || proc_spawn(&(struct proc_spec){.path = program, .argv = argv, .env = env, .fds = fds, .n_fds = countof(fds)}, e) < 0)
		return -1;
	return 0;
}

// The pipes are skep-ssh's now: as long as we held them the client would not see their end.
static int let_go_of_stdio(struct err *e)
{
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return err_sys(e, "/dev/null");
	return 0;
}

static void refuse(struct far *f, const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(4096);
	wire_u32(&b, e->kind);
	wire_u32(&b, (uint32_t)e->sys);
	wire_str(&b, e->msg);
	chan_send_buf(&f->ch, M_ERR, 0, &b);
}

static int post(struct far *f, const struct frame *ask, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", f->sandbox, ask->stream ? "jobs" : "execs"), *body = xstrndup((const char *)ask->p, ask->n);
	auto_http_reply struct http_reply r = {0};
	if (api_raw(f->api, path, body, &r, e))
		return -1;
	chan_send(&f->ch, M_OK, 0, 0, r.body.p, r.body.n);
	return 0;
}

static int give(struct far *f, uint8_t type, int connected, uint32_t id)
{
	auto_fd int fd = connected;
	if (fd < 0)
		return -1;
	chan_send_fd(&f->ch, type, id, NULL, 0, fd);
	return 0;
}

static int serve(struct far *f, const struct frame *ask, struct err *e)
{
	struct wire w = {.p = ask->p, .n = ask->n};
	auto_free char *cell = api_path("/v1/sandboxes", f->sandbox, "cell");
	switch ((enum msg_type)ask->type) {
	case M_POST:
		return post(f, ask, e);
	case M_LINE:
		return give(f, M_OK, cell_connect(cell, e), 0);
	case M_DIAL:
		return give(f, M_DIALLED, cell_connect_port(f->sandbox, wire_get_u32(&w), e), ask->id);
	default:
		return err_set(e, ERR_INVALID, "skep-ssh asked for something unknown");
	}
}

int ssh_far_serve(struct api *a, const char *keys, const char *sandbox, struct err *e)
{
	struct far f = {.api = a, .sandbox = sandbox};
	struct frame ask;
	struct err end;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_sys(e, "socket pair");
	chan_init(&f.ch, pair[0]);
	auto_fd int theirs = pair[1];
	if (spawn(keys, theirs, e) || let_go_of_stdio(e)) {
		chan_close(&f.ch);
		return -1;
	}
	close_fd(&theirs);
	signal(SIGPIPE, SIG_IGN);
	while (!chan_recv(&f.ch, &ask, &end)) // its end is skep-ssh's
		if (serve(&f, &ask, e))
			refuse(&f, e);
	chan_close(&f.ch);
	return 0;
}

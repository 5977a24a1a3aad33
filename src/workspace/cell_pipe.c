// SPDX-License-Identifier: Apache-2.0
#include "workspace/cell_pipe.h"

#include "base/chan.h"
#include "base/fs.h"
#include "base/mem.h"
#include "model/msg.h"
#include "model/spec.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK (64u << 10)

struct pump {
	const struct cell_pipe *p;
	struct chan ch;
	uint64_t sent, allowed, got;
	bool in_over, ended;
	uint32_t status;
	struct buf said; // on stderr
};

static int connect_to(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return err_set(e, ERR_INVALID, "%s is no absolute path", path);
	auto_free char *dir = xstrndup(path, (size_t)(slash - path));
	auto_fd int at = fs_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, e);
	return at < 0 ? -1 : fs_unix_connect(at, slash + 1, e); // by its directory: the kernel takes 108 bytes
}

static void greet(struct pump *u)
{
	auto_buf struct buf hello = BUF_INIT(1024), credit = BUF_INIT(8);
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CLIENT);
	wire_str(&hello, u->p->ticket);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	chan_send_buf(&u->ch, M_HELLO, 0, &hello);
	wire_u64(&credit, UINT64_MAX); // not reading the socket is flow control enough
	chan_send(&u->ch, M_CREDIT, 1, 0, credit.p, credit.n);
	chan_send(&u->ch, M_CREDIT, 2, 0, credit.p, credit.n);
}

static int send_some(struct pump *u, struct err *e)
{
	while (!u->in_over && u->sent < u->allowed) {
		char bytes[CHUNK];
		size_t want = u->allowed - u->sent < sizeof bytes ? (size_t)(u->allowed - u->sent) : sizeof bytes;
		ssize_t n = u->p->in < 0 ? 0 : read(u->p->in, bytes, want);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "read what is to be sent");
		if (n > 0) {
			auto_buf struct buf b = BUF_INIT(CHUNK + 8);
			wire_u64(&b, u->sent);
			buf_add(&b, bytes, (size_t)n);
			chan_send(&u->ch, M_DATA, 0, 0, b.p, b.n);
			u->sent += (uint64_t)n;
		} else if (!n) {
			chan_send(&u->ch, M_EOF, 0, 0, NULL, 0);
			u->in_over = true;
		}
	}
	return 0;
}

static int on_data(struct pump *u, const struct frame *f, struct err *e)
{
	if (f->n < 8)
		return err_set(e, ERR_BUG, "malformed output");
	if (f->stream == 1)
		u->got += f->n - 8;
	if (u->p->most && u->got > u->p->most)
		return err_set(e, ERR_LIMIT, "more than %llu MiB came out", (unsigned long long)(u->p->most >> 20));
	if (f->stream == 1 && u->p->out >= 0)
		return fs_write_all(u->p->out, f->p + 8, f->n - 8, e);
	if (f->stream == 2)
		buf_add(&u->said, f->p + 8, f->n - 8); // as much as fits
	return 0;
}

static int on_frame(struct pump *u, const struct frame *f, struct err *e)
{
	struct wire w = {.p = f->p, .n = f->n};
	struct exec_result r;
	if (f->type == M_DATA)
		return on_data(u, f, e);
	if (f->type == M_GAP)
		return err_set(e, ERR_SYSTEM, "a part of the output was not kept");
	if (f->type == M_CREDIT && !f->stream) {
		uint64_t to = wire_get_u64(&w);
		u->allowed = to > u->allowed ? to : u->allowed;
		return send_some(u, e);
	}
	if (f->type == M_ERR) {
		enum err_kind kind = (enum err_kind)wire_get_u32(&w);
		wire_get_u32(&w);
		auto_free char *msg = wire_get_str(&w);
		return err_set(e, kind && kind < ERR_KINDS ? kind : ERR_SYSTEM, "%s", msg ? msg : "the cell refused");
	}
	if (f->type != M_EXIT)
		return 0;
	if (exec_result_read(&w, &r))
		return err_set(e, ERR_BUG, "malformed result");
	u->status = r.status;
	u->ended = true;
	exec_result_done(&r);
	return 0;
}

static int judge(struct pump *u, struct err *e)
{
	if (!u->status)
		return 0;
	char *line = (char *)buf_cstr(&u->said);
	line[strcspn(line, "\n")] = 0;
	return err_set(e, ERR_CONFLICT, "%s", *line ? line : "the work inside failed");
}

int cell_pipe_run(const struct cell_pipe *p, struct err *e)
{
	struct pump u = {.p = p, .said = BUF_INIT(64u << 10)};
	int fd = connect_to(p->socket, e), rc = 0;
	if (fd < 0)
		return -1;
	chan_init(&u.ch, fd);
	greet(&u);
	while (!rc && !u.ended) {
		struct frame f;
		rc = chan_recv(&u.ch, &f, e) || on_frame(&u, &f, e) ? -1 : 0;
	}
	chan_close(&u.ch);
	rc = rc ? -1 : judge(&u, e);
	buf_done(&u.said);
	return rc;
}

int cell_pipe_start(const struct cell_pipe *p, struct cell_pipe_child *c, struct err *e)
{
	int out[2], said[2];
	if (pipe2(out, O_CLOEXEC) || pipe2(said, O_CLOEXEC))
		return err_sys(e, "pipe");
	c->pid = fork();
	if (c->pid < 0)
		return err_sys(e, "fork");
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // it works for its parent alone
		struct cell_pipe own = *p;
		struct err why = {0};
		close(out[0]);
		own.out = out[1];
		int rc = cell_pipe_run(&own, &why);
		if (rc && write(said[1], &why, sizeof why) != (ssize_t)sizeof why)
			_exit(2);
		_exit(rc ? 1 : 0);
	}
	close(out[1]);
	close(said[1]);
	c->out = out[0];
	c->said = said[0];
	return 0;
}

int cell_pipe_wait(struct cell_pipe_child *c, struct err *e)
{
	struct err why;
	int status;
	close_fd(&c->out);
	ssize_t n = read(c->said, &why, sizeof why);
	close_fd(&c->said);
	if (waitpid(c->pid, &status, 0) != c->pid || status) {
		if (n == (ssize_t)sizeof why)
			*e = why;
		else
			err_set(e, ERR_SYSTEM, "the changes could not be read from the sandbox");
		return -1;
	}
	return 0;
}

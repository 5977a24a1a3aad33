// SPDX-License-Identifier: Apache-2.0
// libssh wants one socket; a ProxyCommand has two pipes. Two flows between them and a pair of sockets, each read no
// further than a bound ahead of its writer.
#include "base/mem.h"
#include "ssh/ssh_int.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define AHEAD (256u << 10)

static void flow_settle(struct relay_flow *f)
{
	struct loop *l = f->relay->loop;
	if (f->in.fd >= 0)
		loop_mod(l, &f->in, f->wait.n < AHEAD ? LOOP_IN : 0);
	if (f->out.fd >= 0)
		loop_mod(l, &f->out, f->wait.n ? LOOP_OUT : 0);
}

static void close_watch(struct relay_flow *f, struct watch *w)
{
	int fd = w->fd;
	if (fd < 0)
		return;
	loop_del(f->relay->loop, w);
	close(fd);
}

static void maybe_end(struct relay_flow *f)
{
	if (!f->ended || f->wait.n || f->out.fd < 0)
		return;
	shutdown(f->out.fd, SHUT_WR); // a pipe has no halves: closing is enough
	close_watch(f, &f->out);
	if (f == &f->relay->to_client)
		f->relay->on_end(f->relay);
}

static void stop_reading(struct relay_flow *f)
{
	f->ended = true;
	close_watch(f, &f->in);
	maybe_end(f);
}

static void on_out(struct watch *w, uint32_t events)
{
	struct relay_flow *f = container_of(w, struct relay_flow, out);
	ssize_t n = f->wait.n ? write(w->fd, f->wait.p, f->wait.n) : 0;
	bool gone = (n < 0 && errno != EAGAIN && errno != EINTR) || (!f->wait.n && (events & (LOOP_ERR | LOOP_HUP)));
	if (n > 0)
		buf_cut(&f->wait, (size_t)n);
	if (gone) { // nobody reads there any more
		buf_clear(&f->wait);
		stop_reading(f);
		return;
	}
	maybe_end(f);
	flow_settle(f);
}

static void on_in(struct watch *w, uint32_t events)
{
	struct relay_flow *f = container_of(w, struct relay_flow, in);
	(void)events;
	char *room = buf_room(&f->wait, AHEAD); // room for what a closed pipe still holds: its hang-up wakes us though we wait for nothing
	if (!room)
		return;
	ssize_t n = read(w->fd, room, AHEAD);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		stop_reading(f);
		return;
	}
	f->wait.n += (size_t)n;
	on_out(&f->out, 0);
}

static int flow_open(struct relay *r, struct relay_flow *f, int from, int to, struct err *e)
{
	*f = (struct relay_flow){.relay = r, .in = {.fd = -1, .fn = on_in}, .out = {.fd = -1, .fn = on_out}, .wait = BUF_INIT(8 * AHEAD)};
	auto_fd int in = from, out = to;
	if (fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK) || fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK))
		return err_sys(e, "make a stream non-blocking");
	if (loop_add(r->loop, &f->in, in, LOOP_IN, e))
		return -1;
	take_fd(&in);
	if (loop_add(r->loop, &f->out, out, 0, e))
		return -1;
	take_fd(&out);
	return 0;
}

int relay_open(struct relay *r, struct loop *l, struct err *e)
{
	int pair[2];
	r->loop = l;
	r->to_us = r->to_client = (struct relay_flow){.relay = r, .in.fd = -1, .out.fd = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_sys(e, "socket pair");
	auto_fd int ours = pair[0], theirs = pair[1];
	int again = fcntl(theirs, F_DUPFD_CLOEXEC, 3); // one descriptor for each direction
	if (again < 0)
		return err_sys(e, "socket pair");
	if (flow_open(r, &r->to_client, again, STDOUT_FILENO, e) || flow_open(r, &r->to_us, STDIN_FILENO, take_fd(&theirs), e))
		return -1;
	return take_fd(&ours);
}

static void flow_close(struct relay_flow *f)
{
	close_watch(f, &f->in);
	close_watch(f, &f->out);
	buf_done(&f->wait);
}

void relay_close(struct relay *r)
{
	flow_close(&r->to_us);
	flow_close(&r->to_client);
}

// SPDX-License-Identifier: Apache-2.0
// What all channels of a connection share: bytes both ways without a queue of our own, and their end.
#include "base/mem.h"
#include "ssh/ssh_int.h"
#include <stdlib.h>

static void on_chore(struct chore *t)
{
	struct lane *c = container_of(t, struct lane, chore);
	c->work(c);
}

// All of it stays where it is, in libssh, whose window is our bound; the chore takes it.
static int on_data(ssh_session ssh, ssh_channel ch, void *p, uint32_t n, int is_stderr, void *ctx)
{
	struct lane *c = ctx;
	(void)ssh, (void)ch, (void)p;
	if (is_stderr)
		return (int)n; // nobody inside could read it
	c->readable = true;
	lane_soon(c);
	return 0;
}

static void on_eof(ssh_session ssh, ssh_channel ch, void *ctx)
{
	struct lane *c = ctx;
	(void)ssh, (void)ch;
	c->eof = true;
	lane_soon(c);
}

static void on_close(ssh_session ssh, ssh_channel ch, void *ctx)
{
	struct lane *c = ctx;
	(void)ssh, (void)ch;
	c->closed = true;
	lane_soon(c);
}

void lane_begin(struct lane *c, struct server *s, ssh_channel ssh)
{
	c->s = s;
	c->ssh = ssh;
	c->chore.fn = on_chore;
	c->callbacks.userdata = c;
	c->callbacks.channel_data_function = on_data;
	c->callbacks.channel_eof_function = on_eof;
	c->callbacks.channel_close_function = on_close;
	ssh_callbacks_init(&c->callbacks);
	ssh_set_channel_callbacks(ssh, &c->callbacks);
	c->next = s->lanes;
	s->lanes = c;
	s->n_lanes++;
}

void lane_soon(struct lane *c)
{
	loop_soon(&c->s->loop, &c->chore);
}

static void bury(void *obj)
{
	struct lane *c = obj;
	c->free(c);
}

void lane_drop(struct lane *c)
{
	struct server *s = c->s;
	for (struct lane **p = &s->lanes; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			s->n_lanes--;
			break;
		}
	loop_forget(&s->loop, &c->chore);
	ssh_remove_channel_callbacks(c->ssh, &c->callbacks);
	ssh_channel_free(c->ssh); // now: the session may end in this round, and would free it as well
	loop_bury(&s->loop, c, bury);
	server_touch(s);
}

void lane_send(struct lane *c, struct buf *wait, bool is_stderr)
{
	size_t done = 0;
	while (done < wait->n && !c->closed && !c->closing) {
		uint32_t window = ssh_channel_window_size(c->ssh), n = wait->n - done < window ? (uint32_t)(wait->n - done) : window;
		// 0 also while keys are exchanged anew: the next packet brings us here again
		int sent = !n ? 0 : is_stderr ? ssh_channel_write_stderr(c->ssh, wait->p + done, n) : ssh_channel_write(c->ssh, wait->p + done, n);
		if (sent <= 0)
			break;
		done += (size_t)sent;
	}
	if (c->closed || c->closing)
		done = wait->n; // for nobody
	buf_cut(wait, done);
	if (done)
		server_touch(c->s);
}

size_t lane_take(struct lane *c, void *p, size_t n)
{
	if (!c->readable)
		return 0;
	int got = ssh_channel_read_nonblocking(c->ssh, p, (uint32_t)n, 0);
	server_touch(c->s); // a window may have grown
	if (got <= 0) {
		c->readable = false;
		return 0;
	}
	return (size_t)got;
}

void lane_close(struct lane *c)
{
	if (c->closing)
		return;
	if (!c->closed) {
		ssh_channel_send_eof(c->ssh);
		ssh_channel_close(c->ssh);
	}
	c->closing = true;
	server_touch(c->s);
}

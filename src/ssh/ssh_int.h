// SPDX-License-Identifier: Apache-2.0
// The parts of one connection:
//
//   server.c   the SSH session itself: key exchange, login, new channels       relay.c   its bytes from and to stdio
//   lane.c     what all channels share                                          ask.c     requests to skepd
//   session.c  a channel with a command, a shell or sftp: an exec of the cell   forward.c a channel to a port inside
//
// libssh calls back while it works on a packet, also out of a call of ours. So callbacks only note what came; the work is
// a chore at the end of the round (lane_soon), when libssh is not on the stack.
#pragma once
#include "base/buf.h"
#include "base/chan.h"
#include "ssh/server.h"
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

struct relay_flow {
	struct relay *relay;
	struct watch in, out;
	struct buf wait;
	bool ended; // nothing more comes
};

struct relay {
	struct loop *loop;
	struct relay_flow to_us, to_client;
	void (*on_end)(struct relay *r); // the client has got everything, or will get nothing more
};
// Returns our end of the connection, -1 on failure.
int relay_open(struct relay *r, struct loop *l, struct err *e) MUST_USE;
void relay_close(struct relay *r);

struct server {
	const struct server_args *args;
	struct loop loop;
	struct relay relay;
	ssh_bind bind;
	ssh_session session;
	ssh_event event;
	struct ssh_server_callbacks_struct callbacks;
	struct watch sock, signals;
	struct chore settle;
	struct timer patience; // for the login, then for the last bytes
	bool keyed, greeted, over;
	char *user; // "" = the sandbox's own
	struct chan dials; // to the cell, for forward.c; fd -1 until it is needed. Of another machine: to skep, for every question
	struct lane *lanes;
	unsigned n_lanes;
};
void server_touch(struct server *s); // something was sent

// A channel of the connection, with what is on our side of it.
struct lane {
	struct lane *next;
	struct server *s;
	ssh_channel ssh;
	struct ssh_channel_callbacks_struct callbacks;
	struct chore chore;
	void (*work)(struct lane *c);
	void (*free)(struct lane *c); // of the whole object; the SSH channel is freed before
	bool readable;			 // bytes of the client wait in libssh
	bool eof;			 // and nothing comes behind them
	bool closed;			 // by the client
	bool closing;			 // by us: nothing is sent any more
};
// Fills c and puts it in the list. NULL callbacks of c->callbacks stay as they are.
void lane_begin(struct lane *c, struct server *s, ssh_channel ssh);
void lane_soon(struct lane *c);
void lane_drop(struct lane *c); // never out of a callback: frees the channel, and itself after this round
// Sends what the client's window takes and cuts it off.
void lane_send(struct lane *c, struct buf *wait, bool is_stderr);
// Up to n bytes that the client sent; 0 when there are none now.
size_t lane_take(struct lane *c, void *p, size_t n);
void lane_close(struct lane *c);

ssh_channel session_open(struct server *s); // NULL: too many
void session_unread(struct server *s, ssh_channel ssh); // nobody reads its output any more: the command's next write fails

// A connection to a port of the cell's loopback, or to a socket there.
struct forward_to {
	const char *host;
	uint32_t port;
};
int forward_dial(struct server *s, const struct forward_to *to, struct err *e) MUST_USE; // its descriptor
void forward_open(struct server *s, ssh_channel ssh, int fd);				 // takes both

struct ask_exec {
	char *const *argv;
	bool job; // of init, not a command
	const char *cwd; // NULL = the workspace
	bool tty;
	uint32_t rows, cols;
	char *const *env; // K=V of the client; skepd knows which of them count
};
struct ask_ticket {
	char *socket, *ticket; // owned
};
void ask_ticket_done(struct ask_ticket *t);
// A few milliseconds, unless the sandbox itself must be waited for: then the whole connection, which is to this sandbox alone, waits.
int ask_exec(struct server *s, const struct ask_exec *x, struct ask_ticket *out, struct err *e) MUST_USE;
int ask_dial(struct server *s, struct ask_ticket *out, struct err *e) MUST_USE;
bool ask_is_far(const struct server *s);
int ask_attach(struct server *s, const struct ask_ticket *t, struct err *e) MUST_USE; // the cell's channel
int ask_connect(const char *path, struct err *e) MUST_USE; // a socket at an absolute path of any length

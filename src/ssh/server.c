// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/str.h"
#include "ssh/key.h"
#include "ssh/seal.h"
#include "ssh/ssh_int.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOGIN_MS 60000
#define LAST_BYTES_MS 2000
#define USER_MAX 64
// Clients look for the first word: OpenSSH's own then tells when nobody reads its output any more (eow@openssh.com), and
// others give the arguments of SFTP's symlink in the order that OpenSSH, and so everybody, takes them.
#define BANNER "OpenSSH_9.2 skep"

// Our stderr is the ssh client's: what a refusal can not say in the protocol is said there.
static void say(const char *msg)
{
	dprintf(STDERR_FILENO, "skep: %s\n", msg);
}

// --- callbacks of libssh ---

static int on_login(ssh_session ssh, const char *user, void *ctx)
{
	struct server *s = ctx;
	(void)ssh;
	if (strlen(user) > USER_MAX || !str_is_utf8(user, strlen(user)))
		return SSH_AUTH_DENIED;
	free(s->user);
	s->user = xstrdup(strcmp(user, KEY_ALIAS) ? user : ""); // "skep" is whoever a sandbox's commands run as
	s->greeted = true;
	timer_clear(&s->loop, &s->patience);
	return SSH_AUTH_SUCCESS;
}

static ssh_channel on_session(ssh_session ssh, void *ctx)
{
	(void)ssh;
	return session_open(ctx);
}

static int open_forward(struct server *s, ssh_message m)
{
	struct err e;
	struct forward_to to = {.host = ssh_message_channel_request_open_destination(m),
				.port = (uint32_t)ssh_message_channel_request_open_destination_port(m)};
	int fd = forward_dial(s, &to, &e);
	if (fd < 0) {
		say(e.msg);
		return 1;
	}
	ssh_channel ch = ssh_message_channel_request_open_reply_accept(m);
	if (!ch) {
		close(fd);
		return 1;
	}
	forward_open(s, ch, fd);
	return 0;
}

// What the callbacks above do not take. 1: the default answer, which is no.
static int on_message(ssh_session ssh, ssh_message m, void *ctx)
{
	struct server *s = ctx;
	int type = ssh_message_type(m), sub = ssh_message_subtype(m);
	(void)ssh;
	if (!s->greeted)
		return 1;
	if (type == SSH_REQUEST_CHANNEL_OPEN && sub == SSH_CHANNEL_DIRECT_TCPIP)
		return open_forward(s, m);
	// libssh does not tell its name; of those it does not know, OpenSSH's client sends no other without a terminal
	if (type == SSH_REQUEST_CHANNEL && sub == SSH_CHANNEL_REQUEST_UNKNOWN)
		session_unread(s, ssh_message_channel_request_channel(m));
	if (type == SSH_REQUEST_GLOBAL && sub == SSH_GLOBAL_REQUEST_TCPIP_FORWARD)
		say("-R is refused: a sandbox reaches the outside only through its gate (see skep-gate, `skep new --expose-host`)");
	if (type == SSH_REQUEST_CHANNEL && sub == SSH_CHANNEL_REQUEST_X11)
		say("X11 is not forwarded: a program inside could read every key you press");
	return 1;
}

// --- the session in our loop ---

static void settle(struct chore *t)
{
	struct server *s = container_of(t, struct server, settle);
	int flags = s->over ? 0 : ssh_get_poll_flags(s->session);
	if (s->sock.fd >= 0)
		loop_mod(&s->loop, &s->sock, LOOP_IN | (flags & SSH_WRITE_PENDING ? LOOP_OUT : 0));
}

void server_touch(struct server *s)
{
	loop_soon(&s->loop, &s->settle);
}

static void drop_lanes(struct server *s)
{
	while (s->lanes)
		lane_drop(s->lanes);
}

// The last bytes still go out, then that is all.
static void finish(struct server *s)
{
	if (s->over)
		return;
	s->over = true;
	drop_lanes(s);
	loop_del(&s->loop, &s->sock);
	ssh_silent_disconnect(s->session); // which ends the relay as soon as it is empty
	timer_set(&s->loop, &s->patience, LAST_BYTES_MS);
}

static int shake_hands(struct server *s)
{
	int rc = ssh_handle_key_exchange(s->session);
	if (rc == SSH_AGAIN)
		return 0;
	if (rc != SSH_OK)
		return -1;
	s->keyed = true;
	ssh_set_auth_methods(s->session, SSH_AUTH_METHOD_NONE);
	ssh_set_message_callback(s->session, on_message, s);
	return ssh_event_add_session(s->event, s->session) == SSH_OK ? 0 : -1;
}

static int step(struct server *s)
{
	if (!s->keyed && shake_hands(s))
		return -1;
	if (!s->keyed)
		return 0;
	if (ssh_event_dopoll(s->event, 0) == SSH_ERROR)
		return -1;
	for (struct lane *c = s->lanes; c; c = c->next) // windows may have grown
		lane_soon(c);
	return ssh_is_connected(s->session) && !(ssh_get_status(s->session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) ? 0 : -1;
}

static void on_sock(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, sock);
	(void)events;
	if (step(s))
		finish(s);
	server_touch(s);
}

static void on_relay_end(struct relay *r)
{
	loop_stop(&container_of(r, struct server, relay)->loop);
}

static void on_patience(struct timer *t)
{
	struct server *s = container_of(t, struct server, patience);
	if (!s->over)
		say("no login within a minute");
	loop_stop(&s->loop);
}

static void on_signals(struct watch *w, uint32_t events)
{
	struct server *s = container_of(w, struct server, signals);
	(void)events;
	if (loop_signal_next(w->fd)) {
		finish(s);
		loop_stop(&s->loop);
	}
}

// --- the beginning and the end ---

// Nobody proves here who he is: what comes over a network or from a terminal has nothing to do here.
static int check_stdio(struct err *e)
{
	for (int fd = 0; fd < 2; fd++) {
		struct sockaddr_storage a = {0};
		socklen_t n = sizeof a;
		struct stat st;
		if (fstat(fd, &st) || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
			return err_set(e, ERR_INVALID, "this end of an SSH connection is for a ProxyCommand: use `skep ssh ID`");
		if (!getsockname(fd, (struct sockaddr *)&a, &n) && a.ss_family != AF_UNIX)
			return err_set(e, ERR_DENIED, "skep-ssh does not serve network connections");
	}
	return 0;
}

static int make_session(struct server *s, int fd, struct err *e)
{
	bool no_config = false;
	ssh_key key = key_load(s->args->keys, e);
	if (!key)
		return -1;
	s->bind = ssh_bind_new();
	s->session = ssh_new();
	s->event = ssh_event_new();
	if (!s->bind || !s->session || !s->event)
		return err_set(e, ERR_SYSTEM, "libssh has no memory");
	if (ssh_bind_options_set(s->bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no_config) ||
	    ssh_bind_options_set(s->bind, SSH_BIND_OPTIONS_BANNER, BANNER) ||
	    ssh_bind_options_set(s->bind, SSH_BIND_OPTIONS_IMPORT_KEY, key)) // owns it now
		return err_set(e, ERR_SYSTEM, "libssh: %s", ssh_get_error(s->bind));
	if (ssh_bind_accept_fd(s->bind, s->session, fd) != SSH_OK)
		return err_set(e, ERR_SYSTEM, "libssh: %s", ssh_get_error(s->bind));
	s->callbacks = (struct ssh_server_callbacks_struct){
		.userdata = s, .auth_none_function = on_login, .channel_open_request_session_function = on_session};
	ssh_callbacks_init(&s->callbacks);
	ssh_set_server_callbacks(s->session, &s->callbacks);
	ssh_set_blocking(s->session, 0);
	return 0;
}

static int begin(struct server *s, struct err *e)
{
	static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
	s->sock.fn = on_sock;
	s->signals.fn = on_signals;
	s->settle.fn = settle;
	s->patience.fn = on_patience;
	s->relay.on_end = on_relay_end;
	int fd = relay_open(&s->relay, &s->loop, e);
	if (fd < 0)
		return -1;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (make_session(s, fd, e) || loop_add(&s->loop, &s->sock, fd, LOOP_IN, e))
		return -1;
	int sig = loop_signals(signals, countof(signals), e);
	if (sig < 0 || loop_add(&s->loop, &s->signals, sig, LOOP_IN, e))
		return -1;
	timer_set(&s->loop, &s->patience, LOGIN_MS);
	if (seal_self(ask_is_far(s) ? SEAL_NOTHING : SEAL_SOCKETS, e))
		return -1;
	if (shake_hands(s)) // sends our banner
		return err_set(e, ERR_SYSTEM, "libssh: %s", ssh_get_error(s->session));
	return 0;
}

static void end(struct server *s)
{
	drop_lanes(s);
	chan_close(&s->dials);
	relay_close(&s->relay);
	loop_done(&s->loop);
	if (s->event)
		ssh_event_free(s->event);
	ssh_free(s->session);
	ssh_bind_free(s->bind);
	free(s->user);
}

int server_run(const struct server_args *a, struct err *e)
{
	struct server s = {.args = a, .user = xstrdup(""), .sock.fd = -1, .signals.fd = -1, .dials.fd = -1};
	if (check_stdio(e) || loop_init(&s.loop, e))
		return -1;
	signal(SIGPIPE, SIG_IGN);
	if (ask_is_far(&s)) {
		fcntl(a->asks, F_SETFD, FD_CLOEXEC);
		chan_init(&s.dials, a->asks);
	}
	if (begin(&s, e))
		return -1; // the pipes stay open: the client goes when they end, and should see the reason before
	int rc = loop_run(&s.loop, e);
	end(&s);
	return rc;
}

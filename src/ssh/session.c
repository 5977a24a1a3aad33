// SPDX-License-Identifier: Apache-2.0
// A session channel: at most one command, shell or sftp server. It starts in the home directory, since that is what clients
// mean by a path without a slash; a shell for a person, in the workspace; and with SKEP_DIR set, there. The bytes go between the channel and the cell's socket
// (channel C of model/msg.h), each side no faster than the other one takes them.
//
// When the client goes, by a word or without one, the cell does to the command what a lost SSH connection does (M_HANGUP).
#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"
#include "model/msg.h"
#include "model/spec.h"
#include "ssh/ssh_int.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ENV_MAX 64	     // variables of one channel
#define ENV_BYTES (32u << 10)
#define CHUNK (64u << 10)
#define QUEUE_HIGH (512u << 10)
#define STATUS_FAILED 125 // skep itself, as `skep exec` says it

struct session {
	struct lane c;
	bool asked; // for its command
	bool tty;
	uint32_t rows, cols;
	char **env;
	size_t env_bytes;
	char *dir; // SKEP_DIR, or NULL

	struct chan cell;
	bool attached; // cell is in use
	uint64_t in_off, in_credit, got[3];
	bool in_over;	    // the command's input has ended
	struct buf wait[2]; // for the client: stdout, stderr
	bool ended, told;
	struct exec_result result;
};

static struct session *session_of(void *ctx)
{
	return container_of((struct lane *)ctx, struct session, c);
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"FPE", SIGFPE},	 {"HUP", SIGHUP},   {"ILL", SIGILL},
	{"INT", SIGINT},   {"KILL", SIGKILL}, {"PIPE", SIGPIPE}, {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV},
	{"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, // RFC 4254 6.9: these have names
};

static void leave_cell(struct session *x)
{
	if (!x->attached)
		return;
	chan_flush(&x->cell);
	chan_close(&x->cell);
	x->attached = false;
}

static void free_session(struct lane *c)
{
	struct session *x = session_of(c);
	leave_cell(x);
	exec_result_done(&x->result);
	strv_free(x->env);
	free(x->dir);
	buf_done(&x->wait[0]);
	buf_done(&x->wait[1]);
	free(x);
}

// --- to the client ---

static void tell(struct session *x, const char *msg)
{
	buf_fmt(&x->wait[1], "skep: %s%s", msg, x->tty ? "\r\n" : "\n");
}

static void end_with(struct session *x, uint32_t status, const char *why)
{
	if (why)
		tell(x, why);
	x->result = (struct exec_result){.status = status};
	x->ended = true;
	lane_soon(&x->c);
}

static void tell_end(struct session *x)
{
	const char *name = NULL;
	for (size_t i = 0; i < countof(signals); i++)
		if (x->result.signal == (uint32_t)signals[i].number)
			name = signals[i].name;
	x->told = true;
	if (name)
		ssh_channel_request_send_exit_signal(x->c.ssh, name, 0, "", "");
	else
		ssh_channel_request_send_exit_status(x->c.ssh, (int)x->result.status);
	lane_close(&x->c);
	leave_cell(x);
}

// --- from the cell ---

static void on_output(struct session *x, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	uint64_t off = wire_get_u64(&w);
	if (w.bad || f->stream < 1 || f->stream > 2)
		return;
	uint64_t seen = off < x->got[f->stream] ? x->got[f->stream] - off : 0;
	if (seen >= w.n)
		return;
	x->got[f->stream] = off + w.n;
	buf_add(&x->wait[f->stream - 1], w.p + seen, w.n - (size_t)seen);
	if (x->wait[0].n + x->wait[1].n > QUEUE_HIGH)
		chan_pause(&x->cell, true);
}

static void on_credit(struct session *x, struct wire *w)
{
	uint64_t upto = wire_get_u64(w), taken = wire_get_u64(w);
	if (!w->bad && upto > x->in_credit)
		x->in_credit = upto;
	if (!w->bad && taken > x->in_off) // others write, too
		x->in_off = taken;
}

static void on_exit_frame(struct session *x, struct wire *w)
{
	if (x->ended || exec_result_read(w, &x->result))
		return;
	x->ended = true;
	if (x->result.reason)
		tell(x, x->result.reason);
}

static void on_refusal(struct session *x, struct wire *w)
{
	(void)wire_get_u32(w);
	(void)wire_get_u32(w);
	auto_free char *msg = wire_get_str(w);
	if (!x->ended)
		end_with(x, STATUS_FAILED, msg ? msg : "the cell refused");
}

static void send_signal(struct session *x, int sig)
{
	auto_buf struct buf b = BUF_INIT(4);
	wire_u32(&b, (uint32_t)sig);
	if (x->attached)
		chan_send_buf(&x->cell, M_SIGNAL, 0, &b);
}

static void on_frame(struct chan *ch, struct frame *f)
{
	struct session *x = container_of(ch, struct session, cell);
	struct wire w = {.p = f->p, .n = f->n};
	switch ((enum msg_type)f->type) {
	case M_DATA:
		on_output(x, f);
		break;
	case M_CREDIT:
		if (!f->stream)
			on_credit(x, &w);
		break;
	case M_SUSPENDED: // there is no shell of ours that could ever continue it
		send_signal(x, SIGCONT);
		break;
	case M_HIT: {
		auto_free char *limit = wire_get_str(&w), *msg = wire_get_str(&w);
		if (limit && msg)
			tell(x, msg);
		break;
	}
	case M_EXIT:
		on_exit_frame(x, &w);
		break;
	case M_ERR:
		on_refusal(x, &w);
		break;
	default: // a question of the gate is answered elsewhere, or by its time
		break;
	}
	lane_soon(&x->c);
}

static void on_cell_closed(struct chan *ch)
{
	struct session *x = container_of(ch, struct session, cell);
	leave_cell(x);
	if (!x->ended)
		end_with(x, STATUS_FAILED, "the sandbox was stopped before the command ended");
	lane_soon(&x->c);
}

static void on_cell_drained(struct chan *ch)
{
	lane_soon(&container_of(ch, struct session, cell)->c);
}

// --- work: whatever can move, moves ---

static void take_input(struct session *x)
{
	static char frame[8 + CHUNK];
	while (x->attached && !x->in_over && x->c.readable && x->in_credit > x->in_off && chan_queued(&x->cell) < QUEUE_HIGH) {
		uint64_t may = x->in_credit - x->in_off;
		size_t n = lane_take(&x->c, frame + 8, may < CHUNK ? (size_t)may : CHUNK);
		if (!n)
			break;
		for (int i = 0; i < 8; i++)
			frame[i] = (char)(STDIN_APPEND >> 8 * i);
		if (x->in_credit != UINT64_MAX) // else nobody reads it: it is thrown away here
			chan_send(&x->cell, M_DATA, 0, 0, frame, 8 + n);
		x->in_off += n;
	}
	if (x->attached && x->c.eof && !x->c.readable && !x->in_over) {
		chan_send(&x->cell, M_EOF, 0, 0, NULL, 0);
		x->in_over = true;
	}
}

static void session_work(struct lane *c)
{
	struct session *x = session_of(c);
	if (c->closed) {
		lane_drop(c);
		return;
	}
	lane_send(c, &x->wait[0], false);
	lane_send(c, &x->wait[1], true);
	if (x->attached && x->wait[0].n + x->wait[1].n < QUEUE_HIGH)
		chan_pause(&x->cell, false);
	take_input(x);
	if (x->ended && !x->told && !x->wait[0].n && !x->wait[1].n)
		tell_end(x);
}

// --- the beginning ---

static void greet_cell(struct session *x, const char *ticket)
{
	auto_buf struct buf hello = BUF_INIT(4096);
	wire_u32(&hello, PROTO_VERSION);
	wire_u8(&hello, ROLE_CLIENT);
	wire_str(&hello, ticket);
	wire_u64(&hello, 0);
	wire_u64(&hello, 0);
	chan_send_buf(&x->cell, M_HELLO, 0, &hello);
	chan_send(&x->cell, M_HANGUP, 0, 0, NULL, 0);
}

static int attach(struct session *x, const struct ask_ticket *t, struct err *e)
{
	int fd = ask_attach(x->c.s, t, e);
	if (fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "the sandbox ended before its command could be reached");
	chan_init(&x->cell, fd);
	x->cell.on_frame = on_frame;
	x->cell.on_close = on_cell_closed;
	x->cell.on_drain = on_cell_drained;
	x->attached = true;
	return chan_attach(&x->cell, &x->c.s->loop, e);
}

// What can not be begun is told on the channel's stderr: a refused request has no words.
static int begin(struct session *x, char *const *argv, bool job)
{
	struct ask_ticket t = {0};
	struct err e;
	if (x->asked)
		return 1;
	x->asked = true;
	struct ask_exec ask = {.argv = argv, .job = job, .cwd = x->dir, .tty = x->tty && !job, .rows = x->rows, .cols = x->cols, .env = x->env};
	if (ask_exec(x->c.s, &ask, &t, &e) || attach(x, &t, &e)) {
		leave_cell(x);
		end_with(x, STATUS_FAILED, e.msg);
	} else {
		greet_cell(x, t.ticket);
	}
	ask_ticket_done(&t);
	return 0;
}

// $0 = "-" stays where it is.
static int begin_shell(struct session *x, bool stay, char *how, char *command)
{
	static char sh[] = "/bin/sh", flag[] = "-c", here[] = "-", home[] = "~";
	static char script[] = "[ \"$0\" = - ] || cd || :; exec \"${SHELL:-/bin/sh}\" \"$@\"";
	char *argv[] = {sh, flag, script, stay || x->dir ? here : home, how, command, NULL};
	return begin(x, argv, false);
}

static int on_exec(ssh_session ssh, ssh_channel ch, const char *command, void *ctx)
{
	static char flag[] = "-c";
	auto_free char *text = xstrdup(command);
	(void)ssh, (void)ch;
	return begin_shell(session_of(ctx), false, flag, text);
}

static int on_shell(ssh_session ssh, ssh_channel ch, void *ctx)
{
	static char flag[] = "-l";
	struct session *x = session_of(ctx);
	(void)ssh, (void)ch;
	return begin_shell(x, x->tty, flag, NULL);
}

static int on_subsystem(ssh_session ssh, ssh_channel ch, const char *name, void *ctx)
{
	static char op[] = "sftp";
	struct session *x = session_of(ctx);
	char *argv[] = {op, x->dir, NULL};
	(void)ssh, (void)ch;
	return strcmp(name, "sftp") ? 1 : begin(x, argv, true);
}

static void set_size(struct session *x, int width, int height)
{
	x->cols = width > 0 && width <= 10000 ? (uint32_t)width : 80;
	x->rows = height > 0 && height <= 10000 ? (uint32_t)height : 24;
}

static void add_env(struct session *x, const char *name, const char *value)
{
	auto_free char *kv = xasprintf("%s=%s", name, value);
	size_t n = strlen(kv);
	if (!*name || strchr(name, '=') || !str_is_utf8(kv, n) || strv_len(x->env) >= ENV_MAX || x->env_bytes + n > ENV_BYTES)
		return;
	x->env_bytes += n;
	strv_add(&x->env, kv);
}

static int on_pty(ssh_session ssh, ssh_channel ch, const char *term, int width, int height, int px, int py, void *ctx)
{
	struct session *x = session_of(ctx);
	(void)ssh, (void)ch, (void)px, (void)py;
	if (x->asked || x->tty)
		return -1;
	x->tty = true;
	set_size(x, width, height);
	if (*term)
		add_env(x, "TERM", term);
	return 0;
}

static int on_resize(ssh_session ssh, ssh_channel ch, int width, int height, int px, int py, void *ctx)
{
	struct session *x = session_of(ctx);
	auto_buf struct buf b = BUF_INIT(8);
	(void)ssh, (void)ch, (void)px, (void)py;
	set_size(x, width, height);
	wire_u32(&b, x->rows);
	wire_u32(&b, x->cols);
	if (x->attached && x->tty)
		chan_send_buf(&x->cell, M_WINSIZE, 0, &b);
	return 0;
}

// Which of them count is skepd's to say: the same list as for `skep exec`.
static int on_env(ssh_session ssh, ssh_channel ch, const char *name, const char *value, void *ctx)
{
	struct session *x = session_of(ctx);
	(void)ssh, (void)ch;
	if (strcmp(name, "SKEP_DIR")) {
		add_env(x, name, value);
	} else if (*value == '/' && strlen(value) < ENV_BYTES) {
		free(x->dir);
		x->dir = xstrdup(value);
	}
	return 0;
}

static void on_signal(ssh_session ssh, ssh_channel ch, const char *name, void *ctx)
{
	(void)ssh, (void)ch;
	for (size_t i = 0; i < countof(signals); i++)
		if (!strcmp(signals[i].name, name))
			send_signal(session_of(ctx), signals[i].number);
}

void session_unread(struct server *s, ssh_channel ssh)
{
	for (struct lane *c = s->lanes; c; c = c->next) {
		struct session *x = session_of(c);
		if (c->ssh == ssh && c->work == session_work && x->attached && !x->tty)
			chan_send(&x->cell, M_EOF, 1, 0, NULL, 0);
	}
}

ssh_channel session_open(struct server *s)
{
	if (s->n_lanes >= LIMIT_SSH_CHANNELS)
		return NULL;
	ssh_channel ssh = ssh_channel_new(s->session);
	if (!ssh)
		return NULL;
	struct session *x = xcalloc(1, sizeof *x);
	*x = (struct session){
		.c = {.work = session_work,
		      .free = free_session,
		      .callbacks = {.channel_pty_request_function = on_pty,
				    .channel_shell_request_function = on_shell,
				    .channel_exec_request_function = on_exec,
				    .channel_subsystem_request_function = on_subsystem,
				    .channel_env_request_function = on_env,
				    .channel_signal_function = on_signal,
				    .channel_pty_window_change_function = on_resize}},
		.wait = {BUF_INIT(QUEUE_HIGH + FRAME_MAX + (64u << 10)), BUF_INIT(QUEUE_HIGH + FRAME_MAX + (64u << 10))},
	};
	lane_begin(&x->c, s, ssh);
	return ssh;
}

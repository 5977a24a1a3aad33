// SPDX-License-Identifier: Apache-2.0
// One poll loop, no byte lost: what comes from the cell goes to the sinks in order, and when a slow reader
// lets too much wait we stop reading the socket, which makes the cell and the writer wait. What comes from
// stdin goes to the cell as far as it granted. Frames are read and written here rather than through
// base/chan, because a peer that closes while we still send must not cost us what it sent before (its exit
// status, the last output).
#include "cli/pump_int.h"

#include "base/mem.h"
#include "cli/cell.h"
#include "cli/out.h"
#include "cli/term.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROMPT_RETRY_MS 50  // while another process asks on this terminal
#define READ_FIRST 4000u // until there was more: a short command says little

void pump_result_done(struct pump_result *r)
{
	exec_result_done(&r->exit);
	strv_free(r->changes);
	changes_sum_done(&r->sum);
	strv_free(r->hits);
	*r = (struct pump_result){0};
}

bool pump_has_told(const struct pump_result *r, const char *msg)
{
	for (char **h = r->hits; h && *h; h++)
		if (!strcmp(*h, msg))
			return true;
	return false;
}

static bool is_full(const struct pump *p)
{
	return sink_waiting(&p->sinks[0]) > LIMIT_OUTPUT_WINDOW || sink_waiting(&p->sinks[1]) > LIMIT_OUTPUT_WINDOW;
}

enum { P_SOCK, P_STDIN, P_OUT, P_ERR, P_SIG, P_SCREEN, P_COUNT };

// A descriptor with nothing to ask is left out (-1): its hang-up would make poll spin.
static void ask(const struct pump *p, struct pollfd *fds)
{
	short sock = (short)((!p->closed && !is_full(p) ? POLLIN : 0) | (p->out.n && !p->mute ? POLLOUT : 0));
	fds[P_SOCK] = (struct pollfd){.fd = sock ? p->sock : -1, .events = sock};
	fds[P_STDIN] = (struct pollfd){.fd = pump_wants_stdin(p) ? p->s->in : -1, .events = POLLIN};
	for (int i = 0; i < 2; i++)
		fds[P_OUT + i] = (struct pollfd){.fd = sink_poll_fd(&p->sinks[i]), .events = POLLOUT};
	fds[P_SCREEN] = (struct pollfd){.fd = p->screen_open ? sink_poll_fd(&p->screen) : -1, .events = POLLOUT};
	fds[P_SIG] = (struct pollfd){.fd = p->sigfd, .events = POLLIN};
}

static int flush_sinks(struct pump *p, const struct pollfd *fds)
{
	for (int i = 0; i < 2; i++)
		if ((fds[P_OUT + i].revents || p->sinks[i].prompted) && sink_flush(&p->sinks[i], p->e))
			return pump_sink_failed(p);
	return 0;
}

static int wait_ms(const struct pump *p)
{
	int ask = ask_wait_ms(&p->ask);
	if (p->sinks[0].prompted || p->sinks[1].prompted || ask_is_due(&p->ask))
		return PROMPT_RETRY_MS;
	return line_comes_back(&p->line) && (ask < 0 || ask > LINE_ALIVE_MS) ? LINE_ALIVE_MS : ask;
}

static int turn(struct pump *p)
{
	struct pollfd fds[P_COUNT];
	ask(p, fds);
	int ready = poll(fds, P_COUNT, wait_ms(p));
	if (ready < 0) {
		if (errno == EINTR)
			return 0;
		err_sys(p->e, "poll");
		return pump_refuse(p);
	}
	if (!ready && line_comes_back(&p->line))
		pump_put_alive(p);
	for (int sig; fds[P_SIG].revents && !p->fatal && (sig = loop_signal_next(p->sigfd));)
		pump_on_signal(p, sig);
	if (p->fatal)
		return -1;
	if (flush_sinks(p, fds) || (pump_ask_turn(p) && pump_sink_failed(p)))
		return -1;
	if ((fds[P_SOCK].revents & ~POLLOUT) && pump_read_cell(p))
		return -1;
	if (fds[P_STDIN].revents)
		pump_read_stdin(p);
	pump_flush_out(p);
	return 0;
}

static bool has_all(const struct pump *p)
{
	return p->done || (p->exited && !p->s->to_end);
}

// All output comes before the exit status.
static bool is_over(const struct pump *p)
{
	bool told = p->closed || has_all(p);
	return told && !sink_waiting(&p->sinks[0]) && !sink_waiting(&p->sinks[1]);
}

static void greet(struct pump *p)
{
	pump_put_hello(p);
	pump_put_credit(p, 1);
	pump_put_credit(p, 2);
	pump_flush_out(p);
}

// While there is no line, a terminal is as it was and a signal ends us as it would end any program. One line says so.
static int wait_for_line(struct pump *p)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP};
	sigset_t set, was;
	auto_buf struct buf b = BUF_INIT(256);
	sigemptyset(&set);
	for (size_t i = 0; i < countof(ours); i++)
		sigaddset(&set, ours[i]);
	term_restore();
	buf_fmt(&b, "skep: connection lost, trying again%s%s\n", p->s->exec ? ". The command goes on: skep attach " : "", p->s->exec ? p->s->exec : "");
	if (isatty(STDERR_FILENO) && !p->line.until_ms)
		out_stderr(&b);
	sigprocmask(SIG_UNBLOCK, &set, &was);
	int fd = line_again(&p->line, p->e);
	sigprocmask(SIG_SETMASK, &was, NULL);
	return fd;
}

// The line broke before everything was said.
static int come_back(struct pump *p)
{
	close_fd(&p->sock);
	p->sock = wait_for_line(p);
	if (p->sock < 0 && p->exited) {
		p->done = true; // what is missing is only what changed
		return 0;
	}
	if (p->sock < 0)
		return pump_refuse(p);
	buf_clear(&p->in);
	buf_clear(&p->out);
	if (pump_ask_drop(p, ": the connection was lost")) // refused, since nobody was there
		return pump_sink_failed(p);
	if (p->line.stranger) // nobody can say what was heard, and it is late for it
		line_heard(&p->line, p->line.signalled);
	p->out_at = p->in_credit = 0;
	p->came_back = true;
	p->closed = p->mute = false;
	p->repeat = true;
	greet(p);
	pump_take_terminal(p);
	return 0;
}

static int begin(struct pump *p)
{
	p->sock = line_open(&p->line, p->s->socket, p->s->ticket, p->s->exec, p->e);
	if (p->sock < 0 && (p->e->sys == ENOENT || p->e->sys == ECONNREFUSED))
		err_set(p->e, ERR_UNAVAILABLE, "the cell ended before skep could attach to it");
	if (p->sock < 0)
		return -1;
	greet(p);
	signal(SIGPIPE, SIG_IGN); // a reader that went away is an answer of write
	if (pump_open_signals(p))
		return -1;
	if (p->s->tty && p->s->in >= 0 && isatty(p->s->in))
		return term_raw(p->s->in, p->e);
	return 0;
}

static int outcome(struct pump *p)
{
	if (p->fatal)
		pump_die_of(p);
	if (p->r->out_closed)
		return 0;
	if (p->refused)
		return -1;
	if (p->exited)
		return 0;
	if (cell_is_far() && p->s->exec)
		return err_set(p->e, ERR_UNAVAILABLE, "the connection was lost before the command ended. If it goes on: skep attach %s", p->s->exec);
	return err_set(p->e, ERR_UNAVAILABLE, "the cell died before the command ended");
}

int pump_run(const struct pump_spec *s, struct pump_result *out, struct err *e)
{
	struct pump p = {
		.s = s,
		.r = out,
		.e = e,
		.sock = -1,
		.sigfd = -1,
		.ask_lock = -1,
		.in_over = s->in < 0,
		.chunk = READ_FIRST,
		.in = BUF_INIT(FRAME_HEAD + FRAME_MAX + READ_CHUNK),
		.out = BUF_INIT(1u << 20),
		.got = {0, s->out_from, s->err_from},
	};
	*out = (struct pump_result){0};
	sigprocmask(SIG_BLOCK, NULL, &p.mask_before);
	sink_open(&p.sinks[0], s->out);
	sink_open(&p.sinks[1], s->err);
	p.joined = s->out >= 0 && s->err >= 0 && sink_is_same(&p.sinks[0], &p.sinks[1]);
	int rc = begin(&p);
	while (!rc && !is_over(&p) && !turn(&p))
		if (p.closed && !has_all(&p) && line_comes_back(&p.line) && come_back(&p))
			break;
	term_restore();
	if (line_comes_back(&p.line) && p.sock >= 0) { // we do not come back any more
		pump_put_frame(&p, M_SEEN, 0, &(struct buf){0});
		pump_flush_last_words(&p);
	}
	if (!rc)
		rc = outcome(&p);
	sigprocmask(SIG_SETMASK, &p.mask_before, NULL);
	sink_close(&p.sinks[0]);
	sink_close(&p.sinks[1]);
	pump_ask_close(&p);
	buf_done(&p.in);
	buf_done(&p.out);
	line_close(&p.line);
	close_fd(&p.sock);
	close_fd(&p.sigfd);
	if (rc)
		pump_result_done(out);
	return rc;
}

// SPDX-License-Identifier: Apache-2.0
// One poll loop, no byte lost: what comes from the cell goes to the sinks in order, and when a slow reader
// lets too much wait we stop reading the socket, which makes the cell and the writer wait. What comes from
// stdin goes to the cell as far as it granted. Frames are read and written here rather than through
// base/chan, because a peer that closes while we still send must not cost us what it sent before (its exit
// status, the last output).
#include "cli/pump.h"

#include "base/chan.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/ask.h"
#include "cli/cell.h"
#include "cli/line.h"
#include "cli/out.h"
#include "cli/plain.h"
#include "cli/sink.h"
#include "cli/term.h"
#include "model/msg.h"
#include "model/policy.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK (256u << 10)
#define READ_FIRST 4000u // until there was more: a short command says little
#define STDIN_CHUNK (128u << 10)
#define DATA_HEAD (FRAME_HEAD + 8u) // frame header and offset
#define HITS_MAX 32		    // different messages shown
#define LAST_WORDS_MS 1000	    // to get a signal out before we stop or die
#define ALIVE_MS 25000		    // of silence on a line that may break

struct pump {
	const struct pump_spec *s;
	struct pump_result *r;
	struct err *e;
	struct line line;
	int sock, sigfd;
	bool closed;  // the cell closed the connection
	bool mute;    // it takes nothing more from us
	bool refused; // *e is filled: the cell said no, or writing failed
	bool exited;
	int fatal; // signal that ends us
	struct buf in, out;
	size_t chunk, out_at; // chunk: bytes asked for at once
	struct sink sinks[2]; // stdout, stderr
	struct plain plain[2];
	bool joined;	      // both are the same file: one queue keeps their order
	uint64_t got[3];      // by stream: offset of the next byte
	uint64_t in_off, in_credit;
	uint64_t mine;	     // bytes of stdin sent by us alone
	bool in_over, typed; // typed: bytes of stdin were sent
	bool in_ended;	     // and the cell was told that there are no more
	bool done;		// M_DONE came
	bool came_back;		// on a line that is not the first
	bool repeat;		// and the cell has yet to say what of stdin it has
	struct ask ask;
	sigset_t mask_before;
};

void pump_result_done(struct pump_result *r)
{
	exec_result_done(&r->exit);
	strv_free(r->changes);
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

static struct sink *sink_of(struct pump *p, int stream)
{
	return &p->sinks[stream == 2 && !p->joined];
}

// --- to the cell ---

static void put_head(char *at, uint32_t n, uint8_t type, uint8_t stream)
{
	uint8_t head[FRAME_HEAD] = {n, n >> 8, n >> 16, n >> 24, type, stream};
	memcpy(at, head, sizeof head);
}

static void put_frame_of(struct pump *p, enum msg_type type, uint8_t stream, uint32_t id, const struct buf *body)
{
	if (p->mute)
		return;
	char *at = buf_room(&p->out, FRAME_HEAD);
	assert(at); // its bound is far above what one round adds
	put_head(at, (uint32_t)body->n, (uint8_t)type, stream);
	for (int i = 0; i < 4; i++)
		at[8 + i] = (char)(id >> 8 * i);
	p->out.n += FRAME_HEAD;
	buf_add(&p->out, body->p, body->n);
}

static void put_frame(struct pump *p, enum msg_type type, uint8_t stream, const struct buf *body)
{
	put_frame_of(p, type, stream, 0, body);
}

static void put_signal(struct pump *p, int sig)
{
	auto_buf struct buf b = BUF_INIT(4);
	wire_u32(&b, (uint32_t)sig);
	put_frame(p, M_SIGNAL, 0, &b);
}

static void put_winsize(struct pump *p)
{
	uint32_t rows, cols;
	auto_buf struct buf b = BUF_INIT(8);
	term_size(&rows, &cols);
	wire_u32(&b, rows);
	wire_u32(&b, cols);
	put_frame(p, M_WINSIZE, 0, &b);
}

static void put_hello(struct pump *p)
{
	auto_buf struct buf b = BUF_INIT(4096);
	line_hello(&p->line, &b, p->got);
	put_frame(p, M_HELLO, 0, &b);
}

// Output needs no window: not reading the socket is flow control enough.
static void put_credit(struct pump *p, uint8_t stream)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u64(&b, UINT64_MAX);
	put_frame(p, M_CREDIT, stream, &b);
}

static void put_seen(struct pump *p, bool idle)
{
	for (uint8_t stream = 1; stream < 3; stream++) {
		auto_buf struct buf b = BUF_INIT(8);
		wire_u64(&b, p->got[stream]);
		if (line_must_say(&p->line, stream, p->got[stream], idle))
			put_frame(p, M_SEEN, stream, &b);
	}
}

// Proxies end what is silent for a minute, and TCP notices a dead line only when something is sent.
static void put_alive(struct pump *p)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u64(&b, p->got[1]);
	put_frame(p, M_SEEN, 1, &b);
}

static void flush_out(struct pump *p)
{
	while (p->out_at < p->out.n && !p->mute) {
		ssize_t n = send(p->sock, p->out.p + p->out_at, p->out.n - p->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		p->mute = n < 0; // it ended while we wrote; what it said before is still to be read
		p->out_at += n > 0 ? (size_t)n : 0;
	}
	buf_clear(&p->out);
	p->out_at = 0;
}

// Before we stop or die the cell must know, or the exec would run on unattended.
static void flush_last_words(struct pump *p)
{
	uint64_t until = clock_ms() + LAST_WORDS_MS;
	for (flush_out(p); p->out.n && clock_ms() < until; flush_out(p))
		poll(&(struct pollfd){.fd = p->sock, .events = POLLOUT}, 1, LAST_WORDS_MS);
}

static int malformed(struct pump *p);

// --- from stdin ---

static bool wants_stdin(const struct pump *p)
{
	bool may = p->in_credit > p->in_off || p->ask.n; // a question is answered whether or not the command reads
	return !p->in_over && !p->exited && !p->mute && may && p->out.n < STDIN_CHUNK;
}

// Who only joined an exec and typed nothing does not end its input for others.
static void end_stdin(struct pump *p)
{
	p->in_over = true;
	p->in_ended = !p->s->join || p->typed;
	if (p->in_ended)
		put_frame(p, M_EOF, 0, &(struct buf){0});
}

// Behind a new greeting: what the cell does not have is sent again, as one frame; it is less than the cell's window.
static void repeat_stdin(struct pump *p, uint64_t taken)
{
	auto_buf struct buf b = BUF_INIT(p->line.kept.max + 8);
	p->in_off = taken + p->line.kept.n;
	p->mine = p->line.kept_from + p->line.kept.n;
	wire_u64(&b, p->line.kept_from);
	buf_add(&b, p->line.kept.p, p->line.kept.n);
	if (p->line.kept.n)
		put_frame(p, M_DATA, 0, &b);
	if (p->in_ended)
		put_frame(p, M_EOF, 0, &(struct buf){0});
}

// The exec closed its stdin: whoever writes to ours should get to know, as without us in between.
static void drop_stdin(struct pump *p)
{
	struct stat st;
	p->in_over = true;
	if (p->s->in < 0 || fstat(p->s->in, &st) || !S_ISFIFO(st.st_mode))
		return;
	auto_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0 && dup2(null, p->s->in) < 0)
		return;
}

static int on_credit(struct pump *p, struct wire *w)
{
	uint64_t upto = wire_get_u64(w), taken = wire_get_u64(w), mine = line_comes_back(&p->line) ? wire_get_u64(w) : 0;
	if (w->bad)
		return malformed(p);
	if (upto == UINT64_MAX) {
		p->repeat = false;
		drop_stdin(p);
		return 0;
	}
	if (p->repeat && p->line.stranger)
		line_guess(&p->line, taken);
	else
		line_taken(&p->line, mine, taken);
	if (p->repeat)
		repeat_stdin(p, taken);
	else if (p->in_off < taken) // others write, too
		p->in_off = taken;
	p->repeat = false;
	p->in_credit = upto;
	return 0;
}

// --- questions of the gate ---

static bool can_ask(const struct pump *p)
{
	return p->s->tty && p->s->in >= 0 && !p->exited && isatty(p->s->in);
}

static void put_answer(struct pump *p, const struct ask_answer *a)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u8(&b, a->allow ? VERDICT_ALLOW : VERDICT_DENY);
	wire_u8(&b, (uint8_t)a->scope);
	put_frame_of(p, M_ANSWER, 0, a->id, &b);
}

// What the question and its answer look like; then the next one. A program that draws the whole screen draws it again.
static int show_ask(struct pump *p, struct buf *text)
{
	bool answered = text->n;
	ask_show(&p->ask, text);
	if (answered && !p->ask.n)
		put_winsize(p);
	return text->n && sink_put(sink_of(p, 1), text->p, text->n, p->e) ? -1 : 0;
}

static int on_ask(struct pump *p, uint32_t id, struct wire *w)
{
	auto_buf struct buf text = BUF_INIT(8192);
	if (!can_ask(p) || !ask_add(&p->ask, id, w)) {
		put_answer(p, &(struct ask_answer){.id = id});
		return 0;
	}
	return show_ask(p, &text);
}

static int ask_too_late(struct pump *p)
{
	struct ask_answer a;
	auto_buf struct buf text = BUF_INIT(8192);
	if (!ask_late(&p->ask, &a, &text))
		return 0;
	put_answer(p, &a);
	return show_ask(p, &text);
}

// True: the keys were an answer.
static bool keys_answer(struct pump *p, const char *keys, size_t n)
{
	struct ask_answer a;
	auto_buf struct buf text = BUF_INIT(8192);
	if (!ask_keys(&p->ask, keys, n, &a, &text))
		return false;
	put_answer(p, &a);
	if (show_ask(p, &text))
		p->fatal = SIGHUP; // the terminal is gone
	return true;
}

static void read_stdin(struct pump *p)
{
	uint64_t may = p->in_credit > p->in_off ? p->in_credit - p->in_off : 64;
	size_t want = may < STDIN_CHUNK ? (size_t)may : STDIN_CHUNK;
	char *at = buf_room(&p->out, DATA_HEAD + want);
	assert(at);
	ssize_t n = read(p->s->in, at + DATA_HEAD, want);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) { // also EIO: the terminal is gone
		end_stdin(p);
		return;
	}
	if (p->ask.n && keys_answer(p, at + DATA_HEAD, (size_t)n))
		return;
	put_head(at, 8 + (uint32_t)n, M_DATA, 0);
	for (int i = 0; i < 8; i++)
		at[FRAME_HEAD + i] = (char)((line_comes_back(&p->line) ? p->mine : STDIN_APPEND) >> 8 * i);
	line_keep(&p->line, p->mine, at + DATA_HEAD, (size_t)n);
	p->typed = true;
	p->mine += (uint64_t)n;
	p->out.n += DATA_HEAD + (size_t)n;
	p->in_off += (uint64_t)n;
}

// --- from the cell ---

static int refuse(struct pump *p)
{
	p->refused = true;
	return -1;
}

static int malformed(struct pump *p)
{
	err_set(p->e, ERR_BUG, "the cell sent a malformed frame");
	return refuse(p);
}

static int sink_failed(struct pump *p)
{
	if (p->e->sys != EPIPE && p->e->sys != EIO)
		return refuse(p);
	// As in a shell's pipeline: the command's next write fails, it does not work on for nobody.
	put_frame(p, M_EOF, 1, &(struct buf){0});
	flush_out(p);
	p->r->out_closed = true;
	return -1;
}

static int tell_gap(struct pump *p, int stream, uint64_t from, uint64_t to)
{
	p->got[stream] = to;
	if (!p->s->marks && !p->came_back) // who was away too long shall know
		return 0;
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "skep: [%llu bytes of %s were not kept]\n", (unsigned long long)(to - from),
		stream == 1 ? "stdout" : "stderr");
	return sink_put(&p->sinks[1 - p->joined], b.p, b.n, p->e) ? sink_failed(p) : 0;
}

// NULL: it ends here.
static int put_output(struct pump *p, int stream, const char *bytes, size_t n)
{
	int fd = stream == 1 ? p->s->out : p->s->err;
	if (!p->s->plain || fd < 0 || !isatty(fd))
		return n ? sink_put(sink_of(p, stream), bytes, n, p->e) : 0;
	auto_buf struct buf b = BUF_INIT(5 * n + 256);
	if (bytes)
		plain_add(&p->plain[stream - 1], bytes, n, &b);
	else
		plain_end(&p->plain[stream - 1], &b);
	return sink_put(sink_of(p, stream), b.p, b.n, p->e);
}

static int on_data(struct pump *p, int stream, struct wire *w)
{
	uint64_t off = wire_get_u64(w);
	if (w->bad || stream < 1 || stream > 2)
		return malformed(p);
	if (off > p->got[stream] && tell_gap(p, stream, p->got[stream], off))
		return -1;
	uint64_t seen = p->got[stream] - off; // a repeated part is not shown twice
	if (seen >= w->n)
		return 0;
	p->got[stream] += w->n - seen;
	return put_output(p, stream, (const char *)w->p + seen, w->n - seen) ? sink_failed(p) : 0;
}

static int on_gap(struct pump *p, int stream, struct wire *w)
{
	uint64_t from = wire_get_u64(w), to = wire_get_u64(w);
	if (w->bad || stream < 1 || stream > 2 || to < from)
		return malformed(p);
	return to > p->got[stream] ? tell_gap(p, stream, from, to) : 0;
}

static int on_ended(struct pump *p, struct wire *w)
{
	if (p->exited || exec_result_read(w, &p->r->exit))
		return malformed(p);
	p->exited = true;
	term_restore(); // what follows may take a moment, and ^C should work again
	return put_output(p, 1, NULL, 0) || put_output(p, 2, NULL, 0) ? sink_failed(p) : 0;
}

static int on_changes(struct pump *p, struct wire *w)
{
	uint32_t n = wire_get_u32(w);
	char **list = wire_get_strv(w);
	if (w->bad || p->r->changes)
		return malformed(p);
	p->r->n_changes = n;
	p->r->changes = list;
	p->r->has_changes = true;
	return 0;
}

// The cell says which limit was hit while the command still runs, or just before it dies of it.
static int on_hit(struct pump *p, struct wire *w)
{
	auto_free char *limit = wire_get_str(w), *msg = wire_get_str(w);
	if (w->bad || !limit || !msg)
		return malformed(p);
	if (!p->s->hits || pump_has_told(p->r, msg) || strv_len(p->r->hits) >= HITS_MAX)
		return 0;
	strv_add(&p->r->hits, msg);
	auto_buf struct buf b = BUF_INIT(8192);
	buf_str(&b, "skep: ");
	out_text(&b, msg);
	buf_str(&b, p->s->tty && !p->exited ? "\r\n" : "\n"); // a raw terminal does not return by itself
	return sink_put(sink_of(p, 2), b.p, b.n, p->e) ? sink_failed(p) : 0;
}

static int on_refusal(struct pump *p, struct wire *w)
{
	uint32_t kind = wire_get_u32(w);
	(void)wire_get_u32(w);
	auto_free char *msg = wire_get_str(w);
	if (kind == ERR_DENIED && p->repeat && p->s->exec && !p->line.stranger) {
		p->line.stranger = p->closed = p->mute = true; // it waited for us no longer
		return 0;
	}
	err_set(p->e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s",
		msg ? msg : "the cell refused");
	return refuse(p);
}

static void suspend(struct pump *p);

static int on_frame(struct pump *p, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	switch ((enum msg_type)f->type) {
	case M_DATA:
		return on_data(p, f->stream, &w);
	case M_GAP:
		return on_gap(p, f->stream, &w);
	case M_CREDIT:
		return f->stream ? 0 : on_credit(p, &w);
	case M_SUSPENDED:
		suspend(p);
		return 0;
	case M_EXIT:
		return on_ended(p, &w);
	case M_HIT:
		return on_hit(p, &w);
	case M_ASK:
		return on_ask(p, f->id, &w) ? sink_failed(p) : 0;
	case M_CHANGES:
		return on_changes(p, &w);
	case M_DONE:
		p->r->removed = wire_get_u8(&w);
		p->done = true;
		return 0;
	case M_ERR:
		return on_refusal(p, &w);
	default: // what a newer cell may tell
		return 0;
	}
}

// Handles every whole frame in p->in and keeps the rest.
static int take_frames(struct pump *p)
{
	size_t at = 0;
	while (p->in.n - at >= FRAME_HEAD) {
		const uint8_t *h = (const uint8_t *)p->in.p + at;
		uint32_t n = h[0] | h[1] << 8 | h[2] << 16 | (uint32_t)h[3] << 24;
		if (n > FRAME_MAX || h[6])
			return malformed(p);
		if (p->in.n - at < FRAME_HEAD + n)
			break;
		uint32_t id = h[8] | h[9] << 8 | h[10] << 16 | (uint32_t)h[11] << 24;
		if (on_frame(p, &(struct frame){.type = h[4], .stream = h[5], .id = id, .p = h + FRAME_HEAD, .n = n, .fd = -1}))
			return -1;
		if (h[4] != M_ERR)
			line_works(&p->line);
		at += FRAME_HEAD + n;
	}
	buf_cut(&p->in, at);
	return 0;
}

static int read_cell(struct pump *p)
{
	char *room = buf_room(&p->in, p->chunk);
	assert(room);
	ssize_t n = recv(p->sock, room, p->chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		p->closed = p->mute = true;
		return 0;
	}
	p->in.n += (size_t)n;
	bool idle = (size_t)n < p->chunk;
	if (!idle)
		p->chunk = READ_CHUNK;
	if (take_frames(p))
		return -1;
	put_seen(p, idle);
	return 0;
}

// --- signals ---

static void take_terminal(struct pump *p)
{
	struct err e;
	if (!p->s->tty || p->exited)
		return;
	if (p->s->in < 0 || !isatty(p->s->in) || !term_raw(p->s->in, &e)) // one that is gone will say so when it is read
		put_winsize(p);
}

static void resume(struct pump *p)
{
	take_terminal(p);
	if (p->s->forward || p->s->tty)
		put_signal(p, SIGCONT);
}

// ^Z. SIGTSTP and not SIGSTOP: where no shell could ever continue us (an orphaned process group) the
// kernel drops it, and we go on at once.
static void suspend(struct pump *p)
{
	sigset_t tstp;
	sigemptyset(&tstp);
	sigaddset(&tstp, SIGTSTP);
	flush_last_words(p);
	term_restore();
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &tstp, NULL); // here we stop
	sigprocmask(SIG_BLOCK, &tstp, NULL);
	resume(p);
}

static void on_signal(struct pump *p, int sig)
{
	if (sig == SIGWINCH) {
		if (p->s->tty)
			put_winsize(p);
	} else if (sig == SIGCONT) {
		resume(p); // also after a SIGSTOP that we did not see coming
	} else if (sig == SIGTSTP) {
		if (!p->s->tty)
			put_signal(p, SIGSTOP);
		suspend(p);
	} else {
		if (p->s->forward)
			put_signal(p, sig);
		// With a pty ^C is a byte; a signal to us means us. And after the end nobody is left to ask.
		if (p->s->tty || p->exited)
			p->fatal = sig;
	}
}

static int open_signals(struct pump *p)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
	int set[countof(all)], n = 0;
	struct sigaction was;
	if (!p->s->forward && !p->s->tty)
		return 0;
	// What our starter had us ignore (nohup, a background job of a script) stays ignored.
	for (size_t i = 0; i < countof(all); i++)
		if (!sigaction(all[i], NULL, &was) && was.sa_handler != SIG_IGN)
			set[n++] = all[i];
	p->sigfd = loop_signals(set, n, p->e);
	return p->sigfd < 0 ? -1 : 0;
}

static void die_of(struct pump *p)
{
	sigset_t set;
	flush_last_words(p);
	term_restore();
	signal(p->fatal, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, p->fatal);
	raise(p->fatal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + p->fatal);
}

// --- the loop ---

static bool is_full(const struct pump *p)
{
	return sink_waiting(&p->sinks[0]) > LIMIT_OUTPUT_WINDOW || sink_waiting(&p->sinks[1]) > LIMIT_OUTPUT_WINDOW;
}

enum { P_SOCK, P_STDIN, P_OUT, P_ERR, P_SIG, P_COUNT };

// A descriptor with nothing to ask is left out (-1): its hang-up would make poll spin.
static void ask(const struct pump *p, struct pollfd *fds)
{
	short sock = (short)((!p->closed && !is_full(p) ? POLLIN : 0) | (p->out.n && !p->mute ? POLLOUT : 0));
	fds[P_SOCK] = (struct pollfd){.fd = sock ? p->sock : -1, .events = sock};
	fds[P_STDIN] = (struct pollfd){.fd = wants_stdin(p) ? p->s->in : -1, .events = POLLIN};
	for (int i = 0; i < 2; i++)
		fds[P_OUT + i] = (struct pollfd){.fd = sink_waiting(&p->sinks[i]) ? sink_poll_fd(&p->sinks[i]) : -1,
						 .events = POLLOUT};
	fds[P_SIG] = (struct pollfd){.fd = p->sigfd, .events = POLLIN};
}

static int flush_sinks(struct pump *p, const struct pollfd *fds)
{
	for (int i = 0; i < 2; i++)
		if (fds[P_OUT + i].revents && sink_flush(&p->sinks[i], p->e))
			return sink_failed(p);
	return 0;
}

static int wait_ms(const struct pump *p)
{
	int ask = ask_wait_ms(&p->ask);
	return line_comes_back(&p->line) && (ask < 0 || ask > ALIVE_MS) ? ALIVE_MS : ask;
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
		return refuse(p);
	}
	if (!ready && line_comes_back(&p->line))
		put_alive(p);
	for (int sig; fds[P_SIG].revents && !p->fatal && (sig = loop_signal_next(p->sigfd));)
		on_signal(p, sig);
	if (p->fatal)
		return -1;
	if (flush_sinks(p, fds) || (ask_too_late(p) && sink_failed(p)))
		return -1;
	if ((fds[P_SOCK].revents & ~POLLOUT) && read_cell(p))
		return -1;
	if (fds[P_STDIN].revents)
		read_stdin(p);
	flush_out(p);
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
	put_hello(p);
	put_credit(p, 1);
	put_credit(p, 2);
	flush_out(p);
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
		return refuse(p);
	buf_clear(&p->in);
	buf_clear(&p->out);
	ask_done(&p->ask); // refused, since nobody was there
	p->out_at = p->in_credit = 0;
	p->came_back = true;
	p->closed = p->mute = false;
	p->repeat = true;
	greet(p);
	take_terminal(p);
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
	if (open_signals(p))
		return -1;
	if (p->s->tty && p->s->in >= 0 && isatty(p->s->in))
		return term_raw(p->s->in, p->e);
	return 0;
}

static int outcome(struct pump *p)
{
	if (p->fatal)
		die_of(p);
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
		put_frame(&p, M_SEEN, 0, &(struct buf){0});
		flush_last_words(&p);
	}
	if (!rc)
		rc = outcome(&p);
	sigprocmask(SIG_SETMASK, &p.mask_before, NULL);
	sink_close(&p.sinks[0]);
	sink_close(&p.sinks[1]);
	ask_done(&p.ask);
	buf_done(&p.in);
	buf_done(&p.out);
	line_close(&p.line);
	close_fd(&p.sock);
	close_fd(&p.sigfd);
	if (rc)
		pump_result_done(out);
	return rc;
}
